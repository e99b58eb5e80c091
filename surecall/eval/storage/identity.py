"""What makes a run: the settings that change results, and the matrix that was asked for.

    {"seed": 0, "version": "0.1.0", …, "matrix": [{"cells": […], "scenarios": […]}]}

The matrix is what the filters select, in an order of its own, so that two filters that select the
same mean the same run. The number of trials is no part of it: a run can be topped up. A merged
run may have several matrices. Earlier versions wrote none, and kept every matrix of the same
settings in one run.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from surecall.eval.storage.trial import Cell
from surecall.values.types import JSON

MATRIX: Final = "matrix"


def with_matrix(settings: JSON, cells: Iterable[Cell], scenarios: Iterable[str]) -> JSON:
    """Return the identity of a run that is begun with some settings, for some cells."""
    rows = sorted([cell.model, cell.profile, cell.strategy] for cell in cells)
    return settings | {MATRIX: [{"cells": rows, "scenarios": sorted(scenarios)}]}


def settings_in(identity: Mapping[str, Any]) -> JSON:
    """Return the settings alone: with the same ones, results can be put together."""
    return {name: value for name, value in identity.items() if name != MATRIX}


def united(identities: Iterable[Mapping[str, Any]]) -> JSON:
    """Return the identity of runs of the same settings that are put together."""
    found = list(identities)
    # A run of an earlier version counts as a matrix that is not known.
    matrices = (matrix for identity in found for matrix in identity.get(MATRIX, [None]))
    by_text = {msgspec.json.encode(matrix): matrix for matrix in matrices}
    settings = settings_in(found[0])
    distinct = [by_text[text] for text in sorted(by_text)]
    return settings if distinct == [None] else settings | {MATRIX: distinct}


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Say in which settings two identities differ, one line for each."""
    one, other = settings_in(first), settings_in(second)
    names = sorted(one.keys() | other.keys())
    pairs = ((name, _written(one, name), _written(other, name)) for name in names)
    return [f"{name}: {here} and {there}" for name, here, there in pairs if here != there]


def _written(settings: JSON, name: str) -> str:
    if name not in settings:
        return "nothing"
    return msgspec.json.encode(settings[name], order="deterministic").decode()


def digest(value: Mapping[str, Any]) -> str:
    """Return a hash of a JSON object; the order of its keys does not count."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
