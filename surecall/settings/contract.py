"""What must be true before a final answer counts: a value that an application declares.

    Contract(all_of=["state_patch"])
    Contract(any_of=["send_mail", "send_letter"])
    Contract(in_order=["book", Need("pay", {"currency": "EUR"})])
    Contract(all_of=[Need("refund", {"item_id": From("find_order", "items[*].id")})])

A need is met by a call that succeeded, and whose arguments hold what the need names: a value, or
one that an earlier result holds. A contract is data: it is printed, stored, travels in a trace, and
is judged again in a replay.
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
from surecall.wire.messages import encode

_FROM: Final = "$from"


class From(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A value that an earlier result of a tool holds, at a path such as `items[*].id`.

    Without a path it is all that the tool returned.
    """

    tool: str = msgspec.field(name=_FROM)
    path: str = ""

    def __post_init__(self) -> None:
        """Refuse a path that cannot be read."""
        if not self.tool.strip():
            raise ConfigError("From: name the tool whose result holds the value")
        path_steps(self.path)

    def __str__(self) -> str:
        return f"{self.tool} ({self.path})" if self.path else self.tool


class OneOf(msgspec.Struct, frozen=True):
    """What a `From` stands for now: the values that were seen there."""

    source: From
    values: tuple[Any, ...] = ()


