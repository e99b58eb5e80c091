"""Values that must have been seen: what a parameter may hold now, and where a value came from.

    Annotated[str, Grounded]                  seen in the user's words, or in any result
    Annotated[str, Grounded("find_order")]    seen in a result of that tool
    Need("refund", {"item_id": From(…)})      seen at that path of that tool's results

A grounded value is compared by what it is: texts by whole words, so that O-77 is not seen in
O-7731; numbers as numbers, so that 20 is seen in "20.00 EUR". What names a thing (a parameter
called `id`, `order_id`, `code` and so on) is only seen in words that can name one: those with a
digit, or what a result holds as it is.

`choices` lists what may be chosen from. Where that is not certainly all (results that were cut,
words of the user's for a parameter that takes any text, too many values), there is no list, and the
value is only checked. A value that a look-up has refused is not listed again, and neither is one
that was looked up already, until something was changed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from surecall.core.obligations import is_slip, is_wanted
from surecall.core.repetition import may_repeat
from surecall.core.seen import USER, Leaf, found_at, is_plain, seen, sources_of
from surecall.core.state import Run
from surecall.parsing.whole_words import numbers_in, stands_in, words_in
from surecall.settings.contract import From, holds
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Problem, ToolCall, ToolSpec

MOST_CHOICES: Final = 200
MOST_SHOWN: Final = 12
LONGEST_CHOICE: Final = 100
_KINDS: Final = ("string", "integer", "number")
_NAMING: Final = ("id", "ids", "no", "nr", "number", "code", "key", "ref", "sku", "uuid")


class Choices(NamedTuple):
    """What a parameter may hold now; None for `values` if only a check can tell."""

    values: tuple[Any, ...] | None
    sources: tuple[str, ...] = ()


class Linked(NamedTuple):
    """Parameters whose values stand together in results, and the values that do."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def bound_parameters(run: Run, spec: ToolSpec) -> dict[str, tuple[str, ...]]:
    """Return the parameters of a tool that must hold what was seen, with the tools to see it in."""
    bound = dict(spec.grounded)
    for name, source in _demanded(run, spec.name).items():
        bound[name] = (source.tool,)
    return bound


def _demanded(run: Run, tool: str) -> dict[str, From]:
    """Return what the contract wants from earlier results, if it never wants the tool otherwise."""
    contract = run.config.contract
    needs = [] if contract is None else [need for need in contract.needs if need.tool == tool]
    first = needs[0].sources if needs else {}
    return first if all(need.sources == first for need in needs) else {}


def where_seen(run: Run, spec: ToolSpec, name: str, value: Any) -> str | None:
    """Return where a value was seen: by the user's words or in a tool's result; None if nowhere."""
    demanded = _demanded(run, spec.name).get(name)
    if demanded is not None:
        found = any(holds(value, item) for item in found_at(run, demanded))
        return demanded.tool if found else None
    if isinstance(value, list):
        places = [where_seen(run, spec, name, item) for item in value]
        return ", ".join(dict.fromkeys(filter(None, places))) if all(places) else None
    if not is_plain(value) or value == "":
        return None
    tools = spec.grounded[name]
    leaves = [leaf for leaf in seen(run).leaves if not tools or leaf.source in tools]
    places_seen = (*sources_of(leaves, value), *_in_texts(run, leaves, name, value, tools))
    return next(iter(places_seen), None)


def _in_texts(
    run: Run, leaves: Sequence[Leaf], name: str, value: Any, tools: Sequence[str]
) -> Iterator[str]:
    """Return where a value stands among other words."""
    if isinstance(value, str) and names_a_thing(name) and not _can_name(value):
        return
    texts = [] if tools else [(USER, words) for words in seen(run).words]
    texts += [(leaf.source, leaf.value) for leaf in leaves if isinstance(leaf.value, str)]
    for source, text in texts:
        if stands_in(value, text):
            yield source


def names_a_thing(name: str) -> bool:
    """Whether a parameter takes the name of a thing, by what it is called."""
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in name).split("_")
    return words[-1] in _NAMING


def _can_name(text: str) -> bool:
    return any(char.isdigit() for char in text) and not any(char.isspace() for char in text)


def choices(run: Run, spec: ToolSpec, name: str) -> Choices:
    """Return what a parameter may hold now."""
    sources = bound_parameters(run, spec)[name]
    demanded = _demanded(run, spec.name).get(name)
    whole = not seen(run).cut.intersection(sources or {leaf.source for leaf in seen(run).leaves})
    kind = spec.parameters.get("properties", {}).get(name, {}).get("type")
    certain = bool(sources) or names_a_thing(name)
    if not whole or not certain or kind not in _KINDS:
        return Choices(None, sources)
    found = found_at(run, demanded) if demanded else _candidates(run, spec, name)
    fitting = dict.fromkeys(item for item in map(_as, [kind] * len(found), found) if item != "")
    gone = [None, *spent(run, spec, name)]
    left = [item for item in fitting if item not in gone]
    return Choices(tuple(left) if len(left) <= MOST_CHOICES else None, sources)


def _as(kind: str, value: Any) -> Any:
    """Return a value as a parameter of a kind takes it; None if it does not."""
    match kind, value:
        case _, bool():
            return None
        case "string", int():
            return str(value)
        case "string", str() if len(value) <= LONGEST_CHOICE and "\n" not in value:
            return value
        case "integer", int():
            return value
        case "number", int() | float():
            return value
        case _:
            return None


