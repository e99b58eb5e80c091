"""The chat completions API. The upstream uses it too, so valid replies pass through unchanged."""

from typing import Any, Final

from surecall.values.types import JSON
from surecall.wire.apis.adapter import (
    ClientRequest,
    ErrorReply,
    decode_request_with_bytes,
    encode_event,
)

_DONE: Final = b"data: [DONE]\n\n"
_HANDLED_FIELDS: Final = frozenset({"role", "content", "tool_calls"})


class ChatApi:
    """Adapter for OpenAI's Chat Completions API."""

    name = "chat"

    def parse(self, data: bytes) -> ClientRequest:
        """Parse a request; the upstream validates everything but the tool calls."""
        body, sound = decode_request_with_bytes(data)
        return ClientRequest(body, body, body.get("stream") is True, sound)

    def render(self, client_request: ClientRequest, body: JSON) -> JSON:  # noqa: ARG002  # it is the same API
        """Return the chat completion unchanged."""
        return body

    def event_writer(self, client_request: ClientRequest) -> "ChatEventWriter":
        """Return the event writer for a streamed reply."""
        options = client_request.client_body.get("stream_options")
        wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        return ChatEventWriter(wants_usage=wants_usage)

    def render_error(self, failure: ErrorReply) -> JSON:
        """Render an error body in OpenAI's format."""
        return error_body(failure)


def error_body(failure: ErrorReply) -> JSON:
    """Render an error body in OpenAI's format."""
    is_client_error = 400 <= failure.status < 500  # noqa: PLR2004  # HTTP status class
    kind = "invalid_request_error" if is_client_error else "api_error"
    error = {"message": failure.message, "type": kind, "param": failure.param, "code": failure.code}
    return {"error": error}


class ChatEventWriter:
    """Writes the chunks of one completion: text as it arrives, then whole calls, then usage."""

    def __init__(self, *, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        self._head: JSON = {}
        self._sent_chars = 0
        self._sent_reasoning: dict[str, int] = {}

    def begin(self, head: JSON) -> bytes:
        """Encode the first chunk, with the role."""
        self._head = head | {"object": "chat.completion.chunk"}
        return self._encode_delta({"role": "assistant"})  # no `content`: there may be no text

    def write_text(self, text: str) -> bytes:
        """Encode a text delta."""
        self._sent_chars += len(text)
        return self._encode_delta({"content": text})

    def write_reasoning(self, text: str, field: str) -> bytes:
        """Encode a reasoning delta, in the upstream's own field."""
        self._sent_reasoning[field] = self._sent_reasoning.get(field, 0) + len(text)
        return self._encode_delta({field: text})

    def finish(self, body: JSON) -> bytes:
        """Encode the unsent text, the fields that cannot be streamed, the calls, and the end."""
        choice = body["choices"][0]
        message = choice["message"]
        chunks = [self._encode_delta(delta) for delta in self._remaining_deltas(message)]
        beside = {key: choice[key] for key in choice if key not in {"index", "message"}}
        chunks.append(self._encode_delta({}, **beside))
        if self._wants_usage:
            chunks.append(self._encode_chunk([], usage=body.get("usage")))
        return b"".join((*chunks, _DONE))

    def fail(self, failure: ErrorReply) -> bytes:
        """Encode an error, without the `[DONE]` that marks a complete reply."""
        return encode_event(error_body(failure))

    def _remaining_deltas(self, message: JSON) -> list[JSON]:
        fields = {
            key: self._unsent_part(key, value)
            for key, value in message.items()
            if key not in _HANDLED_FIELDS and value is not None
        }
        deltas: list[JSON] = [{key: value} for key, value in fields.items() if value != ""]
        if rest := (message.get("content") or "")[self._sent_chars :]:
            deltas.append({"content": rest})
        if calls := message.get("tool_calls"):
            numbered = [{"index": index} | call for index, call in enumerate(calls)]
            deltas.append({"tool_calls": numbered})
        return deltas

    def _unsent_part(self, key: str, value: Any) -> Any:
        return value[self._sent_reasoning.get(key, 0) :] if isinstance(value, str) else value

    def _encode_delta(self, delta: JSON, **beside: Any) -> bytes:
        choice = {"index": 0, "delta": delta} | ({"finish_reason": None} | beside)
        return self._encode_chunk([choice])

    def _encode_chunk(self, choices: list[JSON], **beside: Any) -> bytes:
        return encode_event(self._head | {"choices": choices} | beside)
