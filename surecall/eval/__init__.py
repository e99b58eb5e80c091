"""The evaluation: model x sampling profile x strategy x scenario x trial, judged.

`from surecall.eval import expect, scenario` is all that a scenario of one's own needs.
"""

from surecall.eval.scenarios.expectations import expect
from surecall.eval.scenarios.functions import scenario

__all__ = ["expect", "scenario"]
