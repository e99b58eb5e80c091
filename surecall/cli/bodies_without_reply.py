"""Bodies that hold no model reply: error pages and sentences of gateways, and bodies cut off.

Everything here is pure. A sentence counts as an error only if a gateway is known to write it, or if
the HTTP status says so: a model may answer with any words.
"""

import codecs
import re
from http import HTTPStatus
from typing import Any, Final

import msgspec

from surecall.parsing.budget import MAX_VALUES, TooManyValues
from surecall.values.errors import ConfigError, ErrorCode, Fault
from surecall.values.nesting import MAX_DEPTH, TooDeep
from surecall.wire.response import fault_of

# Other encodings of a text, by the mark that it begins with; the longer marks come first.
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
_HEAD: Final = 4_096
_QUOTED: Final = 200
_LONGEST_SENTENCE: Final = 300
_ERRORS_FROM: Final = 400
_HTML: Final = re.compile(
    r"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_XML: Final = re.compile(r"\s*<\?xml\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<(?:title|h1)\b[^>]*>([^<]+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?:HTTP(?:/[\d.]+)?\s+|error\s+)?([45]\d\d)\b", re.IGNORECASE)
# `502 Bad Gateway`, and the same with the protocol before it.
_PHRASES: Final = {status.phrase.casefold(): status.value for status in HTTPStatus}
_STATUS_LINE: Final = re.compile(r"(?:HTTP/[\d.]+\s+)?(\d{3})\s+(.+)", re.IGNORECASE)
# How Envoy, Cloudflare, Traefik, Go and others begin what they write in place of an answer.
_SENTENCES: Final = (
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
# What begins the body of a response, and nothing that a model writes as a call.
_RESPONSE: Final = re.compile(rb'\s*\[?\s*\{\s*"(?:choices|error|object|created)"')
_CHOICES: Final = re.compile(
    rb'\s*\{\s*"[a-z_]+"\s*:.*"(?:choices"\s*:\s*\[|object"\s*:\s*"chat\.)', re.DOTALL
)


def refuse_other_encodings(data: bytes) -> None:
    """Refuse a text in another encoding, and one that is compressed; say how to convert it."""
    for mark, name in _ENCODINGS.items():
        if data.startswith(mark):
            raise ConfigError(
                f"this is {name}, and replies are UTF-8; convert it: iconv -f {name} -t UTF-8 FILE"
            )
    for mark, (name, command) in _COMPRESSIONS.items():
        if data.startswith(mark):
            raise ConfigError(f"this is compressed ({name}); decompress it: {command} FILE")


def body_fault(text: str, status: int | None) -> Fault | None:
    """Judge a body in plain text; None if it may be the answer of a model."""
    if not text.strip() and status is None:
        message = "The response is empty: there is nothing to read."
        return Fault(ErrorCode.EMPTY_RESPONSE, message, retryable=True)
    return page_fault(text, status) or sentence_fault(text, status)


def page_fault(text: str, status: int | None) -> Fault | None:
    """Judge an HTML page or an XML document; None if the text is neither."""
    head = text[:_HEAD]
    form = "HTML" if _HTML.match(head) else "XML" if _XML.match(head) else ""
    if not form:
        return None
    found = _TITLE.search(head)
    title = " ".join(found[1].split())[:_QUOTED] if found else ""
    number = _NUMBER.match(title)
    status = status or (int(number[1]) if number else None)
    what = {"HTML": "an HTML{} page", "XML": "an XML{} document"}[form]
    said = f"The endpoint returned {what.format(' error' if status else '')}, not a model reply"
    message = f"{said}: {title}" if title else f"{said}."
    return _fault(message, status, hint="Check base_url and api_prefix.")


def sentence_fault(text: str, status: int | None) -> Fault | None:
    """Judge what a gateway writes in plain text; None if it may be the answer of a model."""
    said = " ".join(text[:_HEAD].split())
    status = status or _status_in(said)
    if status is None and not _is_gateway_sentence(said):
        return None
    if not said:
        return _fault("The endpoint returned an empty body.", status)
    message = f"The endpoint returned an error in plain text, not a model reply: {said[:_QUOTED]}"
    return _fault(message, status, retryable=True)


def _is_gateway_sentence(text: str) -> bool:
    if _ERROR_CODE.fullmatch(text):
        return True
    return len(text) <= _LONGEST_SENTENCE and text.casefold().startswith(_SENTENCES)


def _status_in(sentence: str) -> int | None:
    """Return the status that a text consists of: its number and phrase, or the phrase alone.

    Phrases that may be a word of a model count only after their number.
    """
    line = _STATUS_LINE.fullmatch(sentence.rstrip(".!"))
    phrase = (line[2] if line else sentence.rstrip(".!")).casefold()
    value = _PHRASES.get(phrase)
    if value is None or value < _ERRORS_FROM:
        return None
    if line:
        return value if value == int(line[1]) else None
    unmistakable = value >= HTTPStatus.INTERNAL_SERVER_ERROR
    return value if unmistakable or value == HTTPStatus.TOO_MANY_REQUESTS else None


def is_error_object(body: Any) -> bool:
    """Whether an object is an error in the form of a web framework, without the key `error`."""
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
    return isinstance(value, int) and _ERRORS_FROM <= value in _PHRASES.values()


def too_large(what: str) -> Fault:
    """Say that an answer goes beyond a limit."""
    return Fault(ErrorCode.RESPONSE_TOO_LARGE, f"The answer has {what}.")


def unreadable_json(data: bytes, problem: ValueError) -> Fault | None:
    """Judge JSON that no run would read; None if it may be the text of a model."""
    if isinstance(problem, TooManyValues):
        return too_large(f"more than {MAX_VALUES} values")
    if isinstance(problem, TooDeep):
        message = f"The answer is JSON nested too deeply: more than {MAX_DEPTH} levels."
        return Fault(ErrorCode.DECODE_ERROR, message, retryable=True)
    head = data[:_HEAD]
    if not (_RESPONSE.match(head) or _CHOICES.match(head)):
        return None
    message = f"The response is not valid JSON: {problem}."
    return cut_off(data) or Fault(ErrorCode.DECODE_ERROR, message, retryable=True)


def cut_off(data: bytes) -> Fault | None:
    """Judge an object or a list that ends in the middle; None if this is neither, or whole."""
    return _cut("its JSON", data) if _is_cut(data) else None


def cut_off_stream(data: bytes) -> Fault | None:
    """Judge a stream that ends inside an event; None if its last event is whole."""
    last = data.splitlines()[-1].strip().removeprefix(b"data:")
    return _cut("its last event", data) if _is_cut(last) else None


def _cut(what: str, data: bytes) -> Fault:
    message = f"The response is cut off: {what} ends in the middle, after {len(data)} bytes."
    hint = "If you copied it, copy all of it."
    return Fault(ErrorCode.DECODE_ERROR, message, hint=hint, retryable=True)


def _is_cut(data: bytes) -> bool:
    if not data.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError) as error:
        return "truncated" in str(error)
    return False


def _fault(
    message: str, status: int | None, *, hint: str | None = None, retryable: bool = False
) -> Fault:
    """Judge by the status; without one, nothing says whether the next request fares better."""
    if status is None:
        return Fault(ErrorCode.DECODE_ERROR, message, hint=hint, retryable=retryable)
    return msgspec.structs.replace(fault_of(message, status, {}, 0.0), message=message)
