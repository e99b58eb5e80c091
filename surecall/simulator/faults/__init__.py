"""Every fault of shape in the catalogue; the pipeline must cure, retry or refuse each of them.

    apply_fault("arguments_fenced", says_or_calls)    spoils one clean reply
    SHAPE_FAULTS["arguments_fenced"]                  says what must happen then

The faults are in four modules, by the part of a reply that they change.
"""

from surecall.simulator.faults import arguments as faults_arguments
from surecall.simulator.faults import calls as faults_calls
from surecall.simulator.faults import envelope as faults_envelope
from surecall.simulator.faults import values as faults_values
from surecall.simulator.faults.shape_fault import FAMILIES, SHAPE_FAULTS, ShapeFault, apply_fault

__all__ = ["FAMILIES", "FAULT_MODULES", "SHAPE_FAULTS", "ShapeFault", "apply_fault"]

FAULT_MODULES = (faults_envelope, faults_calls, faults_arguments, faults_values)
