"""Contracts: the calls that must have succeeded before a final answer counts.

    Contract(all_of=["state_patch"])
    Contract(any_of=["send_mail", "send_letter"])
    Contract(in_order=["book", Need("pay", {"currency": "EUR"})])
    Contract(all_of=[Need("refund", {"item_id": From("find_order", "items[*].id")})])

A need is met by a successful call whose arguments contain what the need names: a value, or one from
an earlier result. A contract is plain data: it can be printed, stored, traced, and replayed.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Final, TypeAlias

import msgspec

from surecall.values.errors import ConfigError
from surecall.values.nesting import encode_json
from surecall.values.paths import path_steps
from surecall.values.types import JSON, ToolCall
from surecall.wire.chat_format import encode

_FROM: Final = "$from"


class From(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A value in an earlier result of a tool, at a path such as `items[*].id`.

    Without a path it is the whole result.
    """

    tool: str = msgspec.field(name=_FROM)
    path: str = ""

    def __post_init__(self) -> None:
        """Refuse a blank tool or an invalid path."""
        if not self.tool.strip():
            raise ConfigError("From: the tool is blank; name the tool whose result has the value")
        path_steps(self.path)

    def __str__(self) -> str:
        return f"{self.tool} ({self.path})" if self.path else self.tool


class OneOf(msgspec.Struct, frozen=True):
    """The observed values that a `From` stands for."""

    source: From
    values: tuple[Any, ...] = ()


