"""A face: one API that clients speak. The upstream is always asked for a chat completion.

    parse   the client's request ─► the request of a chat completion, or `Refused`
    render  a chat completion ─► the client's answer
    events  a chat completion that is still coming ─► the client's events, in their order

A face knows nothing of healing: what it renders is a chat completion as it should have been. It
keeps no state between requests; what must come back in the next one travels through the client.
"""

import json
from typing import Any, Protocol

import msgspec

from surecall.parsing.budget import MAX_VALUES, holds_too_many
from surecall.values.nesting import MAX_WRAPPED_DEPTH, check_depth, decode_json
from surecall.values.types import JSON
from surecall.wire.messages import encode, scrub


class Refused(Exception):
    """A request that the face cannot put into a chat completion: the client's mistake."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status


class Asked(msgspec.Struct, frozen=True):
    """A request: `body` is what the upstream is asked, `given` what the client sent, decoded.

    Values of `body` may be `msgspec.Raw`: they go out as they came. `data` are the client's own
    bytes where the face is that of the upstream, so that a request which needs no change can go out
    byte for byte.
    """

    body: JSON
    given: JSON
    stream: bool = False
    data: bytes = b""


class Failure(msgspec.Struct, frozen=True):
    """Why there is no answer. `code` is one of ours or the upstream's, a text without blanks."""

    status: int
    message: str
    code: str
    param: str | None = None


class Events(Protocol):
    """The events of one answer, written while it comes. `begin` is called once, before the rest."""

    def begin(self, head: JSON) -> bytes:
        """Write what can be said at the beginning; `head` has `id`, `created` and `model`."""
        ...

    def text(self, text: str) -> bytes:
        """Write more of the answer."""
        ...

    def thought(self, text: str, field: str) -> bytes:
        """Write more of what the model thinks; `field` is the upstream's name for it."""
        ...

    def finish(self, body: JSON) -> bytes:
        """Write the rest of a chat completion and the end; its text begins with what was sent."""
        ...

    def fail(self, failure: Failure) -> bytes:
        """Write that there will be no answer, and the end."""
        ...


class Face(Protocol):
    """One API."""

    name: str

    def parse(self, data: bytes) -> Asked:
        """Read a request; raise `Refused` if no upstream could answer it."""
        ...

    def render(self, asked: Asked, body: JSON) -> JSON:
        """Write a whole answer, of a chat completion."""
        ...

    def events(self, asked: Asked) -> Events:
        """Write an answer as events."""
        ...

    def error(self, failure: Failure) -> JSON:
        """Write an answer that says why there is none."""
        ...


def request_of(data: bytes) -> dict[str, Any]:
    """Decode a request; raise `Refused` if it is not a JSON object, or one of too many values."""
    return sound_request(data)[0]


def sound_request(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Do the same, and return what can be sent: the bytes that came, unless a text was cut in them.

    A lone surrogate, as of a text that was cut inside an emoji, becomes U+FFFD.
    """
    if holds_too_many(data, MAX_VALUES):
        raise Refused(f"The request holds more than {MAX_VALUES} values.", status=413)
    try:
        body = decode_json(data, limit=MAX_WRAPPED_DEPTH)
    except ValueError as problem:
        body = _scrubbed(data)
        if body is None:
            raise Refused(f"The request body is not valid JSON: {problem}") from None
        data = encode(body)
    if not isinstance(body, dict):
        raise Refused("The request body must be a JSON object.")
    return body, data


def _scrubbed(data: bytes) -> Any:
    """Decode JSON that has a lone surrogate; None if that is not all that is wrong with it."""
    if rb"\ud" not in data.lower():
        return None
    try:
        check_depth(data, MAX_WRAPPED_DEPTH)
        return scrub(json.loads(data, parse_constant=_refuse_constant))
    except ValueError:
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def event(data: Any, name: str = "") -> bytes:
    """Write one event of a stream."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


def content_of(parts: list[JSON]) -> str | list[JSON]:
    """Return parts as the content of a message: a text where they are one and nothing more."""
    match parts:
        case []:
            return ""
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return text
        case _:
            return parts
