"""Counting the steps of a program: how work grows with its input, whatever the machine does.

A step is a line of Python that runs. Time would say more, for it also counts what happens inside
of built-in functions, but on a busy machine it says something else every day; growth of time is
measured by `bench/linear.py`.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

# Twice the input: a linear program takes twice the steps, a quadratic one four times.
LINEAR: Final = 2.6


def steps(work: Callable[[], object]) -> int:
    """Count the lines that some work runs in this thread."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how many times the steps become when the size doubles."""
    work(1)  # what is only done the first time is not counted
    return steps(lambda: work(2 * size)) / steps(lambda: work(size))
