"""A legal history: every call answered exactly once, every id unique in the conversation.

The loop keeps it so by construction. What a caller hands over (an interrupted session, another
framework's transcript) is made so here, before the first request.
"""

from collections.abc import Iterable, Sequence

import msgspec

from surecall.values.errors import ErrorCode
from surecall.values.types import Assistant, Message, ToolCall, ToolResult
from surecall.wire.messages import encode


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
    """Pair calls and results: duplicates re-named, gaps answered, orphans dropped."""
    return tuple(message for message, _ in legal_places(messages))


def legal_places(messages: Sequence[Message]) -> list[tuple[Message, int | None]]:
    """Do the same, and say where each message stood; nowhere, if it fills a gap."""
    ids = Ids()
    repaired: list[tuple[Message, int | None]] = []
    position = 0
    while position < len(messages):
        place, message = position, messages[position]
        position += 1
        if isinstance(message, ToolResult):
            continue  # an orphan: results are taken together with their calls, below
        if not isinstance(message, Assistant) or not message.calls:
            repaired.append((message, place))
            continue
        results: list[tuple[ToolResult, int | None]] = []
        while position < len(messages) and isinstance(item := messages[position], ToolResult):
            results.append((item, position))
            position += 1
        repaired += _paired(message, place, results, ids)
    return repaired


def _paired(
    message: Assistant, place: int, results: list[tuple[ToolResult, int | None]], ids: Ids
) -> list[tuple[Message, int | None]]:
    """Answer each call with the first unused result of its id, occurrence by occurrence."""
    calls: list[ToolCall] = []
    answers: list[tuple[Message, int | None]] = []
    waiting: dict[str, list[tuple[ToolResult, int | None]]] = {}
    for result, at in reversed(results):
        waiting.setdefault(result.call_id, []).append((result, at))
    for call in message.calls:
        claimed = ids.claim(call.id)
        found = waiting.get(call.id)
        answer, at = found.pop() if found else (unanswered(call), None)
        calls.append(msgspec.structs.replace(call, id=claimed))
        name = answer.name or call.name
        answers.append((msgspec.structs.replace(answer, call_id=claimed, name=name), at))
    return [(msgspec.structs.replace(message, calls=tuple(calls)), place), *answers]


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
