"""What a model put into `arguments`, read into an object or into a reason why not.

    ok         strict JSON, and an object
    repaired   a known slip whose cure loses nothing; `repairs` names each one
    unusable   anything else; `problem` tells the model what to send instead

`{}` is what an empty field means. It never replaces text that could not be read, because a
tool would then run without the arguments the model meant.
"""

import json
import math
from typing import Any, NoReturn

import msgspec

from surecall.parsing.almost_json import (
    MAX_DEPTH,
    OBJECTS,
    Unusable,
    normalised,
    quoted,
    too_deep,
    unreadable,
)
from surecall.values.errors import ErrorCode
from surecall.values.nesting import TooDeep, decode_prefix
from surecall.values.types import JSON, Problem

# The longest integer that Python converts in both directions, whatever its limit is set to.
_MAX_DIGITS = 640
_INTEGER_BOUND = 10**_MAX_DIGITS
_FENCE = "```"
_LABEL = "json"
_BYTE_ORDER_MARK = "\ufeff"
_KINDS = {list: "a list", str: "a string", bool: "a boolean"}


class Arguments(msgspec.Struct, frozen=True, gc=False):
    """The verdict: `value` is the object, or None when `problem` says why there is none."""

    value: JSON | None
    size: int
    repairs: tuple[str, ...] = ()
    problem: Problem | None = None


def read_arguments(raw: object, max_bytes: int) -> Arguments:
    """Read `raw`, whatever the provider sent; never raise, never guess."""
    match raw:
        case None:
            return Arguments({}, 0)
        case str():
            return _read_text(raw, max_bytes)
        case _:
            return _read_tree(raw, max_bytes)


def truncated(arguments: Arguments) -> Arguments:
    """Refuse arguments of a reply that was cut off, even if what arrived happens to parse."""
    message = "Your reply was cut off before the call was complete. Send the call again, shorter."
    return Arguments(None, arguments.size, problem=Problem(ErrorCode.ARGUMENTS_TRUNCATED, message))


def _read_text(raw: str, max_bytes: int) -> Arguments:
    fired: dict[str, None] = {}
    text = bare(whole(raw, fired), fired)
    size = len(text) if text.isascii() else len(text.encode())
    if size > max_bytes:
        return _too_large(size, max_bytes)
    try:
        value = _object(text, fired) if text else {}
    except Unusable as refusal:
        return _refused(size, refusal)
    return Arguments(value, size, tuple(fired))


def _read_tree(raw: object, max_bytes: int) -> Arguments:
    fired: dict[str, None] = {}
    size = 0
    try:
        tree = tidy(raw, fired)
        size = len(msgspec.json.encode(tree))
        if size > max_bytes:
            return _too_large(size, max_bytes)
        return Arguments(_only_object(tree), size, tuple(fired))
    except Unusable as refusal:
        return _refused(size, refusal)


def _refused(size: int, refusal: Unusable) -> Arguments:
    problem = Problem(ErrorCode.ARGUMENTS_JSON_PARSE_ERROR, refusal.message, refusal.data)
    return Arguments(None, size, problem=problem)


def _too_large(size: int, max_bytes: int) -> Arguments:
    message = (
        f"The arguments have {size} bytes and the limit is {max_bytes}. "
        "Send the call again with shorter strings and without fields you do not need."
    )
    data = {"bytes": size, "max_bytes": max_bytes}
    return Arguments(None, size, problem=Problem(ErrorCode.ARGUMENTS_TOO_LARGE, message, data))


def bare(text: str, fired: dict[str, None]) -> str:
    """Take off blanks, a byte order mark, and a code fence around the whole text."""
    text = text.strip()
    if text.startswith(_BYTE_ORDER_MARK):
        fired["byte_order_mark"] = None
        text = text.lstrip(_BYTE_ORDER_MARK).strip()
    if len(text) < 2 * len(_FENCE) or not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return text
    fired["code_fence"] = None
    inside = text[len(_FENCE) : -len(_FENCE)].strip()
    labelled = inside[: len(_LABEL)].lower() == _LABEL
    return inside[len(_LABEL) :].strip() if labelled else inside


