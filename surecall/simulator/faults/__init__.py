"""Every drift of the catalogue, each a fault that the pipeline must cure, retry or refuse.

    bend("arguments_fenced", says_or_calls)     bends one clean reply
    DRIFTS["arguments_fenced"]                  says what must become of it

The drifts themselves stand in four modules, by the part of a reply that they bend.
"""

from surecall.simulator.faults import arguments as faults_arguments
from surecall.simulator.faults import calls as faults_calls
from surecall.simulator.faults import envelope as faults_envelope
from surecall.simulator.faults import values as faults_values
from surecall.simulator.faults.drift import DRIFTS, FAMILIES, Drift, bend

__all__ = ["DRIFTS", "FAMILIES", "FAULT_MODULES", "Drift", "bend"]

FAULT_MODULES = (faults_envelope, faults_calls, faults_arguments, faults_values)
