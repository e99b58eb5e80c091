"""A legal history: every call answered exactly once, every id unique in the conversation.

The loop keeps it so by construction. What a caller hands over (an interrupted session, another
framework's transcript) is made so here, before the first request. No result is lost: one that
answers no call is sent as a labeled user message.
"""

from collections.abc import Iterable, Sequence

import msgspec

from surecall.values.errors import ErrorCode
from surecall.values.types import (
    UNMATCHED_RESULT,
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    User,
)
from surecall.wire.messages import UNMATCHED_LABEL, encode
from surecall.wire.result_matching import Slot, match_results


class Ids:
    """The ids taken in a conversation; `claim` hands out one that is still free."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._copies: dict[str, int] = {}
        self._minted = 0

    def claim(self, wanted: str) -> str:
        """Return the wanted id if it is free, else a variant; a blank one is minted."""
        free = wanted or self._mint()
        while free in self._taken:
            self._copies[wanted] = self._copies.get(wanted, 1) + 1
            free = f"{wanted}__{self._copies[wanted]}"
        self._taken.add(free)
        return free

    def _mint(self) -> str:
        self._minted = max(self._minted, len(self._taken)) + 1
        while f"tc_{self._minted}" in self._taken:
            self._minted += 1
        return f"tc_{self._minted}"


def ids_of(messages: Iterable[Message]) -> Ids:
    """Return the ids that a conversation has used."""
    return Ids(
        call.id
        for message in messages
        if isinstance(message, Assistant) and message.calls
        for call in message.calls
    )


def legal_history(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Answer each call once, right after its turn; rename repeated ids; label stray results."""
    return tuple(message for message, _ in legal_places(messages))


def legal_places(messages: Sequence[Message]) -> list[tuple[Message, int | None]]:
    """Do the same, and say where each message stood; nowhere, if it fills a gap.

    A result that answers no call stays where it stood, as a labeled user message.
    """
    legal = _pair_in_order(messages)
    if legal is not None:
        return legal
    ids = Ids()
    matches = match_results(messages)
    repaired: list[tuple[Message, int | None]] = []
    for place, message in enumerate(messages):
        if place in matches.turns:
            repaired += _turn_with_answers(messages, place, matches.turns[place], ids)
        elif not isinstance(message, ToolResult):
            repaired.append((message, place))
        elif place in matches.unmatched:
            repaired.append((labeled_message(message), place))
    return repaired


def _pair_in_order(messages: Sequence[Message]) -> list[tuple[Message, int | None]] | None:
    """Return a history that is legal already, results with the names of their calls; else None."""
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


def _turn_with_answers(
    messages: Sequence[Message], place: int, slots: list[Slot], ids: Ids
) -> list[tuple[Message, int | None]]:
    """Return a turn with an answer to each of its calls."""
    calls: list[ToolCall] = []
    answers: list[tuple[Message, int | None]] = []
    for slot in slots:
        call = slot.call
        claimed = ids.claim(call.id)
        answer = unanswered(call) if slot.place is None else messages[slot.place]
        assert isinstance(answer, ToolResult)  # noqa: S101  # a slot holds the place of a result
        renamed = claimed != call.id
        calls.append(msgspec.structs.replace(call, id=claimed) if renamed else call)
        if answer.call_id != claimed or not answer.name:
            name = answer.name or call.name
            answer = msgspec.structs.replace(answer, call_id=claimed, name=name)
        answers.append((answer, slot.place))
    turn = msgspec.structs.replace(messages[place], calls=tuple(calls))
    return [(turn, place), *answers]


def labeled_message(result: ToolResult) -> User:
    """Return a result that answers no call as a user message, its content unchanged."""
    return User(f"{label_of(result)}\n{result.content}", nudge=True, rung=UNMATCHED_RESULT)


def label_of(result: ToolResult) -> str:
    """Say of a result that it answers no call, with the id and the tool that it names."""
    named = {"id": result.call_id, "tool": result.name}
    known = ", ".join(f"{key} {encode(name).decode()}" for key, name in named.items() if name)
    return f"{UNMATCHED_LABEL}{f' ({known})' if known else ''}:"


def unanswered(call: ToolCall) -> ToolResult:
    """Answer a call whose result was not recorded."""
    code = ErrorCode.TOOL_CALL_NOT_EXECUTED
    error = {
        "code": code,
        "message": "No result was recorded. The call may or may not have run; check before "
        "making it again.",
    }
    envelope = {"ok": False, "tool_name": call.name, "data": {}, "warnings": [], "errors": [error]}
    content = encode(envelope).decode()
    return ToolResult(call.id, call.name, ok=False, content=content, error_codes=(code,))
