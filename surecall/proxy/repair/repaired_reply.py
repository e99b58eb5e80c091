"""Repairs replies for the client, whole or streamed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from surecall.core.streaming import CallAnnounced, DisplayDelta, TextWithdrawn
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, Assistant, ToolCall, Usage, is_blank, object_or_empty
from surecall.wire.apis.adapter import ErrorReply, EventWriter
from surecall.wire.assembler import ReasoningDelta, TextDelta
from surecall.wire.chat_format import encode, name_and_arguments, raw_call_id, raw_calls
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import FinishKind, finish_kind
from surecall.wire.provider_state import CONTENT, FUNCTION
from surecall.wire.response import parse_choice

# A repaired completion keeps every valid field of the upstream's completion. Only what breaks
# clients changes: malformed calls, the text beside them, the finish reason, and missing fields.

_FINISH_REASONS: Final = {FinishKind.CUT_OFF: "length", FinishKind.FILTERED: "content_filter"}
_STANDARD_REASONS: Final = frozenset({"stop", "length", "content_filter"})
_TOOL_CALLS: Final = "tool_calls"


class DefaultHead(msgspec.Struct, frozen=True):
    """Values for required fields that the upstream leaves out."""

    id: str
    created: int
    model: str


def repair_completion(
    body: Any,
    said: Assistant,
    head: DefaultHead,
    names: Mapping[str, str],
    usage: Usage | None = None,
) -> JSON:
    """Return the chat completion for the client: the runnable calls of a turn, or its text.

    `names` maps upstream tool names to the client's. `usage` is the total of several requests.
    """
    whole = object_or_empty(body)
    choice = parse_choice(body)
    first = object_or_empty(choice)
    calls = [call for call in said.calls if call.is_runnable]
    raw = first.get("message")
    message = _repaired_message(raw if isinstance(raw, dict) else {}, said, calls, names)
    reason = first.get("finish_reason")
    if calls:
        reason = _TOOL_CALLS
    elif not isinstance(reason, str) or reason not in _STANDARD_REASONS:
        reason = _FINISH_REASONS.get(finish_kind(said.finish_reason), "stop")
    answered = {"index": 0} | first | {"message": message, "finish_reason": reason}
    answered.pop("delta", None)
    answer = _completion_head(whole, head) | {"choices": [answered]}
    if usage is not None:
        answer["usage"] = total_usage(whole.get("usage"), usage)
    # Keep the upstream's field order.
    return {key: answer[key] for key in (*whole, *answer) if key in answer}


def _completion_head(whole: JSON, head: DefaultHead) -> JSON:
    """Return the fields beside the choices, with defaults for required ones."""
    fields = {key: whole[key] for key in whole if key not in {"choices", "error"}}
    if not isinstance(fields.get("id"), str) or not fields["id"]:
        fields["id"] = head.id
    if not isinstance(fields.get("created"), int):
        fields["created"] = head.created
    if not isinstance(fields.get("model"), str) or not fields["model"]:
        fields["model"] = head.model
    return fields | {"object": "chat.completion"}


def _repaired_message(
    raw: JSON, said: Assistant, calls: Sequence[ToolCall], names: Mapping[str, str]
) -> JSON:
    extra = {key: said.extra[key] for key in said.extra if key != CONTENT}
    kept = {key: raw[key] for key in raw if key not in {_TOOL_CALLS, "function_call"}}
    message = (
        kept
        | extra
        | {"role": "assistant", CONTENT: _message_content(raw.get(CONTENT), said, calls)}
    )
    if calls:
        came = {raw_call_id(call): call for call in raw_calls(raw)}
        message[_TOOL_CALLS] = [
            _repaired_call(call, came.get(call.id), names.get(call.name, call.name))
            for call in calls
        ]
    elif raw.get(_TOOL_CALLS, "") in (None, []):
        message[_TOOL_CALLS] = raw[_TOOL_CALLS]  # keep the upstream's form of no calls
    return {key: message[key] for key in (*raw, *message) if key in message}


def _message_content(raw: Any, said: Assistant, calls: Sequence[ToolCall]) -> Any:
    """Return the content for the client: unchanged if its text is; null beside calls only."""
    if (raw is None or isinstance(raw, str)) and text_of(raw) == said.text:
        return raw
    return None if calls and is_blank(said.text) else said.text


def _repaired_call(call: ToolCall, came: JSON | None, name: str) -> JSON:
    """Return a call for the client; a valid one is unchanged."""
    if came is not None and came.get("type") == "function" and _is_valid_call(call, came, name):
        return came
    inner = call.extra.get(FUNCTION, {})
    function = {"name": name, "arguments": encode(call.arguments).decode()} | inner
    extra = {key: call.extra[key] for key in call.extra if key != FUNCTION}
    return {"id": call.id, "type": "function", FUNCTION: function} | extra


def _is_valid_call(call: ToolCall, came: JSON, name: str) -> bool:
    """Whether a call needs no repair: its name is the tool's, and its arguments are a JSON string.

    Arguments are compared as encoded text, because 3.0 and 3 may differ for a client.
    """
    said, arguments = name_and_arguments(came)
    if said != name or came[FUNCTION]["name"] != name or not isinstance(arguments, str):
        return False
    try:
        return encode(decode_json(arguments)) == encode(call.arguments)
    except ValueError:
        return False


def total_usage(last: Any, usage: Usage) -> JSON:
    """Return the total usage of several requests, in the format of the last one."""
    fields: JSON = dict(object_or_empty(last))
    fields |= {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    details = {
        "prompt_tokens_details": ("cached_tokens", usage.cached_tokens),
        "completion_tokens_details": ("reasoning_tokens", usage.reasoning_tokens),
    }
    for key, (name, count) in details.items():
        if count:
            fields[key] = object_or_empty(fields.get(key)) | {name: count}
    return fields if usage.cost is None else fields | {"cost": usage.cost}


# Streaming: text is sent as it arrives, and cannot be withdrawn.
#
# If the model is re-prompted after text was sent, its next reply is held until it is complete. Then
# its calls are sent, or text that continues what was sent. A different text is appended, provided
# that the earlier text was complete. If the earlier text broke off, the stream ends with an error.
# A `buffered` stream sends nothing before the reply is complete, so this cannot happen.

# Reasoning fields that stream. Reasoning in a list is sent at the end.
_STREAMED_FIELDS: Final = frozenset({"reasoning_content", "reasoning"})
_STREAM_CHANGED: Final = ErrorReply(
    502,
    "The upstream's reply broke off after part of it was sent, and the retry began differently. "
    "Use --stream buffered to avoid this.",
    "STREAM_CHANGED",
)


class StreamedReply:
    """Writes one streamed reply through the event writer of an API adapter."""

    def __init__(self, events: EventWriter, head: JSON, *, buffered: bool) -> None:
        self._events = events
        self._head = head
        self._buffered = buffered
        self.has_begun = False  # whether anything has been written
        self._is_held = buffered
        self._has_unfinished_text = self._is_broken = False
        # Pieces of what was sent. Concatenating on each delta would be quadratic.
        self._sent_text: list[str] = []
        self._sent_reasoning: dict[str, list[str]] = {}

    def begin(self, head: JSON) -> bytes:
        """Write the opening events, once; `head` comes from the upstream's first event."""
        if self.has_begun:
            return b""
        self.has_begun = True
        return self._events.begin(self._head | head)

    def start_next_request(self) -> None:
        """Start another upstream request: hold its reply if something was already sent."""
        self._hold_if_sent()
        self._has_unfinished_text = False

    def mark_broken(self) -> None:
        """Record that the current reply broke off, so the text sent from it is incomplete."""
        self._is_broken = self._is_broken or self._has_unfinished_text

    def _hold_if_sent(self) -> None:
        self._is_held = self._buffered or bool(self._sent_text or self._sent_reasoning)

    def show(self, shown: DisplayDelta) -> bytes:
        """Write a delta, unless replies are held."""
        match shown:
            case TextWithdrawn():
                self._hold_if_sent()
                return b""
            case TextDelta(text) if not self._is_held:
                self._sent_text.append(text)
                self._has_unfinished_text = True
                return self.begin({}) + self._events.write_text(text)
            case ReasoningDelta(text, field) if not self._is_held and field in _STREAMED_FIELDS:
                self._sent_reasoning.setdefault(field, []).append(text)
                return self.begin({}) + self._events.write_reasoning(text, field)
            case CallAnnounced() | TextDelta() | ReasoningDelta():  # pragma: no branch  # all
                return b""

    def finish(self, body: JSON) -> bytes:
        """Write the rest of a reply, or an error if it does not continue what was sent."""
        begin = self.begin({key: body[key] for key in self._head if key in body})
        message = self._continued_message(body["choices"][0]["message"])
        if message is None:
            return begin + self._events.fail(_STREAM_CHANGED)
        choice = body["choices"][0] | {"message": message}
        return begin + self._events.finish(body | {"choices": [choice]})

    def fail(self, failure: ErrorReply) -> bytes:
        """Write an error."""
        return self._events.fail(failure)

    def _continued_message(self, message: JSON) -> JSON | None:
        """Return a message that begins with what was sent; None if that is impossible."""
        thoughts = {field: "".join(pieces) for field, pieces in self._sent_reasoning.items()}
        message = message | {
            field: sent
            for field, sent in thoughts.items()
            if not str(message.get(field) or "").startswith(sent)
        }
        if not self._sent_text:
            return message
        text = "".join(self._sent_text)
        sent, said = text.lstrip(), str(message.get("content") or "").lstrip()
        if said.startswith(sent):
            return message | {"content": text + said[len(sent) :]}
        if message.get("tool_calls"):
            return message | {"content": text}
        return None if self._is_broken else message | {"content": f"{text}\n\n{said}"}


def is_passthrough(body: JSON) -> bool:
    """Whether a request passes through unchanged, because nothing in the reply can be repaired.

    That is a request without tools, with custom tools, or with an unknown `tool_choice`; one for
    several choices, log probabilities, or audio; and one with a response format, unless it also
    limits calls.
    """
    messages, tools = body.get("messages"), body.get("tools")
    return (
        not isinstance(body.get("model"), str)
        or not (isinstance(messages, list) and messages)
        or not all(isinstance(message, dict) for message in messages)
        or not (isinstance(tools, list) and tools)
        or any(isinstance(tool, dict) and tool.get("type") == "custom" for tool in tools)
        or not isinstance(body.get("tool_choice"), str | dict | None)
        or body.get("n", 1) not in (None, 1)
        or bool(body.get("logprobs"))
        or bool(body.get("audio"))
        or (body.get("response_format") not in (None, {"type": "text"}) and not _limits_calls(body))
    )


def _limits_calls(body: JSON) -> bool:
    """Whether the client limits the calls that the model may make."""
    return body.get("tool_choice") == "none" or body.get("parallel_tool_calls") is False