class Need(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool that must have succeeded, with at least these arguments.

    With `repeat`, a call that meets it may be made again with the same arguments.
    """

    tool: str
    arguments: JSON = {}
    repeat: bool = False

    def met_by(self, call: ToolCall) -> bool:
        """Whether a call that succeeded is the one that is needed."""
        return call.name == self.tool and holds(call.arguments, self.arguments)

    @property
    def sources(self) -> dict[str, From]:
        """The arguments that must hold what an earlier result holds."""
        found = ((name, source_in(item)) for name, item in self.arguments.items())
        return {name: source for name, source in found if source is not None}

    def given(self, found: Callable[[From], tuple[Any, ...]]) -> "Need":
        """Return the need with what was found in place of what is to be looked up."""
        known = {name: OneOf(source, found(source)) for name, source in self.sources.items()}
        return Need(self.tool, self.arguments | known, self.repeat) if known else self

    def __str__(self) -> str:
        sources = self.sources
        plain = {name: item for name, item in self.arguments.items() if name not in sources}
        parts = [encode(plain).decode()] if plain else []
        parts += [f"{name} from {source}" for name, source in sources.items()]
        return f"{self.tool} with {' and '.join(parts)}" if parts else self.tool


# Each names calls of which one is still missing; more than one where any of them will do.
Missing: TypeAlias = tuple[Need, ...]


class Progress(msgspec.Struct, frozen=True):
    """How far a contract is met: what is missing, and the tools that would make progress now."""

    missing: tuple[Missing, ...] = ()
    next_tools: tuple[str, ...] = ()
    # Tools that come later in a sequence, each with the one that must succeed first.
    later: dict[str, str] = {}

    def out_of_reach(self, offered: Sequence[str]) -> tuple[Missing, ...]:
        """Return what is missing and cannot be done with the tools that are available."""
        return tuple(
            needs for needs in self.missing if not any(need.tool in offered for need in needs)
        )


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Calls that must have succeeded. A tool's name alone means a need without conditions.

    Unless `then_finalise` is off, no tools are offered once the contract is met: the model is
    asked for its answer, and can do no more harm.
    """

    all_of: Sequence[Need | str] = ()
    any_of: Sequence[Need | str] = ()
    in_order: Sequence[Need | str] = ()
    then_finalise: bool = True

    def __post_init__(self) -> None:
        """Refuse a contract that demands nothing, or a tool without a name."""
        for name in ("all_of", "any_of", "in_order"):
            items = getattr(self, name)
            if isinstance(items, str):
                raise ConfigError(f"contract: {name} must be a list of tools, not a text")
            msgspec.structs.force_setattr(self, name, _plain(name, items))
        if not self.needs:
            raise ConfigError("the contract demands nothing: name a tool that must succeed")
        if any(not need.tool.strip() for need in self.needs):
            raise ConfigError("the contract names a tool that is blank")

    @property
    def needs(self) -> tuple[Need, ...]:
        """Everything that is named, whether all of it is needed or not."""
        return tuple(_needs((*self.all_of, *self.any_of, *self.in_order)))

    def progress(self, done: Sequence[ToolCall]) -> Progress:
        """Return what is still missing after calls that succeeded, in their order."""
        alone = [(need,) for need in _needs(self.all_of) if not _is_met(need, done)]
        any_of = tuple(_needs(self.any_of))
        either = [any_of] if any_of and not any(_is_met(need, done) for need in any_of) else []
        steps = tuple(_needs(self.in_order))
        rest = [(need,) for need in _unreached(steps, done)]
        # Of a sequence, only the next step makes progress.
        now = (*alone, *either, *rest[:1])
        next_tools = dict.fromkeys(need.tool for needs in now for need in needs)
        return Progress((*alone, *either, *rest), tuple(next_tools), _later(steps, len(rest)))

    def given(self, found: Callable[[From], tuple[Any, ...]]) -> "Contract":
        """Return the contract with what was found in place of what is to be looked up."""
        if not any(need.sources for need in self.needs):
            return self
        known = copy(self)
        for name in ("all_of", "any_of", "in_order"):
            needs = tuple(need.given(found) for need in _needs(getattr(self, name)))
            msgspec.structs.force_setattr(known, name, needs)
        return known

    def missing(self, done: Sequence[ToolCall]) -> tuple[Missing, ...]:
        """Return the needs that calls that succeeded have not met."""
        return self.progress(done).missing


def _plain(name: str, items: Any) -> tuple[Need, ...]:
    """Copy needs as the JSON that they will be when the contract is read back."""
    try:
        needs = msgspec.json.decode(encode_json(items, _exact), type=tuple[Need | str, ...])
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise ConfigError(f"contract: {name}: {error}") from None
    for need in (checked := tuple(_needs(needs))):
        for item in need.arguments.values():
            if source_in(item) is None and _has_source(item):
                raise ConfigError(f"contract: {name}: From stands for a whole argument of a tool")
    return checked


def _exact(items: Any) -> bytes:
    # Not `msgspec` alone, which writes NaN as null.
    text = json.dumps(msgspec.to_builtins(items), allow_nan=False, ensure_ascii=False)
    return text.encode()


def source_in(item: Any) -> From | None:
    """Return the source that an argument of a need names, if it does."""
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
    match item:
        case dict():
            return _FROM in item or any(map(_has_source, item.values()))
        case list():
            return any(map(_has_source, item))
        case _:
            return False


def _later(steps: tuple[Need, ...], left: int) -> dict[str, str]:
    """Return the tools of a sequence whose turn has not come, with the one that is next."""
    if not left:
        return {}
    here = len(steps) - left
    free = {need.tool for need in steps[: here + 1]}
    return {need.tool: steps[here].tool for need in steps[here:] if need.tool not in free}


def _needs(items: Sequence[Need | str]) -> Iterator[Need]:
    for item in items:
        yield Need(item) if isinstance(item, str) else item


def _is_met(need: Need, done: Sequence[ToolCall]) -> bool:
    return any(need.met_by(call) for call in done)


def _unreached(steps: tuple[Need, ...], done: Sequence[ToolCall]) -> tuple[Need, ...]:
    """Return the steps of a sequence that have not been taken, one after the other."""
    reached = 0
    for call in done:
        if reached < len(steps) and steps[reached].met_by(call):
            reached += 1
    return steps[reached:]


def in_words(missing: Sequence[Missing]) -> str:
    """Say what is missing, as in `book, pay or send_letter`."""
    return ", ".join(" or ".join(map(str, needs)) for needs in missing)


def holds(value: Any, wanted: Any) -> bool:
    """Whether a JSON value holds another: objects may have more keys, all else must be equal."""
    if isinstance(wanted, OneOf):
        return any(holds(value, item) for item in wanted.values)
    if isinstance(value, dict) and isinstance(wanted, dict):
        return all(key in value and holds(value[key], item) for key, item in wanted.items())
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(holds, value, wanted))
    # In JSON, true is not 1.
    return isinstance(value, bool) is isinstance(wanted, bool) and bool(value == wanted)
