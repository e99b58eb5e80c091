"""Evaluates models: runs every model x profile x strategy x scenario x trial, and judges it.

To write a scenario, use `from surecall.eval import expect, scenario`.
"""

from surecall.eval.scenarios.expectations import expect
from surecall.eval.scenarios.function_scenarios import scenario

__all__ = ["expect", "scenario"]
