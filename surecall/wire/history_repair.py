"""Repairs a client's message history: matches tool results to calls and makes the order valid.

Ids may be missing or wrong, so results are matched to calls in four steps:

    1. by id       the open call of the nearest earlier turn, else the only later call
    2. by name     if there are as many results as open calls of that tool, in order
    3. by order    if there are as many results as open calls and no name contradicts
    4. alone       a single open call takes the first result whose name fits

Steps 2 and 3 consider the turn before the result, then all earlier turns; step 4 considers all
earlier turns. The remaining results are unmatched. A result that repeats the id and content of
another is a duplicate. Matching takes linear time.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from surecall.values.errors import ErrorCode
from surecall.values.types import UNMATCHED_RESULT, Assistant, Message, ToolCall, ToolResult, User
from surecall.wire.chat_format import UNMATCHED_LABEL, encode


class CallSlot(msgspec.Struct):
    """A call and the position of its result; None while the call is open."""

    number: int
    call: ToolCall
    place: int | None = None


class ResultMatches(NamedTuple):
    """The calls of each turn by its position, and the positions of unmatched results."""

    turns: dict[int, list[CallSlot]]
    unmatched: frozenset[int]


class _StrayResult(NamedTuple):
    """A result without a matching id; `turn` is the position of the turn before it."""

    place: int
    turn: int
    result: ToolResult


def match_results(messages: Sequence[Message]) -> ResultMatches:
    """Match the tool results of a history to its calls."""
    turns, strays = _match_ids(messages)
    if not strays:
        return ResultMatches(turns, frozenset())
    slots = [slot for turn in turns.values() for slot in turn]
    strays = _drop_duplicates(strays, messages, slots)
    strays = _match_later_calls(strays, slots)
    unmatched = _match_positions(strays, turns)
    return ResultMatches(turns, frozenset(stray.place for stray in unmatched))


def _match_ids(messages: Sequence[Message]) -> tuple[dict[int, list[CallSlot]], list[_StrayResult]]:
    """Match results to open calls by id: the nearest turn first, in call order."""
    turns: dict[int, list[CallSlot]] = {}
    strays: list[_StrayResult] = []
    waiting: dict[str, list[CallSlot]] = {}
    turn = -1
    number = 0
    for place, message in enumerate(messages):
        if isinstance(message, ToolResult):
            found = waiting.get(message.call_id) if message.call_id else None
            if found:
                found.pop().place = place
            else:
                strays.append(_StrayResult(place, turn, message))
        elif isinstance(message, Assistant) and message.calls:
            slots = [CallSlot(number + at, call) for at, call in enumerate(message.calls)]
            number += len(slots)
            turn, turns[place] = place, slots
            for slot in reversed(slots):
                waiting.setdefault(slot.call.id, []).append(slot)
    return turns, strays


def _drop_duplicates(
    strays: list[_StrayResult], messages: Sequence[Message], slots: list[CallSlot]
) -> list[_StrayResult]:
    """Drop results that repeat the id and the content of another result."""
    answers = (messages[slot.place] for slot in slots if slot.place is not None)
    seen = {(item.call_id, item.content) for item in answers if isinstance(item, ToolResult)}
    kept: list[_StrayResult] = []
    for stray in strays:
        key = (stray.result.call_id, stray.result.content)
        if not stray.result.call_id or key not in seen:
            kept.append(stray)
            seen.add(key)
    return kept


def _match_later_calls(strays: list[_StrayResult], slots: list[CallSlot]) -> list[_StrayResult]:
    """Match results that precede their call if exactly one call has that id."""
    calls: dict[str, list[CallSlot]] = {}
    for slot in slots:
        calls.setdefault(slot.call.id, []).append(slot)
    remaining: list[_StrayResult] = []
    for stray in strays:
        match calls.get(stray.result.call_id):
            case [CallSlot(place=None) as slot] if stray.result.call_id:
                slot.place = stray.place
            case _:
                remaining.append(stray)
    return remaining


def _match_positions(
    strays: list[_StrayResult], turns: dict[int, list[CallSlot]]
) -> list[_StrayResult]:
    """Match results without a usable id to open calls by turn; return the others."""
    following = {turn: list(group) for turn, group in groupby(strays, lambda stray: stray.turn)}
    unmatched = following.pop(-1, [])
    known: set[str] = set()
    earlier = _OpenCalls()
    for place, slots in turns.items():
        ids = {slot.call.id for slot in slots if slot.call.id}
        known |= ids
        # After its own turn, a result with the id of an answered call is a second result of it.
        # After a later turn with an open call, the id is more likely to be wrong.
        extra, remaining = _split_by_id(following.get(place, []), ids)
        repeated, remaining = _split_by_id(_match_open(remaining, _OpenCalls(slots)), known)
        earlier.add(slots)
        remaining = _match_single(_match_open(remaining, earlier), earlier)
        unmatched += [*extra, *repeated, *remaining]
    return unmatched


def _split_by_id(
    strays: list[_StrayResult], ids: set[str]
) -> tuple[list[_StrayResult], list[_StrayResult]]:
    """Split results into those with one of these ids and the others."""
    named = [stray for stray in strays if stray.result.call_id in ids]
    return named, [stray for stray in strays if stray.result.call_id not in ids]


class _OpenCalls:
    """Calls without a result, in order and by name."""

    def __init__(self, slots: Iterable[CallSlot] = ()) -> None:
        self.all: dict[int, CallSlot] = {}
        self.by_name: dict[str, dict[int, CallSlot]] = {}
        self.add(slots)

    def add(self, slots: Iterable[CallSlot]) -> None:
        """Add the open calls of a turn."""
        for slot in slots:
            if slot.place is None:
                self.all[slot.number] = slot
                self.by_name.setdefault(slot.call.name, {})[slot.number] = slot

    def answer(self, slots: Iterable[CallSlot], strays: Iterable[_StrayResult]) -> None:
        """Assign one result to each call."""
        for slot, stray in zip(list(slots), strays, strict=True):
            slot.place = stray.place
            del self.all[slot.number]
            del self.by_name[slot.call.name][slot.number]


def _match_open(strays: list[_StrayResult], calls: _OpenCalls) -> list[_StrayResult]:
    """Match results by name, then by order; return the others."""
    named: dict[str, list[_StrayResult]] = {}
    for stray in strays:
        named.setdefault(stray.result.name, []).append(stray)
    for name in filter(None, list(named)):
        slots = calls.by_name.get(name, {})
        if len(slots) == len(named[name]):
            calls.answer(slots.values(), named.pop(name))
    remaining = [stray for stray in strays if stray.result.name in named]
    if len(remaining) != len(calls.all) or not all(
        map(_names_agree, remaining, calls.all.values())
    ):
        return remaining
    calls.answer(calls.all.values(), remaining)
    return []


def _match_single(strays: list[_StrayResult], calls: _OpenCalls) -> list[_StrayResult]:
    """Match a single open call with the first result whose name fits; return the others."""
    if len(calls.all) != 1:
        return strays
    (slot,) = calls.all.values()
    own = next((stray for stray in strays if _names_agree(stray, slot)), None)
    if own is None:
        return strays
    calls.answer([slot], [own])
    return [stray for stray in strays if stray is not own]


def _names_agree(stray: _StrayResult, slot: CallSlot) -> bool:
    """Whether the names allow a result to belong to a call."""
    return not stray.result.name or not slot.call.name or stray.result.name == slot.call.name


# A valid history: every call is answered exactly once, and every id is unique.
#
# The loop maintains this by construction. A caller's history (an interrupted session, another
# framework's transcript) is repaired here before the first request. No result is lost: an
# unmatched one is sent as a labeled user message.


class CallIds:
    """The call ids used in a conversation; `claim` reserves a free one."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._suffixes: dict[str, int] = {}
        self._minted = 0

    def claim(self, wanted: str) -> str:
        """Return the wanted id if it is free, else a variant; generate one if it is blank."""
        free = wanted or self._generate_id()
        while free in self._taken:
            self._suffixes[wanted] = self._suffixes.get(wanted, 1) + 1
            free = f"{wanted}__{self._suffixes[wanted]}"
        self._taken.add(free)
        return free

    def _generate_id(self) -> str:
        self._minted = max(self._minted, len(self._taken)) + 1
        while f"tc_{self._minted}" in self._taken:
            self._minted += 1
        return f"tc_{self._minted}"