def _candidates(run: Run, spec: ToolSpec, name: str) -> list[Any]:
    """Return what results hold for a parameter: what is called like it, else what may be meant.

    Where no tool is named, the user may have named it, too.
    """
    tools = spec.grounded[name]
    leaves = [leaf for leaf in seen(run).leaves if not tools or leaf.source in tools]
    own = [leaf.value for leaf in leaves if leaf.key in {name, f"{name}s"}]
    found = own or [value for leaf in leaves for value in _meant(name, leaf)]
    if not tools:
        words = " ".join(seen(run).words)
        found += [word for word in words_in(words) if _can_name(word)]
        found += [int(number) for number in numbers_in(words) if number.is_integer()]
    return found


def _meant(name: str, leaf: Leaf) -> list[Any]:
    """Return what of a value may be meant: of one that does not name a thing, the names in it."""
    value = leaf.value
    if not names_a_thing(name) or names_a_thing(leaf.key):
        return [value]
    words = words_in(value) if isinstance(value, str) else ()
    return [word for word in words if _can_name(word) and not [*numbers_in(word)]]


def spent(run: Run, spec: ToolSpec, name: str) -> list[Any]:
    """Return the values that a look-up need not be made with again: refused, or looked up already.

    Of a write all values stay. Who repeats one is answered from the record, or refused again; who
    could not would have to write something else. Unless that is what the contract wants: where it
    asks for the tool once more, what was written is no use any more, either.
    """
    alone = len(spec.parameters.get("properties", {})) == 1
    if not spec.read_only:
        written = (call for call in run.done if call.name == spec.name and alone)
        return [call.arguments.get(name) for call in written if is_wanted(run, call)]
    if not alone and len(spec.grounded) != 1:
        return []
    gone: list[Any] = []
    for call, result in run.answered_calls:
        value = call.arguments.get(name)
        if call.name == spec.name and value is not None and not is_slip(result):
            refused = ErrorCode.ARGUMENT_ERROR in result.error_codes and result.executed
            gone += [value] * (refused or (result.ok and alone))
        elif result.ok and result.executed and not may_repeat(run, call):
            # Something was changed: what was looked up may be another now.
            gone = []
    return gone


def ungrounded(run: Run, call: ToolCall) -> Problem | None:
    """Return what is wrong with a call that holds values that nobody has named."""
    spec = next((item for item in run.tools if item.name == call.name), None)
    for name in () if spec is None else bound_parameters(run, spec):
        value = call.arguments.get(name)
        if spec is not None and value is not None and where_seen(run, spec, name, value) is None:
            return Problem(ErrorCode.ARGUMENT_NOT_SEEN, _objection(run, spec, name))
    if spec is not None and (mixed := _mixed(run, spec, call)):
        return Problem(ErrorCode.ARGUMENT_NOT_SEEN, mixed)
    return None


def _objection(run: Run, spec: ToolSpec, name: str) -> str:
    """Say what a parameter may hold, and where that comes from."""
    known = choices(run, spec, name)
    comes = f" It comes from {' or '.join(known.sources)}." if known.sources else ""
    if known.values:
        shown = ", ".join(map(str, known.values[:MOST_SHOWN]))
        more = " and others" if len(known.values) > MOST_SHOWN else ""
        return f"{name} must be one of: {shown}{more}.{comes}"
    if known.sources and known.values == ():
        return f"There is no value for {name} yet: call {' or '.join(known.sources)} first."
    return f"{name} must be a value that the user or a tool has named.{comes} Do not make one up."


def links(run: Run, spec: ToolSpec) -> list[Linked]:
    """Return the grounded parameters whose values stand together in one result, with the values."""
    if len(spec.grounded) < 2:  # noqa: PLR2004  # one alone has nothing to stand together with
        return []
    found: dict[tuple[str, ...], dict[bytes, tuple[Any, ...]]] = {}
    for record in seen(run).records:
        names = tuple(
            name
            for name, tools in spec.grounded.items()
            if name in record.values and (not tools or record.source in tools)
        )
        values = tuple(record.values[name] for name in names)
        found.setdefault(names, {})[msgspec.json.encode(values)] = values
    most = [names for names in found if not any(set(names) < set(other) for other in found)]
    return [Linked(names, list(found[names].values())) for names in most if len(names) > 1]


def _mixed(run: Run, spec: ToolSpec, call: ToolCall) -> str:
    """Say that values do not belong together, if each of them belongs to another."""
    for names, rows in links(run, spec):
        given = tuple(call.arguments.get(name) for name in names)
        apart = given not in rows
        if apart and all(one in [row[at] for row in rows] for at, one in enumerate(given)):
            known = "; ".join(
                ", ".join(f"{name} {one}" for name, one in zip(names, row, strict=True))
                for row in rows[:MOST_SHOWN]
            )
            return f"{' and '.join(names)} do not belong together. These do: {known}."
    return ""


def grounds(run: Run, call: ToolCall) -> JSON:
    """Return where the values of a call came from, by parameter."""
    spec = next((item for item in run.tools if item.name == call.name), None)
    if spec is None:
        return {}
    found = {
        name: where_seen(run, spec, name, call.arguments[name])
        for name in bound_parameters(run, spec)
        if call.arguments.get(name) is not None
    }
    return {name: place for name, place in found.items() if place is not None}
