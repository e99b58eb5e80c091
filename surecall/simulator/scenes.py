"""Transport scenes: what goes wrong around a reply rather than in it."""

from typing import Final

import msgspec

from surecall.errors import ErrorCode
from surecall.types import JSON

_RETRIED = "retried"
_HTML = (
    "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\n"
    "<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>\n"
)


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """How one answer is sent. Without a `status` the persona's own reply goes out.

    `wait_s` comes before the answer; `sends` is the share of the body that goes out before the
    connection is closed; `ending` says what happens to the connection (`close`, `reset`, or
    `hang`: nothing is ever sent).
    """

    id: str
    summary: str
    outcome: str = _RETRIED
    status: int | None = None
    body: JSON | str = {}
    headers: dict[str, str] = {}
    wait_s: float = 0.0
    sends: float = 1.0
    ending: str = ""
    gzip: bool = False
    only_first: bool = False
    pieces: int = 1


def _error(message: str, kind: str, code: object = None) -> JSON:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_ALL: Final = (
    Scene(
        id="http-429",
        summary="429 with Retry-After: 1 for the first request of a conversation, then fine",
        only_first=True,
        status=429,
        headers={"Retry-After": "1"},
        body=_error("Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    ),
    Scene(
        id="http-500",
        summary="500 with an error object, then fine",
        status=500,
        body=_error("The server had an error while processing your request.", "server_error"),
    ),
    Scene(
        id="http-503",
        summary="503 with an overloaded error, then fine",
        status=503,
        body=_error("The engine is currently overloaded.", "overloaded_error"),
    ),
    Scene(
        id="html-502",
        summary="502 with a proxy's HTML page, then fine",
        status=502,
        headers={"Content-Type": "text/html; charset=utf-8"},
        body=_HTML,
    ),
    Scene(
        id="html-200",
        summary="200 with an HTML page instead of JSON, as from a wrong address",
        outcome=ErrorCode.DECODE_ERROR,
        status=200,
        headers={"Content-Type": "text/html; charset=utf-8"},
        body=_HTML,
    ),
    Scene(
        id="blank-200",
        summary="200 with nothing but blank lines, as some proxies keep a connection alive",
        status=200,
        headers={"Content-Type": "application/json"},
        body="\n\n\n",
    ),
    Scene(id="hang-up", summary="the connection is closed without an answer", ending="close"),
    Scene(id="reset", summary="the connection is reset without an answer", ending="reset"),
    Scene(id="cut", summary="the body ends in the middle, the rest never comes", sends=0.5),
    Scene(id="silent", summary="the socket stays open and silent", ending="hang"),
    Scene(id="slow", summary="the answer comes, a little late", outcome="cured", wait_s=0.2),
    Scene(id="drip", summary="the answer comes in small pieces", outcome="cured", pieces=16),
    Scene(id="gzip", summary="the answer is compressed", outcome="cured", gzip=True),
    Scene(
        id="http-401",
        summary="401: the key is refused",
        outcome=ErrorCode.AUTH,
        status=401,
        body=_error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    ),
    Scene(
        id="http-402",
        summary="402: the account is out of credit",
        outcome=ErrorCode.PAYMENT_REQUIRED,
        status=402,
        body={"error": {"code": 402, "message": "Insufficient credits."}},
    ),
    Scene(
        id="http-403-moderation",
        summary="403: moderation refused the prompt",
        outcome=ErrorCode.CONTENT_POLICY,
        status=403,
        body={
            "error": {
                "code": 403,
                "message": "Input was flagged.",
                "metadata": {"reasons": ["SAFETY_CHECK_TYPE_BIO"], "flagged_input": "…"},
            }
        },
    ),
    Scene(
        id="http-400-context",
        summary="400: the conversation does not fit the window",
        outcome=ErrorCode.CONTEXT_TOO_LONG,
        status=400,
        body=_error(
            "This model's maximum context length is 8192 tokens.",
            "invalid_request_error",
            "context_length_exceeded",
        ),
    ),
)
SCENES: Final[dict[str, Scene]] = {scene.id: scene for scene in _ALL}
