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
    ids = Ids()
    repaired: list[Message] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if isinstance(message, ToolResult):
            continue  # an orphan: results are taken together with their calls, below
        if not isinstance(message, Assistant) or not message.calls:
            repaired.append(message)
            continue
        results: list[ToolResult] = []
        while position < len(messages) and isinstance(item := messages[position], ToolResult):
            results.append(item)
            position += 1
        repaired += _paired(message, results, ids)
    return tuple(repaired)


def _paired(message: Assistant, results: list[ToolResult], ids: Ids) -> list[Message]:
    """Answer each call with the first unused result of its id, occurrence by occurrence."""
    calls: list[ToolCall] = []
    answers: list[ToolResult] = []
    waiting: dict[str, list[ToolResult]] = {}
    for result in reversed(results):
        waiting.setdefault(result.call_id, []).append(result)
    for call in message.calls:
        claimed = ids.claim(call.id)
        found = waiting.get(call.id)
        answer = found.pop() if found else unanswered(call)
        calls.append(msgspec.structs.replace(call, id=claimed))
        answers.append(
            msgspec.structs.replace(answer, call_id=claimed, name=answer.name or call.name)
        )
    return [msgspec.structs.replace(message, calls=tuple(calls)), *answers]


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
