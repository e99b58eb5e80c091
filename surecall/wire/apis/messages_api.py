"""Adapter for Anthropic's Messages API: responses, stream events, and errors.

The events of a stream:

    message_start, then block by block, one open at a time:
        content_block_start, content_block_delta …, content_block_stop
    message_delta, message_stop                                     or, at any point: error

A thinking block needs a signature before it closes, but the state that the signature encodes is
complete only at the end. A block that closes early is signed with the reasoning so far. If more
follows, a second block holds the complete state, before the calls. No such block follows the text
of a final answer: Claude Code prints only the last block, and only if it is text.
"""

from collections import defaultdict
from typing import Any, Final

import msgspec

from surecall.values.nesting import decode_json
from surecall.values.text import estimate_tokens
from surecall.values.types import JSON, is_blank
from surecall.wire.apis.adapter import (
    ClientRequest,
    ErrorReply,
    ProviderState,
    decode_request,
    encode_event,
    encode_state,
    text_part,
)
from surecall.wire.apis.messages_content import (
    provider_state,
    reasoning_text,
    without_cache_control,
)
from surecall.wire.apis.messages_request import NATIVE_OPTIONS, chat_request
from surecall.wire.chat_format import encode, parse_usage, plain_id, raw_calls
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import FinishKind, finish_kind

NO_USAGE: JSON = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}
_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_CLIENT_ERRORS, _SERVER_ERRORS = 400, 500
_PROMPT_TOO_LONG = "prompt is too long"
_OVERFLOW_PHRASES = ("context length", "context_length", "context window", "context size")


def empty_message(client_request: ClientRequest, head: JSON) -> JSON:
    """Return a message without content yet."""
    return {
        "id": plain_id(str(head.get("id") or ""), "msg_"),
        "type": "message",
        "role": "assistant",
        "model": head.get("model") or client_request.client_body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": dict(NO_USAGE),
    }


def assistant_message(body: JSON) -> JSON:
    """Return the assistant message of a chat completion."""
    message: JSON = body["choices"][0]["message"]
    return message


def _message_blocks(message: JSON) -> list[JSON]:
    text = answer_text(message)
    blocks = [*_thinking_blocks(message), *map(tool_use_block, raw_calls(message))]
    if not is_blank(text) or not blocks:
        blocks.insert(len(blocks) - len(raw_calls(message)), text_part(text))
    return blocks


def _thinking_blocks(message: JSON) -> list[JSON]:
    state, thought = provider_state(message), reasoning_text(message)
    if not state:
        return []
    if not thought:
        return [redacted_block(state)]
    return [{"type": "thinking", "thinking": thought, "signature": encode_state(state)}]


def redacted_block(state: ProviderState) -> JSON:
    """Return a block without visible content that holds the state."""
    return {"type": "redacted_thinking", "data": encode_state(state)}


def answer_text(message: JSON) -> str:
    """Return the text of a message, or its refusal if it has no text."""
    refusal = message.get("refusal")
    return text_of(message.get("content")) or (refusal if isinstance(refusal, str) else "")


def tool_use_block(call: JSON) -> JSON:
    """Return a `tool_use` block."""
    given = msgspec.json.decode(arguments_json(call))
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given}


def arguments_json(call: JSON) -> str:
    """Return the arguments of a call as JSON; `{}` if they are not an object."""
    text = call["function"].get("arguments")
    try:
        is_object = isinstance(text, str) and isinstance(decode_json(text), dict)
    except ValueError:
        is_object = False
    return text if is_object else "{}"


def stop_fields(client_request: ClientRequest, body: JSON) -> JSON:
    """Return the stop reason, and the stop sequence if the upstream names it."""
    choice = body["choices"][0]
    matched = choice.get("stop_reason")  # vLLM and SGLang put the stop sequence here
    if isinstance(matched, str) and matched in (
        client_request.client_body.get("stop_sequences") or ()
    ):
        return {"stop_reason": "stop_sequence", "stop_sequence": matched}
    return {"stop_reason": _stop_reason(choice), "stop_sequence": None}


def _stop_reason(choice: JSON) -> str:
    match finish_kind(choice.get("finish_reason")):
        case FinishKind.CUT_OFF:
            return "max_tokens"
        case FinishKind.FILTERED:
            return "refusal"
        case _:
            return "tool_use" if raw_calls(choice["message"]) else "end_turn"


