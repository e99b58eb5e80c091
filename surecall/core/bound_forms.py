"""The forms in which a tool may be called in a guided reply: its schema, with what was seen.

    one grounded parameter     an enum of what it may hold, after what tells the values apart
    several that are linked    a form for each value of the first, with what belongs to it
    a need of the contract     the values that it names, as constants

A tool that waits for a value has no form: it is not on offer. Neither is one that has said that
repeating will not help: who must write a call would only write another one. Where nobody can say
what a parameter may hold, the schema stays as it is, and the value is checked when it comes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.described_choices import MOST_DESCRIBED, described
from surecall.core.groundings import MOST_CHOICES, bound_parameters, choices, links
from surecall.core.obligations import progress
from surecall.core.seen import seen
from surecall.core.state import Run
from surecall.settings.contract import Need
from surecall.values.types import JSON, ToolSpec
from surecall.wire.protocols.guided import ABOUT

Values: TypeAlias = tuple[Any, ...]
# So that a value and what is said about it belong together, each pair has a form of its own.
MOST_FORMS: Final = 32


def bound_forms(run: Run, spec: ToolSpec) -> list[ToolSpec]:
    """Return a tool as it may be called now: in one form, in several, or in none."""
    if not spec.repeatable and _is_dead(run, spec):
        return []
    fixed = _constants(run, spec)
    about: dict[str, dict[Any, str]] = {}
    known: dict[str, Values] = {name: (value,) for name, value in fixed.items()}
    for name in bound_parameters(run, spec):
        values = choices(run, spec, name).values
        if values == () and name in spec.parameters.get("required", ()):
            return []
        if values is not None and name not in known:
            known[name] = values
            if words := _described(run, spec, name, values):
                about[name] = words
    forms = [known]
    free = [each for each in links(run, spec) if not fixed.keys() & set(each.names)]
    if free and len(free[0].rows) <= MOST_CHOICES:
        (first, *others), rows = free[0]
        forms = [
            known | {first: (value,)} | _beside(rows, value, others)
            for value in dict.fromkeys(row[0] for row in rows)
            if first not in known or value in known[first]
        ]
    for name in about:
        apart = [form | {name: (value,)} for form in forms for value in form[name]]
        forms = apart if len(apart) <= MOST_FORMS else forms
    return [_bound(spec, form, about) if form else spec for form in forms]


def _is_dead(run: Run, spec: ToolSpec) -> bool:
    """Whether a tool has failed for good, and not succeeded since."""
    own = [result for result in run.results if result.name == spec.name and result.executed]
    return bool(own) and not own[-1].ok and not own[-1].retry


def is_described(spec: ToolSpec) -> bool:
    """Whether a form has a value that must be chosen among several."""
    fields = spec.parameters.get("properties")
    return isinstance(fields, dict) and any(name.startswith(ABOUT) for name in fields)


def _described(run: Run, spec: ToolSpec, name: str, values: Values) -> dict[Any, str]:
    """Say of each value of a parameter what tells it apart, without what is a parameter, too."""
    if not 1 < len(values) <= MOST_DESCRIBED:
        return {}
    bound = bound_parameters(run, spec)
    rows = [
        {key: item for key, item in each.values.items() if key == name or key not in bound}
        for each in seen(run).records
        if not bound[name] or each.source in bound[name]
    ]
    return described(name, values, rows, seen(run).words)


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


def _bound(spec: ToolSpec, known: dict[str, Values], about: dict[str, dict[Any, str]]) -> ToolSpec:
    """Return a tool whose parameters hold one of some values; without any, they are left out."""
    properties: JSON = {}
    required = list(spec.parameters.get("required", ()))
    for name, schema in spec.parameters.get("properties", {}).items():
        values = known.get(name)
        words = about.get(name, {})
        fits = name in required and ABOUT + name not in spec.parameters["properties"]
        if values and fits and all(value in words for value in values):
            properties[ABOUT + name] = _one_of([words[value] for value in values])
            required.append(ABOUT + name)
        if values != ():
            properties[name] = schema if values is None else _one_of(values)
    bound = spec.parameters | {"properties": properties}
    if required:
        bound["required"] = required
    return msgspec.structs.replace(spec, parameters=bound)


def _one_of(values: Sequence[Any]) -> JSON:
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
