"""What a conversation has shown so far: the user's words, and the values in results of tools.

Earlier history counts. What the loop said itself does not, and neither do calls that did not run:
they repeat what the model made up. A value that a look-up only gives back, because it was asked
for with it, is no news either.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from surecall.core.state import Run, once_per_run
from surecall.parsing.whole_words import without
from surecall.settings.contract import From
from surecall.values.nesting import TooDeep, decode_json
from surecall.values.paths import path_steps, values_at
from surecall.values.types import JSON, Assistant, ToolCall, ToolResult, User
from surecall.wire.content_parts import text_of

USER: Final = "the user"
MOST_LEAVES: Final = 20_000
_LONGEST_JSON: Final = 200_000


class Leaf(NamedTuple):
    """One value of a result: under which key it stands, and which tool returned it."""

    key: str
    value: str | int | float
    source: str


class Record(NamedTuple):
    """Values that belong together: those of an object, and of the objects around it."""

    values: JSON
    source: str


class Seen(NamedTuple):
    """Everything that was seen. The results of the tools in `cut` are not all there."""

    words: tuple[str, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    records: tuple[Record, ...] = ()
    cut: frozenset[str] = frozenset()


@once_per_run
def seen(run: Run) -> Seen:
    """Return what the user and the tools have said in a conversation."""
    words = tuple(
        text_of(item.content) for item in run.messages if isinstance(item, User) and not item.nudge
    )
    leaves: list[Leaf] = []
    records: list[Record] = []
    cut: set[str] = set()
    for call, result in _answers(run):
        if result.replaced or len(leaves) > MOST_LEAVES:
            cut.add(result.name)
        known = _echo(run, call, result)
        for leaf in _leaves(result.name, returned(result), records):
            value = without(leaf.value, known) if isinstance(leaf.value, str) else leaf.value
            if value not in known and value != "":
                leaves.append(leaf._replace(value=value))
    return Seen(words, tuple(leaves), tuple(records), frozenset(cut))


def _answers(run: Run) -> Iterator[tuple[ToolCall | None, ToolResult]]:
    """Return the results that hold something new, each with its call."""
    calls: dict[str, ToolCall] = {}
    for position, item in enumerate(run.messages):
        if isinstance(item, Assistant):
            calls |= {call.id: call for call in item.calls}
        elif isinstance(item, ToolResult) and (item.executed or position < run.start or item.ok):
            yield calls.get(item.call_id), item


def _echo(run: Run, call: ToolCall | None, result: ToolResult) -> set[Any]:
    """Return what a call was made with, if its result may only give that back.

    A write that succeeded is another thing: what it was made with exists now.
    """
    reads = any(spec.read_only for spec in run.tools if spec.name == result.name)
    if call is None or (result.ok and not reads):
        return set()
    return {leaf.value for leaf in _leaves("", call.arguments, [])}


def returned(result: ToolResult) -> Any:
    """Return what a tool returned, as JSON; what it said, if it failed."""
    try:
        envelope: Any = decode_json(result.content)
    except (msgspec.DecodeError, TooDeep):
        return result.content
    match envelope:
        case {"ok": True, "data": {"value": value, **rest}} if not rest:
            return opened(value)
        case {"ok": True, "data": data}:
            return data
        case {"ok": False, "errors": list(errors), **rest}:
            said = [error.get("message") for error in errors if isinstance(error, dict)]
            return [said, rest.get("data")]
        case _:
            return envelope


def opened(value: Any) -> Any:
    """Return what a text is the JSON of, if it is that of an object or a list."""
    if not isinstance(value, str) or len(value) > _LONGEST_JSON or value[:1] not in {"{", "["}:
        return value
    try:
        return decode_json(value)
    except (msgspec.DecodeError, TooDeep):
        return value


def _leaves(source: str, value: Any, records: list[Record]) -> Iterator[Leaf]:
    """Take a value apart, without recursion; objects are noted as records on the way."""
    stack: list[tuple[str, Any, JSON]] = [("", value, {})]
    while stack:
        key, item, around = stack.pop()
        match item:
            case dict():
                own = {name: one for name, one in item.items() if is_plain(one)}
                around = around | own
                if own:
                    records.append(Record(around, source))
                stack += [(name, one, around) for name, one in reversed(item.items())]
            case list():
                stack += [(key, one, around) for one in reversed(item)]
            case str() | int() | float() if is_plain(item):
                yield Leaf(key, item, source)


def is_plain(value: Any) -> bool:
    """Whether a value is a text or a number; true and false are none."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def found_at(run: Run, source: From) -> tuple[Any, ...]:
    """Return the values at a path of the results of a tool that succeeded, in their order."""
    steps = path_steps(source.path)
    found: list[Any] = []
    for _, result in _answers(run):
        if result.name == source.tool and result.ok:
            found += [item for item in values_at(returned(result), steps) if item not in found]
    return tuple(found)


def sources_of(leaves: Sequence[Leaf], value: Any) -> Iterator[str]:
    """Return the tools whose results hold a value as it is; numbers are compared as numbers."""
    for leaf in leaves:
        if leaf.value == value or str(leaf.value) == str(value):
            yield leaf.source