def message_usage(body: JSON) -> JSON:
    """Return the usage of a message; cached tokens are counted separately."""
    usage = parse_usage(body.get("usage"))
    if usage is None:
        return dict(NO_USAGE)
    cached = min(max(usage.cached_tokens, 0), usage.prompt_tokens)
    return NO_USAGE | {
        "input_tokens": usage.prompt_tokens - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens,
    }


def anthropic_error(failure: ErrorReply) -> JSON:
    """Render an error body in Anthropic's format."""
    status = failure.status
    other = "invalid_request_error" if _CLIENT_ERRORS <= status < _SERVER_ERRORS else "api_error"
    kind = _ERROR_TYPES.get(status, other)
    return {"type": "error", "error": {"type": kind, "message": _error_text(failure)}}


def _error_text(failure: ErrorReply) -> str:
    said = f"{failure.code} {failure.message}".casefold()
    is_overflow = failure.status in {400, 413} and any(word in said for word in _OVERFLOW_PHRASES)
    # Claude Code compacts the conversation and retries when it finds these words.
    return f"{_PROMPT_TOO_LONG}: {failure.message}" if is_overflow else failure.message


_TEXT: Final = "text"
_THINKING: Final = "thinking"
_EMPTY_BLOCKS: Final[JSON] = {
    _TEXT: {"type": _TEXT, "text": ""},
    _THINKING: {"type": _THINKING, "thinking": "", "signature": ""},
}


class MessageEventWriter:
    """Writes the events of one streamed message."""

    def __init__(self, client_request: ClientRequest) -> None:
        self._client_request = client_request
        self._index = 0
        self._open_kind = ""
        self._sent_chars = 0  # characters of the text
        self._held_text = ""
        self._reasoning = ""
        self._reasoning_by_field: dict[str, str] = defaultdict(str)
        self._written_state = ProviderState()

    def begin(self, head: JSON) -> bytes:
        """Encode the start of the message."""
        return _encode_typed_event(
            "message_start", message=empty_message(self._client_request, head)
        )

    def write_text(self, text: str) -> bytes:
        """Encode a text delta; leading whitespace is held until other text follows."""
        self._held_text += text
        if not self._held_text or (not self._sent_chars and is_blank(self._held_text)):
            return b""
        ready, self._held_text = self._held_text, ""
        self._sent_chars += len(ready)
        return self._write_delta(_TEXT, ready)

    def write_reasoning(self, text: str, field: str) -> bytes:
        """Encode a reasoning delta."""
        if not text:
            return b""
        self._reasoning_by_field[field] += text
        self._reasoning += text
        return self._write_delta(_THINKING, text)

    def finish(self, body: JSON) -> bytes:
        """Encode the unsent part of a chat completion, and the end."""
        message = assistant_message(body)
        calls = raw_calls(message)
        state = provider_state(message)
        written = b"" if self._sent_chars else self._write_state(message, state)
        written += self._write_remaining_text(answer_text(message))
        if calls:
            written += self._write_state(message, state)
        written += b"".join(map(self._write_call, calls))
        if not self._index and not self._open_kind:
            written += self._write_delta(_TEXT, answer_text(message))
        written += self._close_block(state)
        delta = stop_fields(self._client_request, body)
        return (
            written
            + _encode_typed_event("message_delta", delta=delta, usage=message_usage(body))
            + _encode_typed_event("message_stop")
        )

    def fail(self, failure: ErrorReply) -> bytes:
        """Encode an error."""
        return encode_event(anthropic_error(failure), "error")

    def _write_state(self, message: JSON, state: ProviderState) -> bytes:
        """Encode the unsent reasoning, and the state if no block holds it yet."""
        thought = reasoning_text(message)
        rest = thought.removeprefix(self._reasoning) if thought.startswith(self._reasoning) else ""
        self._reasoning += rest
        written = self._write_delta(_THINKING, rest) if rest else b""
        if self._open_kind == _THINKING:
            return written + self._close_block(state)
        if self._written_state == state:
            return written
        self._written_state = state
        return self._close_block(state) + self._write_block(redacted_block(state))

    def _write_remaining_text(self, whole: str) -> bytes:
        rest, self._held_text = whole[self._sent_chars :], ""
        if not rest or (not self._sent_chars and is_blank(rest)):
            return b""
        self._sent_chars += len(rest)
        return self._write_delta(_TEXT, rest)

    def _write_call(self, call: JSON) -> bytes:
        delta = {"type": "input_json_delta", "partial_json": arguments_json(call)}
        return self._close_block() + self._write_block(tool_use_block(call) | {"input": {}}, delta)

    def _write_delta(self, kind: str, text: str) -> bytes:
        begun = (
            b""
            if self._open_kind == kind
            else self._close_block() + self._start_block(_EMPTY_BLOCKS[kind])
        )
        self._open_kind = kind
        return begun + self._block_delta({"type": f"{kind}_delta", kind: text})

    def _write_block(self, block: JSON, delta: JSON | None = None) -> bytes:
        written = self._start_block(block) + (self._block_delta(delta) if delta else b"")
        return written + self._stop_block()

    def _close_block(self, state: ProviderState | None = None) -> bytes:
        """Close the open block; sign thinking with `state`, or with the reasoning so far."""
        if not self._open_kind:
            return b""
        signed = b""
        if self._open_kind == _THINKING:
            self._written_state = (
                ProviderState(message=dict(self._reasoning_by_field)) if state is None else state
            )
            signed = self._block_delta(
                {"type": "signature_delta", "signature": encode_state(self._written_state)}
            )
        self._open_kind = ""
        return signed + self._stop_block()

    def _start_block(self, block: JSON) -> bytes:
        return _encode_typed_event("content_block_start", index=self._index, content_block=block)

    def _block_delta(self, delta: JSON) -> bytes:
        return _encode_typed_event("content_block_delta", index=self._index, delta=delta)

    def _stop_block(self) -> bytes:
        written = _encode_typed_event("content_block_stop", index=self._index)
        self._index += 1
        return written


