"""The history of a request of the Messages API, as chat messages.

    assistant   text, tool_use, thinking ─► one message: text, calls, and the state that came back
    user        tool_result, the rest    ─► tool messages, then one user message
    assistant   blocks of other types    ─► the same, each after a label
    system      at the beginning, or between the others

A chat endpoint wants the results of calls right behind them. So in everything that follows an
assistant message the results come first, and the rest after them in its order. Ids may be missing
or wrong: the history is made legal later, for all APIs alike.
"""

from typing import Any

from surecall.proxy.faces.face import Refused, content_of
from surecall.proxy.faces.messages_content import (
    MARK,
    blocks_of,
    is_text,
    marked,
    parts_of,
    result_parts,
    text_part,
)
from surecall.proxy.faces.messages_state import restored, unseal
from surecall.values.types import JSON
from surecall.wire.messages import BLOCK_LABEL, encode, text_id

_FAILED = "The tool call failed:"
_OF_ASSISTANTS = frozenset({"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use"})
_ELSEWHERE = "The result is in the next message."


def chat_messages(request: JSON) -> list[JSON]:
    """Return the chat messages of a request; raise `Refused` for what cannot be one."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: at least one message is required.", "messages")
    written = _system(request.get("system"), "system")
    later: list[JSON] = []
    shown = _ShownMedia()
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        if _role(message, where) == "assistant":
            written = _with_answer([*written, *later], message, where)
            shown.forget(blocks_of(message.get("content"), where))
            results, later = _misplaced_blocks(message, where)
        else:
            results, rest = _heard(message, where, shown)
            later += rest
        written += results
    if not written and not later:
        raise Refused("messages: no message has content to send.", "messages")
    return [*written, *later]


def _role(message: Any, where: str) -> str:
    match message:
        case {"role": "user" | "assistant" | "system" as role}:
            return str(role)
        case _:
            raise Refused(
                f"{where}: a message must be an object with the role user, assistant or system.",
                where,
            )


def _system(content: Any, where: str) -> list[JSON]:
    if content is None:
        return []
    parts = [part for block in blocks_of(content, where) for part in parts_of(block, where)]
    return [{"role": "system", "content": content_of(parts)}] if parts else []


class _ShownMedia:
    """Images and files of tool results, each sent once although its result is repeated."""

    def __init__(self) -> None:
        self._seen: dict[str, set[bytes]] = {}
        self._called: set[str] = set()

    def forget(self, blocks: list[JSON]) -> None:
        """Forget the results of calls whose ids are used again."""
        ids = {text_id(block.get("id")) for block in blocks if block["type"] == "tool_use"}
        for call_id in ids & self._called:
            self._seen.pop(call_id, None)
        self._called |= ids

    def add(self, result: JSON, media: list[JSON]) -> list[JSON]:
        """Return the media unless this very result was sent before; without an id, always."""
        call_id = result["tool_call_id"]
        if not media or not call_id:
            return media
        seen = self._seen.setdefault(call_id, set())
        data = encode([result, media])
        if data in seen:
            return []
        seen.add(data)
        return media


def _heard(message: JSON, where: str, shown: _ShownMedia) -> tuple[list[JSON], list[JSON]]:
    """Return the results that a message brings, and what else it says."""
    content = message.get("content")
    if message["role"] == "system":
        return [], _system(content, where)
    if isinstance(content, str):
        return [], [{"role": "user", "content": content}]
    results: list[JSON] = []
    beside: list[JSON] = []
    said: list[JSON] = []
    for at, block in enumerate(blocks_of(content, where)):
        place = f"{where}.content.{at}"
        if block["type"] == "tool_result":
            result, media = _result(block, place)
            results.append(result)
            beside += shown.add(result, media)
        else:
            said += parts_of(block, place)
    return results, _user([*beside, *said])


def _user(parts: list[JSON]) -> list[JSON]:
    return [{"role": "user", "content": content_of(parts)}] if parts else []


def _misplaced_blocks(message: JSON, where: str) -> tuple[list[JSON], list[JSON]]:
    """Return the results in an assistant message, and its blocks that only a user can send."""
    results: list[JSON] = []
    parts: list[JSON] = []
    for at, block in enumerate(blocks_of(message.get("content"), where)):
        place = f"{where}.content.{at}"
        if block["type"] == "tool_result":
            result, media = _result(block, place)
            results.append(result)
            parts += media
        elif block["type"] not in _OF_ASSISTANTS:
            kind = encode(block["type"]).decode()
            label = f"{BLOCK_LABEL}{kind} in the assistant's message:"
            parts += [text_part(label), *result_parts(block, place)]
    return results, _user(parts)


def _result(block: JSON, where: str) -> tuple[JSON, list[JSON]]:
    """Return the tool message of a result, and what of it only a user message can show."""
    call_id = text_id(block.get("tool_use_id"))
    content = block.get("content")
    inner = blocks_of(content, where) if content is not None else []
    parts = [part for each in inner for part in result_parts(each, where)]
    texts = [part for part in parts if is_text(part)]
    media = [part for part in parts if not is_text(part)]
    if media:
        texts = texts or [text_part(_ELSEWHERE)]
        media = [text_part(f"From the result of the call {call_id}".rstrip() + ":"), *media]
    if block.get("is_error") is True:
        texts = [text_part(_FAILED), *texts]
    return {"role": "tool", "tool_call_id": call_id, "content": _told(texts, block)}, media


def _told(texts: list[JSON], block: JSON) -> str | list[JSON]:
    told = marked(texts, block)
    if any(MARK in part for part in told):
        return told
    return "\n".join(part["text"] for part in told)


def _with_answer(written: list[JSON], message: JSON, where: str) -> list[JSON]:
    answer = _answer(message.get("content"), where)
    if not answer.get("content") and answer.keys() == {"role", "content"}:
        return written
    if written and "tool_calls" in written[-1]:
        return [*written[:-1], _combined(written[-1], answer)]
    return [*written, answer]


def _combined(first: JSON, second: JSON) -> JSON:
    """Return two assistant messages as one: the calls of both are answered after them."""
    contents = [message["content"] for message in (first, second) if message["content"]]
    parts = [
        part
        for content in contents
        for part in ([text_part(content)] if isinstance(content, str) else content)
    ]
    calls = [*first["tool_calls"], *second.get("tool_calls", ())]
    return first | second | {"content": content_of(parts) or None, "tool_calls": calls}


def _answer(content: Any, where: str) -> JSON:
    parts: list[JSON] = []
    calls: list[JSON] = []
    state: JSON = {}
    for at, block in enumerate(blocks_of(content, where)):
        match block:
            case {"type": "text"}:
                parts += parts_of(block, f"{where}.content.{at}")
            case {"type": "tool_use"}:
                calls.append(_call(block, f"{where}.content.{at}"))
            case {"type": "thinking", "signature": sealed} | {
                "type": "redacted_thinking",
                "data": sealed,
            }:
                # Each seal holds all that was known when it was written: the last one counts.
                state = _later(state, unseal(sealed))
            case _:
                pass  # thoughts of another model, searches without findings, or `_misplaced_blocks`
    message: JSON = {"role": "assistant", "content": _said(parts, calls)}
    return restored(message | {"tool_calls": calls} if calls else message, state)


def _later(state: JSON, found: JSON | None) -> JSON:
    return state if found is None else found


def _said(parts: list[JSON], calls: list[JSON]) -> str | list[JSON] | None:
    if any(MARK in part for part in parts):
        return parts
    # The blocks of one answer are one text, cut where something else came between.
    text = "".join(part["text"] for part in parts)
    return text or (None if calls else "")


def _call(block: JSON, where: str) -> JSON:
    match block:
        case {"name": str(name), "input": dict(given)}:
            function = {"name": name, "arguments": encode(given).decode()}
            return {"id": text_id(block.get("id")), "type": "function", "function": function}
        case _:
            raise Refused(
                f"{where}: a tool_use block must have a `name` and an `input` object.",
                where,
            )
