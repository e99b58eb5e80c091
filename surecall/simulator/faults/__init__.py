"""The catalog of shape faults. The pipeline must repair, retry, or reject each of them.

    apply_fault("arguments_fenced", reply)    returns the reply with the fault
    SHAPE_FAULTS["arguments_fenced"]          describes the fault and the expected outcome

Each module holds the faults of one part of a reply.
"""

from surecall.simulator.faults import argument_faults as faults_arguments
from surecall.simulator.faults import call_faults as faults_calls
from surecall.simulator.faults import envelope_faults as faults_envelope
from surecall.simulator.faults import value_faults as faults_values
from surecall.simulator.faults.shape_fault import FAMILIES, SHAPE_FAULTS, ShapeFault, apply_fault

__all__ = ["FAMILIES", "FAULT_MODULES", "SHAPE_FAULTS", "ShapeFault", "apply_fault"]

FAULT_MODULES = (faults_envelope, faults_calls, faults_arguments, faults_values)
