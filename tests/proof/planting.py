"""A table of planted defects: which claim each is for, and what must be reported of it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

Plant: TypeAlias = Callable[[pytest.MonkeyPatch, Path], Iterable[str]]


class Defect(NamedTuple):
    """A defect of a claim: what plants it and returns what is reported, and what must be in it."""

    claim: str
    plant: Plant
    reported: str


DEFECTS: Final[list[Any]] = []


def defect_of(claim: str, reported: str, *marks: pytest.MarkDecorator) -> Callable[[Plant], Plant]:
    """Add a function that plants a defect to the table."""

    def add(plant: Plant) -> Plant:
        name = f"{claim} {plant.__name__}"
        DEFECTS.append(pytest.param(Defect(claim, plant, reported), id=name, marks=marks))
        return plant

    return add
