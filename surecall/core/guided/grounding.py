"""Grounded parameters: which values they may hold now, and where a value came from.

    Annotated[str, Grounded]                  observed in the user's text or in any result
    Annotated[str, Grounded("find_order")]    observed in a result of that tool
    Need("refund", {"item_id": From(…)})      observed at that path of that tool's results

Texts are compared by whole words, so that O-77 does not match O-7731, and numbers as numbers, so
that 20 matches "20.00 EUR". An identifier (a parameter called `id`, `order_id`, `code`, and so on)
only matches a word with a digit, or a whole value of a result.

`parameter_choices` lists the possible values. Where the list may be incomplete (truncated results,
a parameter that takes any text of the user's, too many values), there is none, and the value is
only checked. Values that a read-only tool has refused are not listed again, nor are values looked
up before, until something has changed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from surecall.core.giving_up import is_safe_to_rerun
from surecall.core.obligations import is_protocol_error, is_wanted_by_contract
from surecall.core.observed_values import (
    USER,
    ObservedValue,
    is_text_or_number,
    is_value_in,
    normalized_value,
    numbers_in,
    observed_values,
    tools_returning,
    values_at_source,
    words_in,
)
from surecall.core.state import Run
from surecall.settings.contract import From, json_contains
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Problem, ToolCall, ToolSpec

MAX_CHOICES: Final = 200
MAX_SHOWN: Final = 12
MAX_CHOICE_CHARS: Final = 100
_KINDS: Final = ("string", "integer", "number")
_IDENTIFIER_WORDS: Final = ("id", "ids", "no", "nr", "number", "code", "key", "ref", "sku", "uuid")


class Choices(NamedTuple):
    """The values that a parameter may hold now; None if the list may be incomplete."""

    values: tuple[Any, ...] | None
    sources: tuple[str, ...] = ()


class LinkedParameters(NamedTuple):
    """Parameters whose values occur together in results, with those combinations."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def grounded_parameters(run: Run, spec: ToolSpec) -> dict[str, tuple[str, ...]]:
    """Return the grounded parameters of a tool, with the tools whose results ground them."""
    bound = dict(spec.grounded)
    for name, source in _contract_sources(run, spec.name).items():
        bound[name] = (source.tool,)
    return bound


def _contract_sources(run: Run, tool: str) -> dict[str, From]:
    """Return the arguments that all needs of a tool take from the same earlier results."""
    contract = run.config.contract
    needs = [] if contract is None else [need for need in contract.needs if need.tool == tool]
    first = needs[0].sources if needs else {}
    return first if all(need.sources == first for need in needs) else {}


def find_source(run: Run, spec: ToolSpec, name: str, value: Any) -> str | None:
    """Return where a value was observed: the user or a tool; None if nowhere."""
    demanded = _contract_sources(run, spec.name).get(name)
    if demanded is not None:
        found = any(json_contains(value, item) for item in values_at_source(run, demanded))
        return demanded.tool if found else None
    if isinstance(value, list):
        places = [find_source(run, spec, name, item) for item in value]
        return ", ".join(dict.fromkeys(filter(None, places))) if all(places) else None
    if not is_text_or_number(value) or value == "":
        return None
    tools = spec.grounded[name]
    leaves = [leaf for leaf in observed_values(run).values if not tools or leaf.source in tools]
    places_seen = (
        *tools_returning(leaves, value),
        *_sources_in_texts(run, leaves, name, value, tools),
    )
    return next(iter(places_seen), None)


def _sources_in_texts(
    run: Run, leaves: Sequence[ObservedValue], name: str, value: Any, tools: Sequence[str]
) -> Iterator[str]:
    """Yield the sources of texts that contain a value among other words."""
    if isinstance(value, str) and is_identifier_name(name) and not _looks_like_identifier(value):
        return
    texts = [] if tools else [(USER, words) for words in observed_values(run).user_texts]
    form = normalized_value(value)
    texts += [
        (leaf.source, leaf.value)
        for leaf in leaves
        if isinstance(leaf.value, str) and form not in leaf.echoed_forms
    ]
    for source, text in texts:
        if is_value_in(value, text):
            yield source


def is_identifier_name(name: str) -> bool:
    """Whether a parameter takes an identifier, judging by its name."""
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in name).split("_")
    return words[-1] in _IDENTIFIER_WORDS


def _looks_like_identifier(text: str) -> bool:
    return any(char.isdigit() for char in text) and not any(char.isspace() for char in text)


def parameter_choices(run: Run, spec: ToolSpec, name: str) -> Choices:
    """Return the values that a parameter may hold now."""
    sources = grounded_parameters(run, spec)[name]
    demanded = _contract_sources(run, spec.name).get(name)
    whole = not observed_values(run).truncated_tools.intersection(
        sources or {leaf.source for leaf in observed_values(run).values}
    )
    kind = spec.parameters.get("properties", {}).get(name, {}).get("type")
    certain = bool(sources) or is_identifier_name(name)
    if not whole or not certain or kind not in _KINDS:
        return Choices(None, sources)
    found = values_at_source(run, demanded) if demanded else _candidate_values(run, spec, name)
    fitting = dict.fromkeys(
        item for item in map(_as_kind, [kind] * len(found), found) if item != ""
    )
    used = [None, *used_values(run, spec, name)]
    remaining = [item for item in fitting if item not in used]
    return Choices(tuple(remaining) if len(remaining) <= MAX_CHOICES else None, sources)


def _as_kind(kind: str, value: Any) -> Any:
    """Return a value as the given JSON type; None if it does not fit."""
    match kind, value:
        case _, bool():
            return None
        case "string", int():
            return str(value)
        case "string", str() if len(value) <= MAX_CHOICE_CHARS and "\n" not in value:
            return value
        case "integer", int():
            return value
        case "number", int() | float():
            return value
        case _:
            return None