def used_call_ids(messages: Iterable[Message]) -> CallIds:
    """Return the call ids used in a conversation."""
    return CallIds(
        call.id
        for message in messages
        if isinstance(message, Assistant) and message.calls
        for call in message.calls
    )


def repair_history(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Answer each call right after its turn, rename repeated ids, and label unmatched results."""
    return tuple(message for message, _ in repair_with_positions(messages))


def repair_with_positions(messages: Sequence[Message]) -> list[tuple[Message, int | None]]:
    """Repair a history; return each message with its old position, None for a generated one.

    An unmatched result keeps its place, as a labeled user message.
    """
    legal = _pair_valid_history(messages)
    if legal is not None:
        return legal
    ids = CallIds()
    matches = match_results(messages)
    repaired: list[tuple[Message, int | None]] = []
    for place, message in enumerate(messages):
        if place in matches.turns:
            repaired += _answered_turn(messages, place, matches.turns[place], ids)
        elif not isinstance(message, ToolResult):
            repaired.append((message, place))
        elif place in matches.unmatched:
            repaired.append((labeled_message(message), place))
    return repaired


def _pair_valid_history(messages: Sequence[Message]) -> list[tuple[Message, int | None]] | None:
    """Return a history that is already valid, adding tool names to results; else None."""
    legal: list[tuple[Message, int | None]] = []
    ids: list[str] = []
    due: list[ToolCall] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolResult):
            call = due.pop() if due else None
            if call is None or not call.id or message.call_id != call.id:
                return None
            ids.append(call.id)
            named = message if message.name else msgspec.structs.replace(message, name=call.name)
            legal.append((named, place))
            continue
        if due:
            return None
        if isinstance(message, Assistant):
            due = [*reversed(message.calls)]
        legal.append((message, place))
    return None if due or len(set(ids)) != len(ids) else legal


def _answered_turn(
    messages: Sequence[Message], place: int, slots: list[CallSlot], ids: CallIds
) -> list[tuple[Message, int | None]]:
    """Return a turn followed by a result for each of its calls."""
    calls: list[ToolCall] = []
    answers: list[tuple[Message, int | None]] = []
    for slot in slots:
        call = slot.call
        claimed = ids.claim(call.id)
        answer = missing_result(call) if slot.place is None else messages[slot.place]
        assert isinstance(answer, ToolResult)  # noqa: S101  # slots only refer to results
        renamed = claimed != call.id
        calls.append(msgspec.structs.replace(call, id=claimed) if renamed else call)
        if answer.call_id != claimed or not answer.name:
            name = answer.name or call.name
            answer = msgspec.structs.replace(answer, call_id=claimed, name=name)
        answers.append((answer, slot.place))
    turn = msgspec.structs.replace(messages[place], calls=tuple(calls))
    return [(turn, place), *answers]


def labeled_message(result: ToolResult) -> User:
    """Return an unmatched result as a user message, its content unchanged."""
    return User(
        f"{unmatched_result_label(result)}\n{result.content}", nudge=True, rung=UNMATCHED_RESULT
    )


def unmatched_result_label(result: ToolResult) -> str:
    """Return the label of an unmatched result, with its id and tool."""
    named = {"id": result.call_id, "tool": result.name}
    details = ", ".join(f"{key} {encode(name).decode()}" for key, name in named.items() if name)
    return f"{UNMATCHED_LABEL}{f' ({details})' if details else ''}:"


def missing_result(call: ToolCall) -> ToolResult:
    """Return the result for a call whose real result was not recorded."""
    code = ErrorCode.CALL_OUTCOME_UNKNOWN
    error = {
        "code": code,
        "message": "No result was recorded. The call may or may not have run; check before "
        "making it again.",
    }
    envelope = {"ok": False, "tool_name": call.name, "data": {}, "warnings": [], "errors": [error]}
    content = encode(envelope).decode()
    return ToolResult(call.id, call.name, ok=False, content=content, error_codes=(code,))
