"""Restrict the schemas of guided calls to values that can succeed next.

Each tool gets one or more call forms: its schema, with the observed values filled in.

    one grounded parameter      an enum of its values, after a description of each
    several linked parameters   a form for each value of the first, with the values linked to it
    a need of the contract      the values that it names, as constants

A tool without a value for a required parameter has no form and is not exposed. Neither is one that
reported `retry=False`: a model that must write a call would only repeat it. Where the possible
values are unknown, the schema stays unchanged and the value is checked on arrival.

Values are described by the fields that distinguish them in the results:

    parcel_id   P-4411   contents 'books', status 'delivered'
                P-4478   contents 'a lamp', status 'in transit'

A small model that must choose among ids takes the first or the last. In a guided reply it first
writes the description and then the id. Fields with the same value everywhere are omitted; if the
user named a distinguishing value (`status 'in transit'`), only such fields are used. Fields whose
values differ in their first characters come first: after `name 'Le`, the model could hardly change
its choice between Lea and Leo.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.guided.grounding import (
    MAX_CHOICES,
    grounded_parameters,
    linked_parameters,
    parameter_choices,
)
from surecall.core.guided.protocol import ABOUT
from surecall.core.obligations import contract_progress
from surecall.core.observed_values import is_value_in, observed_values
from surecall.core.state import Run
from surecall.settings.contract import Need
from surecall.values.types import JSON, ToolSpec

MAX_DESCRIBED: Final = 24
_MAX_FIELD_CHARS: Final = 40
_MAX_DESCRIPTION_FIELDS: Final = 5


def distinguish_values(
    name: str, values: Sequence[Any], records: Sequence[JSON], user_texts: Sequence[str]
) -> dict[Any, str]:
    """Return a text for each value that ends with it and begins with what distinguishes it.

    Empty if no field distinguishes the values.
    """
    rows = [_row_of(name, value, records) for value in values]
    telling = [key for key in _row_keys(rows) if len({str(row.get(key)) for row in rows}) > 1]
    if not telling:
        return {}
    words = " ".join(user_texts).casefold()
    named = [key for key in telling if any(_is_mentioned(row.get(key), words) for row in rows)]
    told_by = sorted(
        named or telling,
        key=lambda key: _longest_shared_prefix([str(row.get(key)) for row in rows]),
    )
    first = told_by[:_MAX_DESCRIPTION_FIELDS]
    return {
        value: ", ".join([*_describe_fields(row, first), str(value)])
        for value, row in zip(values, rows, strict=True)
    }


def describe_value(name: str, value: Any, records: Sequence[JSON]) -> str:
    """Return the fields beside a value, as in `supplier 'Quist', day 'Friday'`."""
    if isinstance(value, list | dict):
        return ""
    row = _row_of(name, value, records)
    return ", ".join(_describe_fields(row, [*row][:_MAX_DESCRIPTION_FIELDS]))


def _row_of(name: str, value: Any, records: Sequence[JSON]) -> JSON:
    """Return the fields beside a value in a record that has it, preferably under that name."""
    named = [each for each in records if each.get(name) == value]
    found = named or [each for each in records if value in each.values()]
    return {key: item for key, item in found[0].items() if item != value} if found else {}


def _is_mentioned(item: Any, folded_text: str) -> bool:
    """Whether a case-folded text mentions a value."""
    return item is not None and is_value_in(str(item).casefold(), folded_text)


def _longest_shared_prefix(texts: Sequence[str]) -> int:
    """Return the length of the longest prefix that two of the texts share; two for Lea and Leo."""
    pairs = pairwise(sorted(set(texts)))
    return max((_shared_prefix_length(*pair) for pair in pairs), default=0)


def _shared_prefix_length(first: str, second: str) -> int:
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )


def _row_keys(rows: Sequence[JSON]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _describe_fields(row: JSON, keys: Sequence[str]) -> list[str]:
    """Return fields of a row as text, such as `day 'Friday'`."""
    return [
        f"{key[:_MAX_FIELD_CHARS]} '{str(row[key])[:_MAX_FIELD_CHARS]}'"
        for key in keys
        if key in row
    ]


Values: TypeAlias = tuple[Any, ...]
# Each value and its description get their own form, so that they always match.
MAX_FORMS: Final = 32


def call_forms(run: Run, spec: ToolSpec) -> list[ToolSpec]:
    """Return the forms in which a tool may be called now: one, several, or none."""
    if not spec.repeatable and _has_failed_permanently(run, spec):
        return []
    fixed = _required_constants(run, spec)
    about: dict[str, dict[Any, str]] = {}
    known: dict[str, Values] = {name: (value,) for name, value in fixed.items()}
    for name in grounded_parameters(run, spec):
        values = parameter_choices(run, spec, name).values
        if values == () and name in spec.parameters.get("required", ()):
            return []
        if values is not None and name not in known:
            known[name] = values
            if words := _distinguish_parameter(run, spec, name, values):
                about[name] = words
    forms = [known]
    free = [each for each in linked_parameters(run, spec) if not fixed.keys() & set(each.names)]
    if free and len(free[0].rows) <= MAX_CHOICES:
        (first, *others), rows = free[0]
        forms = [
            known | {first: (value,)} | _linked_values(rows, value, others)
            for value in dict.fromkeys(row[0] for row in rows)
            if first not in known or value in known[first]
        ]
    for name in about:
        apart = [form | {name: (value,)} for form in forms for value in form[name]]
        forms = apart if len(apart) <= MAX_FORMS else forms
    return [_bind_parameters(spec, form, about) if form else spec for form in forms]


def _has_failed_permanently(run: Run, spec: ToolSpec) -> bool:
    """Whether a tool's newest execution failed with `retry=False`."""
    own = [result for result in run.results if result.name == spec.name and result.executed]
    return bool(own) and not own[-1].ok and not own[-1].retry