def _candidate_values(run: Run, spec: ToolSpec, name: str) -> list[Any]:
    """Return observed values for a parameter: those under its name, else all that may fit.

    If the parameter is grounded in no particular tool, words of the user count as well.
    """
    tools = spec.grounded[name]
    leaves = [leaf for leaf in observed_values(run).values if not tools or leaf.source in tools]
    own = [leaf.value for leaf in leaves if leaf.key in {name, f"{name}s"}]
    found = own or [value for leaf in leaves for value in _possible_values(name, leaf)]
    if not tools:
        words = " ".join(observed_values(run).user_texts)
        found += [word for word in words_in(words) if _looks_like_identifier(word)]
        ratios = (number.as_integer_ratio() for number in numbers_in(words))
        found += [whole for whole, parts in ratios if parts == 1]
    return found


def _possible_values(name: str, leaf: ObservedValue) -> list[Any]:
    """Return a value, or the identifiers in it if it is not an identifier itself."""
    value = leaf.value
    if not is_identifier_name(name) or is_identifier_name(leaf.key):
        return [value]
    words = words_in(value) if isinstance(value, str) else ()
    return [word for word in words if _looks_like_identifier(word) and not [*numbers_in(word)]]


def used_values(run: Run, spec: ToolSpec, name: str) -> list[Any]:
    """Return the values that a read-only tool need not be called with again.

    They were refused, or looked up already. For a write all values stay: a repetition is answered
    with the recorded result, while without the value the model would have to write another one.
    Where the contract requires another call, the values of earlier writes count as used as well.
    """
    alone = len(spec.parameters.get("properties", {})) == 1
    if not spec.read_only:
        writes = (call for call in run.successful_calls if call.name == spec.name and alone)
        return [call.arguments.get(name) for call in writes if is_wanted_by_contract(run, call)]
    if not alone and len(spec.grounded) != 1:
        return []
    used: list[Any] = []
    for call, result in run.answered_calls:
        value = call.arguments.get(name)
        if call.name == spec.name and value is not None and not is_protocol_error(result):
            refused = ErrorCode.ARGUMENT_ERROR in result.error_codes and result.executed
            used += [value] * (refused or (result.ok and alone))
        elif result.ok and result.executed and not is_safe_to_rerun(run, call):
            # Something has changed, so earlier look-ups may be stale.
            used = []
    return used


def grounding_problem(run: Run, call: ToolCall) -> Problem | None:
    """Return the problem of a call with values that were not observed; None without one."""
    spec = next((item for item in run.tools if item.name == call.name), None)
    for name in () if spec is None else grounded_parameters(run, spec):
        value = call.arguments.get(name)
        if spec is not None and value is not None and find_source(run, spec, name, value) is None:
            return Problem(ErrorCode.ARGUMENT_NOT_SEEN, _grounding_message(run, spec, name))
    if spec is not None and (mixed := _mismatch_message(run, spec, call)):
        return Problem(ErrorCode.ARGUMENT_NOT_SEEN, mixed)
    return None


def _grounding_message(run: Run, spec: ToolSpec, name: str) -> str:
    """Return the error for a value that was not observed: what is allowed, and its source."""
    known = parameter_choices(run, spec, name)
    comes = f" It comes from {' or '.join(known.sources)}." if known.sources else ""
    if known.values:
        shown = ", ".join(map(str, known.values[:MAX_SHOWN]))
        more = " and others" if len(known.values) > MAX_SHOWN else ""
        return f"{name} must be one of: {shown}{more}.{comes}"
    if known.sources and known.values == ():
        return f"There is no value for {name} yet: call {' or '.join(known.sources)} first."
    return f"{name} must be a value that the user or a tool has named.{comes} Do not make one up."


def linked_parameters(run: Run, spec: ToolSpec) -> list[LinkedParameters]:
    """Return the grounded parameters whose values occur together in one result."""
    if len(spec.grounded) < 2:  # noqa: PLR2004  # one alone has nothing to stand together with
        return []
    found: dict[tuple[str, ...], dict[bytes, tuple[Any, ...]]] = {}
    for record in observed_values(run).rows:
        names = tuple(
            name
            for name, tools in spec.grounded.items()
            if name in record.values and (not tools or record.source in tools)
        )
        values = tuple(record.values[name] for name in names)
        found.setdefault(names, {})[msgspec.json.encode(values)] = values
    most = [names for names in found if not any(set(names) < set(other) for other in found)]
    return [
        LinkedParameters(names, list(found[names].values())) for names in most if len(names) > 1
    ]


def _mismatch_message(run: Run, spec: ToolSpec, call: ToolCall) -> str:
    """Return the error for values that were observed, but not together; else blank."""
    for names, rows in linked_parameters(run, spec):
        given = tuple(call.arguments.get(name) for name in names)
        apart = given not in rows
        if apart and all(one in [row[at] for row in rows] for at, one in enumerate(given)):
            known = "; ".join(
                ", ".join(f"{name} {one}" for name, one in zip(names, row, strict=True))
                for row in rows[:MAX_SHOWN]
            )
            return f"{' and '.join(names)} do not belong together. These do: {known}."
    return ""


def find_sources(run: Run, call: ToolCall) -> JSON:
    """Return the source of each grounded argument of a call."""
    spec = next((item for item in run.tools if item.name == call.name), None)
    if spec is None:
        return {}
    found = {
        name: find_source(run, spec, name, call.arguments[name])
        for name in grounded_parameters(run, spec)
        if call.arguments.get(name) is not None
    }
    return {name: place for name, place in found.items() if place is not None}
