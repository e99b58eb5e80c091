"""The forms in which a tool may be called in a guided reply: its schema, with what was seen.

    one grounded parameter     an enum of what it may hold
    several that are linked    a form for each value of the first, with what belongs to it
    a need of the contract     the values that it names, as constants

A tool that waits for a value has no form: it is not on offer. Where nobody can say what a parameter
may hold, the schema stays as it is, and the value is checked when it comes.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from surecall.core.groundings import MOST_CHOICES, bound_parameters, choices, links
from surecall.core.obligations import progress
from surecall.core.state import Run
from surecall.settings.contract import Need
from surecall.values.types import JSON, ToolSpec

Values: TypeAlias = tuple[Any, ...]


def bound_forms(run: Run, spec: ToolSpec) -> list[ToolSpec]:
    """Return a tool as it may be called now: in one form, in several, or in none."""
    fixed = _constants(run, spec)
    known: dict[str, Values] = {name: (value,) for name, value in fixed.items()}
    for name in bound_parameters(run, spec):
        values = choices(run, spec, name).values
        if values == () and name in spec.parameters.get("required", ()):
            return []
        if values is not None and name not in known:
            known[name] = values
    rows = links(run, spec)
    if not rows or len(rows) > MOST_CHOICES or fixed.keys() & spec.grounded.keys():
        return [_bound(spec, known) if known else spec]
    first, *others = spec.grounded
    return [
        _bound(spec, known | {first: (value,)} | _beside(rows, value, others))
        for value in dict.fromkeys(row[0] for row in rows)
        if first not in known or value in known[first]
    ]


def _beside(rows: Iterable[Values], value: Any, others: list[str]) -> dict[str, Values]:
    """Return what the other parameters may hold beside a value of the first."""
    fitting = [row for row in rows if row[0] == value]
    return {
        name: tuple(dict.fromkeys(row[at] for row in fitting)) for at, name in enumerate(others, 1)
    }


def _constants(run: Run, spec: ToolSpec) -> JSON:
    """Return the plain values that the contract wants of a tool now, if it wants only those."""
    needs = [need for row in progress(run).missing for need in row if need.tool == spec.name]
    plain = [_plain(need) for need in needs]
    properties = spec.parameters.get("properties", {})
    alike = bool(plain) and all(values == plain[0] for values in plain)
    return plain[0] if alike and plain[0].keys() <= properties.keys() else {}


def _plain(need: Need) -> JSON:
    return {
        name: value
        for name, value in need.arguments.items()
        if isinstance(value, str | int | float)
    }


def _bound(spec: ToolSpec, known: dict[str, Values]) -> ToolSpec:
    """Return a tool whose parameters hold one of some values; without any, they are left out."""
    parameters = spec.parameters
    properties = {
        name: _one_of(known[name]) if name in known else schema
        for name, schema in parameters.get("properties", {}).items()
        if known.get(name) != ()
    }
    return msgspec.structs.replace(spec, parameters=parameters | {"properties": properties})


def _one_of(values: Values) -> JSON:
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