def has_value_choice(spec: ToolSpec) -> bool:
    """Whether a form has a value that must be chosen among several described ones."""
    fields = spec.parameters.get("properties")
    return isinstance(fields, dict) and any(name.startswith(ABOUT) for name in fields)


def _distinguish_parameter(run: Run, spec: ToolSpec, name: str, values: Values) -> dict[Any, str]:
    """Return a description of each value of a parameter, without fields that are parameters too."""
    if not 1 < len(values) <= MAX_DESCRIBED:
        return {}
    bound = grounded_parameters(run, spec)
    rows = [
        {key: item for key, item in each.values.items() if key == name or key not in bound}
        for each in observed_values(run).rows
        if not bound[name] or each.source in bound[name]
    ]
    return distinguish_values(name, values, rows, observed_values(run).user_texts)


def _linked_values(rows: Iterable[Values], value: Any, other_names: list[str]) -> dict[str, Values]:
    """Return the values of the other parameters that are linked to a value of the first."""
    fitting = [row for row in rows if row[0] == value]
    return {
        name: tuple(dict.fromkeys(row[at] for row in fitting))
        for at, name in enumerate(other_names, 1)
    }


def _required_constants(run: Run, spec: ToolSpec) -> JSON:
    """Return the constants that all missing needs of a tool agree on; empty if they differ."""
    needs = [
        need for row in contract_progress(run).missing for need in row if need.tool == spec.name
    ]
    plain = [_plain_arguments(need) for need in needs]
    properties = spec.parameters.get("properties", {})
    alike = bool(plain) and all(values == plain[0] for values in plain)
    return plain[0] if alike and plain[0].keys() <= properties.keys() else {}


def _plain_arguments(need: Need) -> JSON:
    """Return the arguments for which a need demands a certain text or number."""
    return {
        name: value
        for name, value in need.arguments.items()
        if isinstance(value, str | int | float)
    }


def _bind_parameters(
    spec: ToolSpec, allowed_values: dict[str, Values], descriptions: dict[str, dict[Any, str]]
) -> ToolSpec:
    """Return a tool with its parameters restricted to values; those with no value are removed."""
    properties: JSON = {}
    required = list(spec.parameters.get("required", ()))
    for name, schema in spec.parameters.get("properties", {}).items():
        values = allowed_values.get(name)
        words = descriptions.get(name, {})
        fits = name in required and ABOUT + name not in spec.parameters["properties"]
        if values and fits and all(value in words for value in values):
            properties[ABOUT + name] = _enum_schema([words[value] for value in values])
            required.append(ABOUT + name)
        if values != ():
            properties[name] = schema if values is None else _enum_schema(values)
    bound = spec.parameters | {"properties": properties}
    if required:
        bound["required"] = required
    return msgspec.structs.replace(spec, parameters=bound)


def _enum_schema(values: Sequence[Any]) -> JSON:
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