def _encode_typed_event(kind: str, **fields: object) -> bytes:
    return encode_event({"type": kind} | fields, kind)


# About the cost of the largest image that is not scaled down.
_TOKENS_PER_MEDIA = 1_600
_MEDIA_TYPES = ("image_url", "file")


class MessagesApi:
    """Adapter for Anthropic's Messages API. `keeps_cache_control` forwards cache markers.

    `forwards_options` forwards the options that only this API has, for an upstream that has it too.
    """

    name = "messages"

    def __init__(
        self, *, keeps_cache_control: bool = False, forwards_options: bool = False
    ) -> None:
        self._keeps_cache_control = keeps_cache_control
        self._forwards_options = forwards_options

    def parse(self, data: bytes) -> ClientRequest:
        """Parse a request; raise `InvalidRequest` if a chat completion cannot express it."""
        given = decode_request(data)
        body = chat_request(given if self._keeps_cache_control else without_cache_control(given))
        if self._forwards_options:
            body |= {key: given[key] for key in NATIVE_OPTIONS if given.get(key) is not None}
        return ClientRequest(body, given, stream="stream" in body)

    def render(self, client_request: ClientRequest, body: JSON) -> JSON:
        """Render a chat completion as a message."""
        filled = {"content": _message_blocks(assistant_message(body)), "usage": message_usage(body)}
        return empty_message(client_request, body) | stop_fields(client_request, body) | filled

    def event_writer(self, client_request: ClientRequest) -> MessageEventWriter:
        """Return the event writer for a streamed reply."""
        return MessageEventWriter(client_request)

    def render_error(self, failure: ErrorReply) -> JSON:
        """Render an error body."""
        return anthropic_error(failure)

    def count_tokens(self, data: bytes) -> JSON:
        """Estimate the tokens of a request, for `POST /v1/messages/count_tokens`."""
        body = self.parse(data).body
        given = [message["content"] for message in body["messages"]]
        contents = [each if isinstance(each, list) else [each] for each in given]
        media = sum(_is_media(part) for content in contents for part in content)
        texts = [[part for part in content if not _is_media(part)] for content in contents]
        rest = [message | {"content": None} for message in body["messages"]]
        text = encode([texts, rest, body.get("tools")]).decode()
        return {"input_tokens": estimate_tokens(text) + _TOKENS_PER_MEDIA * media}


def _is_media(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _MEDIA_TYPES
