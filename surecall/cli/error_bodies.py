"""Detects bodies without a model reply: gateway error pages and sentences, and truncated bodies.

A sentence counts as an error only if a known gateway writes it or the HTTP status says so, because
a model may reply with any text.
"""

import codecs
import re
from http import HTTPStatus
from typing import Any, Final

import msgspec

from surecall.parsing.budget import MAX_VALUES, TooManyValues
from surecall.values.errors import ConfigError, ErrorCode, Fault
from surecall.values.nesting import MAX_DEPTH, TooDeep
from surecall.wire.response import parse_fault

# Other text encodings by their byte order mark; longer marks first.
_ENCODINGS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_COMPRESSIONS: Final = {
    b"\x1f\x8b": ("gzip", "gunzip -c"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
}
_HEAD_CHARS: Final = 4_096
_MAX_QUOTE: Final = 200
_MAX_SENTENCE: Final = 300
_FIRST_ERROR_STATUS: Final = 400
_HTML: Final = re.compile(
    r"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_XML: Final = re.compile(r"\s*<\?xml\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<(?:title|h1)\b[^>]*>([^<]+)", re.IGNORECASE)
_STATUS_NUMBER: Final = re.compile(r"(?:HTTP(?:/[\d.]+)?\s+|error\s+)?([45]\d\d)\b", re.IGNORECASE)
# `502 Bad Gateway`, optionally after the protocol.
_STATUS_BY_PHRASE: Final = {status.phrase.casefold(): status.value for status in HTTPStatus}
_STATUS_LINE: Final = re.compile(r"(?:HTTP/[\d.]+\s+)?(\d{3})\s+(.+)", re.IGNORECASE)
# How error bodies of Envoy, Cloudflare, Traefik, Go, and others begin.
_GATEWAY_PREFIXES: Final = (
    "upstream connect error or disconnect/reset",
    "upstream request timeout",
    "no healthy upstream",
    "404 page not found",
    "default backend - 404",
    "rbac: access denied",
    "fault filter abort",
    "local_rate_limited",
)
_ERROR_CODE: Final = re.compile(r"error code: \d{3,4}", re.IGNORECASE)
# The start of a response body, which a model does not write as a call.
_RESPONSE_START: Final = re.compile(rb'\s*\[?\s*\{\s*"(?:choices|error|object|created)"')
_RESPONSE_FIELDS: Final = re.compile(
    rb'\s*\{\s*"[a-z_]+"\s*:.*"(?:choices"\s*:\s*\[|object"\s*:\s*"chat\.)', re.DOTALL
)


def require_utf8(data: bytes) -> None:
    """Raise if the data is compressed or has another encoding than UTF-8."""
    for mark, name in _ENCODINGS.items():
        if data.startswith(mark):
            raise ConfigError(
                f"the input is {name}, not UTF-8; convert it: iconv -f {name} -t UTF-8 FILE"
            )
    for mark, (name, command) in _COMPRESSIONS.items():
        if data.startswith(mark):
            raise ConfigError(f"the input is compressed ({name}); decompress it: {command} FILE")


def body_fault(text: str, status: int | None) -> Fault | None:
    """Return the fault in a plain text body; None if it may be a model's reply."""
    if not text.strip() and status is None:
        message = "The response is empty."
        return Fault(ErrorCode.EMPTY_RESPONSE, message, retryable=True)
    return page_fault(text, status) or sentence_fault(text, status)


def page_fault(text: str, status: int | None) -> Fault | None:
    """Return the fault for an HTML page or XML document; None if the text is neither."""
    head = text[:_HEAD_CHARS]
    form = "HTML" if _HTML.match(head) else "XML" if _XML.match(head) else ""
    if not form:
        return None
    found = _TITLE.search(head)
    title = " ".join(found[1].split())[:_MAX_QUOTE] if found else ""
    number = _STATUS_NUMBER.match(title)
    status = status or (int(number[1]) if number else None)
    what = {"HTML": "an HTML{} page", "XML": "an XML{} document"}[form]
    said = f"The endpoint returned {what.format(' error' if status else '')}, not a model reply"
    message = f"{said}: {title}" if title else f"{said}."
    return _fault_from_status(message, status, hint="Check base_url and api_prefix.")


def sentence_fault(text: str, status: int | None) -> Fault | None:
    """Return the fault for a gateway's plain text error; None if it may be a model's reply."""
    said = " ".join(text[:_HEAD_CHARS].split())
    status = status or _status_from_text(said)
    if status is None and not _is_gateway_sentence(said):
        return None
    if not said:
        return _fault_from_status("The endpoint returned an empty body.", status)
    message = (
        f"The endpoint returned an error in plain text, not a model reply: {said[:_MAX_QUOTE]}"
    )
    return _fault_from_status(message, status, retryable=True)


def _is_gateway_sentence(text: str) -> bool:
    if _ERROR_CODE.fullmatch(text):
        return True
    return len(text) <= _MAX_SENTENCE and text.casefold().startswith(_GATEWAY_PREFIXES)


def _status_from_text(sentence: str) -> int | None:
    """Return the status if the text is only a status phrase, with or without its number.

    A phrase that a model might write counts only after its number.
    """
    line = _STATUS_LINE.fullmatch(sentence.rstrip(".!"))
    phrase = (line[2] if line else sentence.rstrip(".!")).casefold()
    value = _STATUS_BY_PHRASE.get(phrase)
    if value is None or value < _FIRST_ERROR_STATUS:
        return None
    if line:
        return value if value == int(line[1]) else None
    unmistakable = value >= HTTPStatus.INTERNAL_SERVER_ERROR
    return value if unmistakable or value == HTTPStatus.TOO_MANY_REQUESTS else None


def is_error_object(body: Any) -> bool:
    """Whether an object is an error in a web framework's format, without the key `error`."""
    match body:
        case {"detail": str() | list(), **rest}:
            return not rest
        case {"errors": list() | dict(), **rest}:
            return "data" not in rest
        case {"message": str(message), **rest}:
            numbers = (rest.get(key) for key in ("code", "status", "statusCode", "status_code"))
            return any(_is_error_status(number) for number in numbers) or (
                not rest and sentence_fault(message, None) is not None
            )
        case _:
            return False


def _is_error_status(value: Any) -> bool:
    return isinstance(value, int) and _FIRST_ERROR_STATUS <= value in _STATUS_BY_PHRASE.values()


def too_large_fault(problem: str) -> Fault:
    """Return the fault for a response over a limit."""
    return Fault(ErrorCode.RESPONSE_TOO_LARGE, f"The response has {problem}.")


def json_fault(data: bytes, problem: ValueError) -> Fault | None:
    """Return the fault for JSON that cannot be decoded; None if it may be a model's text."""
    if isinstance(problem, TooManyValues):
        return too_large_fault(f"more than {MAX_VALUES} values")
    if isinstance(problem, TooDeep):
        message = f"The response is JSON with more than {MAX_DEPTH} levels."
        return Fault(ErrorCode.DECODE_ERROR, message, retryable=True)
    head = data[:_HEAD_CHARS]
    if not (_RESPONSE_START.match(head) or _RESPONSE_FIELDS.match(head)):
        return None
    message = f"The response is not valid JSON: {problem}."
    return truncated_json_fault(data) or Fault(ErrorCode.DECODE_ERROR, message, retryable=True)


def truncated_json_fault(data: bytes) -> Fault | None:
    """Return the fault for a truncated JSON object or list; None for anything else."""
    return _truncated_fault("its JSON", data) if _is_truncated(data) else None


def truncated_stream_fault(data: bytes) -> Fault | None:
    """Return the fault for a stream that ends inside an event; None if the event is complete."""
    last = data.splitlines()[-1].strip().removeprefix(b"data:")
    return _truncated_fault("its last event", data) if _is_truncated(last) else None


def _truncated_fault(part: str, data: bytes) -> Fault:
    message = f"The response is truncated: {part} is incomplete after {len(data)} bytes."
    hint = "If you copied it, copy all of it."
    return Fault(ErrorCode.DECODE_ERROR, message, hint=hint, retryable=True)


def _is_truncated(data: bytes) -> bool:
    if not data.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError) as error:
        return "truncated" in str(error)
    return False


def _fault_from_status(
    message: str, status: int | None, *, hint: str | None = None, retryable: bool = False
) -> Fault:
    """Return the fault for a status; without one, `retryable` decides."""
    if status is None:
        return Fault(ErrorCode.DECODE_ERROR, message, hint=hint, retryable=retryable)
    return msgspec.structs.replace(parse_fault(message, status, {}, 0.0), message=message)