def _object(text: str, fired: dict[str, None]) -> JSON:
    value = json_value(text, fired)
    if value is None:
        fired["null_arguments"] = None
        return {}
    if isinstance(value, str):
        fired["double_encoded"] = None
        inner = bare(value, fired)
        # A second layer is an encoder's slip only around an object; null or blank is not one.
        if inner.startswith("{"):
            value = json_value(inner, fired)
    return _only_object(value)


def _only_object(value: object) -> JSON:
    if isinstance(value, dict):
        return value
    kind = _KINDS.get(type(value), "a number")
    raise Unusable("not_an_object", f"The arguments are {kind}, not a JSON object.")


def json_value(text: str, fired: dict[str, None], begins: frozenset[str] = OBJECTS) -> object:
    """Decode strict JSON; where that fails, what the lossless repairs make of it.

    Raises `Unusable`. `begins` are the marks that a text to be repaired may begin with.
    """
    try:
        value, end = decode_prefix(_STRICT, text, limit=MAX_DEPTH)
        if end == len(text):
            return _checked(value, text, fired)
    except json.JSONDecodeError:
        pass
    except TooDeep:
        raise too_deep() from None
    return _sole([decoded(document, fired) for document in normalised(text, fired, begins)])


def decoded(document: str, fired: dict[str, None]) -> object:
    """Decode a document that was rewritten as JSON."""
    try:
        return _checked(_RELAXED.raw_decode(document)[0], document, fired)
    except json.JSONDecodeError as error:
        raise unreadable(error.doc, error.pos) from None


def _sole(values: list[object]) -> object:
    first, *others = values
    if all(_same(first, other) for other in others):
        return first
    raise Unusable(
        "several_objects",
        "The arguments hold several different JSON objects.",
        advice="Send one JSON object per call.",
    )


def _checked(value: object, text: str, fired: dict[str, None]) -> object:
    # Only an escape can hide a surrogate, and only that many brackets can nest too deeply.
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        return tidy(value, fired)
    return value


def tidy(value: object, fired: dict[str, None], depth: int = 1) -> Any:
    """Copy a decoded value, mending its text; refuse what JSON could not carry onwards."""
    if depth > MAX_DEPTH and isinstance(value, dict | list):
        raise too_deep()
    match value:
        case str():
            return whole(value, fired)
        case dict():
            return _unique(
                [(_key(key, fired), tidy(item, fired, depth + 1)) for key, item in value.items()]
            )
        case list():
            return [tidy(item, fired, depth + 1) for item in value]
        case _:
            return _scalar(value)


def _key(key: object, fired: dict[str, None]) -> str:
    if not isinstance(key, str):
        raise Unusable("not_json", "The arguments have a key that is not a string.")
    return whole(key, fired)


def _scalar(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(str(value))
    if isinstance(value, int):
        return value if -_INTEGER_BOUND < value < _INTEGER_BOUND else _too_long()
    if value is None:
        return None
    raise Unusable("not_json", "The arguments are not JSON.")


def whole(text: str, fired: dict[str, None]) -> str:
    """Join surrogate pairs and replace halves with U+FFFD: no request could carry them."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        fired["surrogates"] = None
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _unique(pairs: list[tuple[str, Any]]) -> JSON:
    """Build an object; a key that comes twice must say the same thing twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        for key, item in pairs:
            if not _same(value[key], item):
                raise Unusable(
                    "duplicate_key",
                    f'The key "{quoted(key)}" comes twice, with different values.',
                    advice="Send the arguments again, with each key once.",
                    key=quoted(key),
                )
    return value


def _same(one: object, other: object) -> bool:
    # Python calls 1, 1.0 and True equal; their JSON texts tell them apart.
    return one is other or _CANONICAL.encode(one) == _CANONICAL.encode(other)


def _integer(digits: str) -> int:
    return int(digits) if len(digits.lstrip("-")) <= _MAX_DIGITS else _too_long()


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _not_finite(digits)


def _not_finite(token: str) -> NoReturn:
    raise Unusable("number", f"{quoted(token)} is not a finite number.")


def _too_long() -> NoReturn:
    raise Unusable("number", f"A number has more than {_MAX_DIGITS} digits.")


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_unique,
        parse_float=_finite,
        parse_int=_integer,
        parse_constant=_not_finite,
        strict=strict,
    )


_STRICT = _decoder(strict=True)
_RELAXED = _decoder(strict=False)
_CANONICAL = json.JSONEncoder(sort_keys=True)