class Need(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool that must have succeeded, with at least these arguments.

    With `repeat`, a call that meets the need may be repeated with the same arguments.
    """

    tool: str
    arguments: JSON = {}
    repeat: bool = False

    def met_by(self, call: ToolCall) -> bool:
        """Whether a successful call meets the need."""
        return call.name == self.tool and json_contains(call.arguments, self.arguments)

    @property
    def sources(self) -> dict[str, From]:
        """The arguments that must come from an earlier result."""
        found = ((name, source_in(item)) for name, item in self.arguments.items())
        return {name: source for name, source in found if source is not None}

    def with_values(self, found: Callable[[From], tuple[Any, ...]]) -> "Need":
        """Return the need with the observed values in place of each `From`."""
        known = {name: OneOf(source, found(source)) for name, source in self.sources.items()}
        return Need(self.tool, self.arguments | known, self.repeat) if known else self

    def __str__(self) -> str:
        sources = self.sources
        plain = {name: item for name, item in self.arguments.items() if name not in sources}
        parts = [encode(plain).decode()] if plain else []
        parts += [f"{name} from {source}" for name, source in sources.items()]
        return f"{self.tool} with {' and '.join(parts)}" if parts else self.tool


# Alternatives of which one is still missing; more than one for `any_of`.
Missing: TypeAlias = tuple[Need, ...]


class ContractProgress(msgspec.Struct, frozen=True):
    """The progress of a contract: what is missing, and the tools that would make progress now."""

    missing: tuple[Missing, ...] = ()
    next_tools: tuple[str, ...] = ()
    # Tools that come later in a sequence, with the tool that must succeed first.
    later: dict[str, str] = {}

    def unreachable(self, offered: Sequence[str]) -> tuple[Missing, ...]:
        """Return what is missing and cannot be done with the available tools."""
        return tuple(
            needs for needs in self.missing if not any(need.tool in offered for need in needs)
        )


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Calls that must have succeeded. A tool's name alone means a need without conditions.

    Once the contract is met, the model gets no tools and can only answer, unless `then_finalise` is
    false.
    """

    all_of: Sequence[Need | str] = ()
    any_of: Sequence[Need | str] = ()
    in_order: Sequence[Need | str] = ()
    then_finalise: bool = True

    def __post_init__(self) -> None:
        """Refuse an empty contract, or a blank tool name."""
        for name in ("all_of", "any_of", "in_order"):
            items = getattr(self, name)
            if isinstance(items, str):
                raise ConfigError(f"contract: {name} must be a list of tools, not a string")
            msgspec.structs.force_setattr(self, name, _parse_needs(name, items))
        if not self.needs:
            raise ConfigError("the contract is empty: name a tool that must succeed")
        if any(not need.tool.strip() for need in self.needs):
            raise ConfigError("the contract contains a blank tool name")

    @property
    def needs(self) -> tuple[Need, ...]:
        """All needs of the contract, including alternatives."""
        return tuple(_as_needs((*self.all_of, *self.any_of, *self.in_order)))

    def progress(self, done: Sequence[ToolCall]) -> ContractProgress:
        """Return the progress made by successful calls, given in their order."""
        alone = [(need,) for need in _as_needs(self.all_of) if not _is_met(need, done)]
        any_of = tuple(_as_needs(self.any_of))
        either = [any_of] if any_of and not any(_is_met(need, done) for need in any_of) else []
        steps = tuple(_as_needs(self.in_order))
        rest = [(need,) for need in _remaining_steps(steps, done)]
        # Of a sequence, only the next step makes progress.
        now = (*alone, *either, *rest[:1])
        next_tools = dict.fromkeys(need.tool for needs in now for need in needs)
        return ContractProgress(
            (*alone, *either, *rest), tuple(next_tools), _later_tools(steps, len(rest))
        )

    def with_values(self, found: Callable[[From], tuple[Any, ...]]) -> "Contract":
        """Return the contract with the observed values in place of each `From`."""
        if not any(need.sources for need in self.needs):
            return self
        known = copy(self)
        for name in ("all_of", "any_of", "in_order"):
            needs = tuple(need.with_values(found) for need in _as_needs(getattr(self, name)))
            msgspec.structs.force_setattr(known, name, needs)
        return known

    def missing(self, done: Sequence[ToolCall]) -> tuple[Missing, ...]:
        """Return the needs that successful calls have not met."""
        return self.progress(done).missing


def _parse_needs(name: str, items: Any) -> tuple[Need, ...]:
    """Parse needs from their JSON form, as they will be when the contract is loaded again."""
    try:
        needs = msgspec.json.decode(
            encode_json(items, _encode_strictly), type=tuple[Need | str, ...]
        )
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise ConfigError(f"contract: {name}: {error}") from None
    for need in (checked := tuple(_as_needs(needs))):
        for item in need.arguments.values():
            if source_in(item) is None and _has_source(item):
                raise ConfigError(f"contract: {name}: From must be the whole value of an argument")
    return checked


def _encode_strictly(items: Any) -> bytes:
    """Encode as JSON; raise for NaN and infinity."""
    # Not with msgspec, which encodes NaN as null.
    text = json.dumps(msgspec.to_builtins(items), allow_nan=False, ensure_ascii=False)
    return text.encode()


def source_in(item: Any) -> From | None:
    """Return the source that an argument of a need names, if any."""
    match item:
        case From():
            return item
        case OneOf():
            return item.source
        case {"$from": str(tool), **rest} if rest.keys() <= {"path"}:
            return From(tool, str(rest.get("path", "")))
        case _:
            return None


def _has_source(item: Any) -> bool:
    """Whether a JSON value contains a source."""
    match item:
        case dict():
            return _FROM in item or any(map(_has_source, item.values()))
        case list():
            return any(map(_has_source, item))
        case _:
            return False


def _later_tools(steps: tuple[Need, ...], remaining: int) -> dict[str, str]:
    """Return the tools that come later in a sequence, each with the tool that is next."""
    if not remaining:
        return {}
    here = len(steps) - remaining
    free = {need.tool for need in steps[: here + 1]}
    return {need.tool: steps[here].tool for need in steps[here:] if need.tool not in free}


def _as_needs(items: Sequence[Need | str]) -> Iterator[Need]:
    for item in items:
        yield Need(item) if isinstance(item, str) else item


def _is_met(need: Need, successful_calls: Sequence[ToolCall]) -> bool:
    return any(need.met_by(call) for call in successful_calls)


def _remaining_steps(
    steps: tuple[Need, ...], successful_calls: Sequence[ToolCall]
) -> tuple[Need, ...]:
    """Return the remaining steps of a sequence."""
    reached = 0
    for call in successful_calls:
        if reached < len(steps) and steps[reached].met_by(call):
            reached += 1
    return steps[reached:]


def describe_missing(missing: Sequence[Missing]) -> str:
    """Return what is missing as text, as in `book, pay or send_letter`."""
    return ", ".join(" or ".join(map(str, needs)) for needs in missing)


def json_contains(value: Any, expected: Any) -> bool:
    """Whether a JSON value contains another: only objects may differ, by having more keys."""
    if isinstance(expected, OneOf):
        return any(json_contains(value, item) for item in expected.values)
    if isinstance(value, dict) and isinstance(expected, dict):
        return all(
            key in value and json_contains(value[key], item) for key, item in expected.items()
        )
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(json_contains, value, expected))
    # In JSON, true is not 1.
    return isinstance(value, bool) is isinstance(expected, bool) and bool(value == expected)
