"""API adapters: the interface between a client's API and the chat completions of the upstream.

    parse         client request ─► chat completion request, or `InvalidRequest`
    render        chat completion ─► client response
    event_writer  streamed chat completion ─► client events

An adapter renders completions that are already repaired. It keeps no state between requests;
provider state that the next request must contain travels through the client.
"""

import json
from base64 import b64decode, b64encode
from typing import Any, Final, Protocol

import msgspec

from surecall.parsing.budget import MAX_VALUES, has_too_many_values
from surecall.values.nesting import MAX_WRAPPED_DEPTH, check_depth, decode_json
from surecall.values.types import JSON
from surecall.wire.chat_format import encode, replace_surrogates
from surecall.wire.content_parts import parts_with_text, text_of
from surecall.wire.provider_state import CONTENT, FUNCTION, call_extra, message_extra


class InvalidRequest(Exception):
    """Raised for a request that cannot be converted to a chat completion."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status


class ClientRequest(msgspec.Struct, frozen=True):
    """A parsed request: `body` is the upstream request, `client_body` the decoded client request.

    Values of `body` may be `msgspec.Raw`, which are sent unchanged. `client_bytes` is set only for
    the chat API, so that a request that needs no change is forwarded byte for byte.
    """

    body: JSON
    client_body: JSON
    stream: bool = False
    client_bytes: bytes = b""


class ErrorReply(msgspec.Struct, frozen=True):
    """An error response. `code` is an `ErrorCode` or the upstream's code, without whitespace."""

    status: int
    message: str
    code: str
    param: str | None = None


class EventWriter(Protocol):
    """Encodes one streamed reply as events. `begin` is called once, before the other methods."""

    def begin(self, head: JSON) -> bytes:
        """Encode the opening events; `head` has `id`, `created` and `model`."""
        ...

    def write_text(self, text: str) -> bytes:
        """Encode a text delta."""
        ...

    def write_reasoning(self, text: str, field: str) -> bytes:
        """Encode a reasoning delta; `field` is the upstream's field for reasoning."""
        ...

    def finish(self, body: JSON) -> bytes:
        """Encode the rest of a chat completion and the end; its text starts with what was sent."""
        ...

    def fail(self, failure: ErrorReply) -> bytes:
        """Encode an error that ends the stream."""
        ...


class ApiAdapter(Protocol):
    """Converts between one client API and chat completions."""

    name: str

    def parse(self, data: bytes) -> ClientRequest:
        """Parse a client request; raise `InvalidRequest` if it cannot be converted."""
        ...

    def render(self, client_request: ClientRequest, body: JSON) -> JSON:
        """Render a chat completion as a response body."""
        ...

    def event_writer(self, client_request: ClientRequest) -> EventWriter:
        """Return the event writer for a streamed reply."""
        ...

    def render_error(self, failure: ErrorReply) -> JSON:
        """Render an error body."""
        ...


def decode_request(data: bytes) -> dict[str, Any]:
    """Decode a request; raise `InvalidRequest` if it is not an object or has too many values."""
    return decode_request_with_bytes(data)[0]


def decode_request_with_bytes(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Decode a request, and return it with the bytes to forward.

    The bytes are unchanged, except that lone surrogates become U+FFFD. Clients send those when
    they truncate a string inside an emoji.
    """
    if has_too_many_values(data, MAX_VALUES):
        raise InvalidRequest(
            f"The request has more than {MAX_VALUES} values. Shorten the conversation.", status=413
        )
    try:
        body = decode_json(data, limit=MAX_WRAPPED_DEPTH)
    except ValueError as problem:
        body = _decode_scrubbed(data)
        if body is None:
            raise InvalidRequest(f"The request body is not valid JSON: {problem}") from None
        data = encode(body)
    if not isinstance(body, dict):
        raise InvalidRequest("The request body must be a JSON object.")
    return body, data


def _decode_scrubbed(data: bytes) -> Any:
    """Decode JSON with lone surrogates; None if it is invalid for another reason."""
    if rb"\ud" not in data.lower():
        return None
    try:
        check_depth(data, MAX_WRAPPED_DEPTH)
        return replace_surrogates(json.loads(data, parse_constant=_reject_constant))
    except ValueError:
        return None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def encode_event(data: Any, name: str = "") -> bytes:
    """Encode one server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


def text_part(text: str) -> JSON:
    """Return a text part."""
    return {"type": "text", "text": text}


def content_from_parts(parts: list[JSON]) -> str | list[JSON]:
    """Return parts as message content: a string if there is only one plain text part."""
    match parts:
        case []:
            return ""
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return text
        case _:
            return parts


# Provider state travels through the client, encoded in an item or block that the client echoes.
#
# The encoded state is neither secret nor signed. A client could put the same fields into a chat
# completion, so decoded state never replaces text, calls, or arguments. State that another service
# encoded is ignored, and invalid state never fails a request.

STATE_PREFIX: Final = "surecall1:"
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")


class ProviderState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Undocumented fields of a message and, by call id, of its calls.

    `turn` and `opens` are for APIs in which a turn is several items: `opens` marks the first one.
    If a turn has several states, the last one counts.
    """

    turn: str = ""
    opens: bool = False
    message: JSON = {}
    calls: dict[str, JSON] = {}

    def __bool__(self) -> bool:
        return bool(self.message or self.calls)


def encode_state(state: ProviderState | JSON) -> str:
    """Encode state as a string for the client to echo."""
    return STATE_PREFIX + b64encode(encode(state)).decode()


def decode_state(sealed: Any) -> ProviderState | None:
    """Decode state; None if the proxy did not encode it."""
    if not isinstance(sealed, str) or not sealed.startswith(STATE_PREFIX):
        return None
    try:
        data = b64decode(sealed.removeprefix(STATE_PREFIX), validate=True)
        too_large = has_too_many_values(data, MAX_VALUES)
        return None if too_large else decode_json(data, ProviderState, limit=MAX_WRAPPED_DEPTH)
    except ValueError:
        return None


def call_states(calls: list[JSON]) -> dict[str, JSON]:
    """Return the undocumented fields of calls, by call id."""
    extras = {str(call.get("id")): call_extra(call) for call in calls}
    return {key: extra for key, extra in extras.items() if extra}


def with_provider_state(message: JSON, state: ProviderState) -> JSON:
    """Return a chat message with the state of the message and its calls put back."""
    whole = message_extra(state.message, {}) | message
    parts = state.message.get(CONTENT)
    if isinstance(parts, list):
        whole[CONTENT] = parts_with_text(parts, text_of(message[CONTENT]))
    if "tool_calls" in message:
        whole["tool_calls"] = [
            _call_with_state(call, state.calls.get(call["id"], {}))
            for call in message["tool_calls"]
        ]
    return whole


def _call_with_state(call: JSON, extra: JSON) -> JSON:
    beside = call_extra(extra)
    inner = beside.pop(FUNCTION, {})
    return beside | call | {FUNCTION: inner | call[FUNCTION]}


def reasoning_field(message: JSON, *first: str) -> str:
    """Return the field that holds the reasoning, blank if there is none."""
    fields = (*first, *_REASONING_FIELDS)
    return next((key for key in fields if isinstance(message.get(key), str) and message[key]), "")
