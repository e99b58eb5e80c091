"""Which tool result answers which call, in a history whose ids may be missing or wrong.

    1. by id       the open call of the nearest earlier turn; failing that, the only later one
    2. by name     as many results as open calls of that tool, in order
    3. by order    as many results as open calls, unless a name contradicts
    4. alone       a single open call takes the first result whose name fits

Steps 2 and 3 look at the turn that the result follows, then at all earlier turns; step 4 looks at
all of them. A result that no step places is unmatched. A result that repeats both the id and the
content of another is a duplicate. Matching takes linear time.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from surecall.values.types import Assistant, Message, ToolCall, ToolResult


class Slot(msgspec.Struct):
    """A call and the place of its result; None while the call is open."""

    number: int
    call: ToolCall
    place: int | None = None


class Matches(NamedTuple):
    """The calls of each turn, by the place of the turn, and the results that answer none."""

    turns: dict[int, list[Slot]]
    unmatched: frozenset[int]


class _Stray(NamedTuple):
    """A result that no id has placed yet; `turn` is the place of the turn before it."""

    place: int
    turn: int
    result: ToolResult


def match_results(messages: Sequence[Message]) -> Matches:
    """Match the results of a history to its calls."""
    turns, strays = _match_ids(messages)
    if not strays:
        return Matches(turns, frozenset())
    slots = [slot for turn in turns.values() for slot in turn]
    strays = _without_duplicates(strays, messages, slots)
    strays = _match_later_calls(strays, slots)
    unmatched = _match_positions(strays, turns)
    return Matches(turns, frozenset(stray.place for stray in unmatched))


def _match_ids(messages: Sequence[Message]) -> tuple[dict[int, list[Slot]], list[_Stray]]:
    """Give each result to the open call with its id: the nearest turn first, in call order."""
    turns: dict[int, list[Slot]] = {}
    strays: list[_Stray] = []
    waiting: dict[str, list[Slot]] = {}
    turn = -1
    number = 0
    for place, message in enumerate(messages):
        if isinstance(message, ToolResult):
            found = waiting.get(message.call_id) if message.call_id else None
            if found:
                found.pop().place = place
            else:
                strays.append(_Stray(place, turn, message))
        elif isinstance(message, Assistant) and message.calls:
            slots = [Slot(number + at, call) for at, call in enumerate(message.calls)]
            number += len(slots)
            turn, turns[place] = place, slots
            for slot in reversed(slots):
                waiting.setdefault(slot.call.id, []).append(slot)
    return turns, strays


def _without_duplicates(
    strays: list[_Stray], messages: Sequence[Message], slots: list[Slot]
) -> list[_Stray]:
    """Leave out results that repeat the id and the content of another result."""
    answers = (messages[slot.place] for slot in slots if slot.place is not None)
    seen = {(item.call_id, item.content) for item in answers if isinstance(item, ToolResult)}
    kept: list[_Stray] = []
    for stray in strays:
        said = (stray.result.call_id, stray.result.content)
        if not stray.result.call_id or said not in seen:
            kept.append(stray)
            seen.add(said)
    return kept


def _match_later_calls(strays: list[_Stray], slots: list[Slot]) -> list[_Stray]:
    """Match results that stand before their call, if the history has one call of that id."""
    calls: dict[str, list[Slot]] = {}
    for slot in slots:
        calls.setdefault(slot.call.id, []).append(slot)
    left: list[_Stray] = []
    for stray in strays:
        match calls.get(stray.result.call_id):
            case [Slot(place=None) as slot] if stray.result.call_id:
                slot.place = stray.place
            case _:
                left.append(stray)
    return left


def _match_positions(strays: list[_Stray], turns: dict[int, list[Slot]]) -> list[_Stray]:
    """Match results without a usable id to open calls, turn by turn; return the others."""
    following = {turn: list(group) for turn, group in groupby(strays, lambda stray: stray.turn)}
    unmatched = following.pop(-1, [])
    known: set[str] = set()
    earlier = _OpenCalls()
    for place, slots in turns.items():
        ids = {slot.call.id for slot in slots if slot.call.id}
        known |= ids
        # In its own turn, a result with the id of an answered call is another result of that call.
        # After a later turn with an open call, the id is more likely wrong.
        extra, left = _divide(following.get(place, []), ids)
        late, left = _divide(_match_open(left, _OpenCalls(slots)), known)
        earlier.add(slots)
        left = _match_single(_match_open(left, earlier), earlier)
        unmatched += [*extra, *late, *left]
    return unmatched


def _divide(strays: list[_Stray], ids: set[str]) -> tuple[list[_Stray], list[_Stray]]:
    """Return the results that have one of these ids, and those that have none of them."""
    named = [stray for stray in strays if stray.result.call_id in ids]
    return named, [stray for stray in strays if stray.result.call_id not in ids]


class _OpenCalls:
    """Calls without a result, in order and by name."""

    def __init__(self, slots: Iterable[Slot] = ()) -> None:
        self.all: dict[int, Slot] = {}
        self.named: dict[str, dict[int, Slot]] = {}
        self.add(slots)

    def add(self, slots: Iterable[Slot]) -> None:
        """Add those of a turn's calls that are open."""
        for slot in slots:
            if slot.place is None:
                self.all[slot.number] = slot
                self.named.setdefault(slot.call.name, {})[slot.number] = slot

    def answer(self, slots: Iterable[Slot], strays: Iterable[_Stray]) -> None:
        """Answer calls, each with one result."""
        for slot, stray in zip(list(slots), strays, strict=True):
            slot.place = stray.place
            del self.all[slot.number]
            del self.named[slot.call.name][slot.number]


def _match_open(strays: list[_Stray], calls: _OpenCalls) -> list[_Stray]:
    """Match results by name, then by order; return those that are left."""
    named: dict[str, list[_Stray]] = {}
    for stray in strays:
        named.setdefault(stray.result.name, []).append(stray)
    for name in filter(None, list(named)):
        slots = calls.named.get(name, {})
        if len(slots) == len(named[name]):
            calls.answer(slots.values(), named.pop(name))
    left = [stray for stray in strays if stray.result.name in named]
    if len(left) != len(calls.all) or not all(map(_names_agree, left, calls.all.values())):
        return left
    calls.answer(calls.all.values(), left)
    return []


def _match_single(strays: list[_Stray], calls: _OpenCalls) -> list[_Stray]:
    """Give a single open call the first result whose name fits; return the others."""
    if len(calls.all) != 1:
        return strays
    (slot,) = calls.all.values()
    own = next((stray for stray in strays if _names_agree(stray, slot)), None)
    if own is None:
        return strays
    calls.answer([slot], [own])
    return [stray for stray in strays if stray is not own]


def _names_agree(stray: _Stray, slot: Slot) -> bool:
    """Whether the names do not contradict that a result is that of a call."""
    return not stray.result.name or not slot.call.name or stray.result.name == slot.call.name
