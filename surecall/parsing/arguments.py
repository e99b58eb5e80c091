"""Parses the arguments of calls, and JSON answers, that a model wrote.

    valid      strict JSON; arguments must also be an object
    repaired   a known error with a lossless repair; `repairs` names each one
    unusable   anything else; `problem` is the message for the model

Empty arguments mean `{}`. Malformed arguments are never replaced by `{}`: the tool would run
without the arguments that the model meant. Text around a JSON answer is an error, because it may
qualify the answer, for example as a mere example.
"""

import json
import math
from decimal import Decimal
from typing import Any, Final, NoReturn

import msgspec

from surecall.parsing.budget import MAX_TEXT, MAX_VALUES, value_count_bound
from surecall.parsing.json_repair import (
    MAX_QUOTED_CHARS,
    OBJECT_STARTS,
    ParseError,
    depth_error,
    repair_json,
    syntax_error,
)
from surecall.parsing.lenient_lexer import MAX_DEPTH
from surecall.values.errors import ErrorCode
from surecall.values.nesting import TooDeep, decode_prefix
from surecall.values.text import join_surrogates, truncate
from surecall.values.types import JSON, Problem

# The repairs by name, each with the reason why it is lossless. A repair without such a reason is a
# guess and must not be made. The names appear in a call's `repairs` and a reply's `fired`.

# Invalid JSON. Each form has one meaning, independent of the tool.
SPELLING_REPAIRS: Final = {
    "byte_order_mark": "The mark is an encoding detail and not part of the text.",
    "code_fence": "The fence surrounds the whole text and is not part of JSON.",
    "null_arguments": "Null holds no arguments, like the empty object.",
    "double_encoded": "The text is a JSON string, and its content is the object.",
    "surrogates": "The halves of a character are joined. A lone half cannot be encoded.",
    "escaped_whitespace": "Between values, nothing in JSON starts with a backslash.",
    "repeated_object": "All copies are identical.",
    "trailing_commas": "A comma before a closing bracket separates nothing.",
    "bare_keys": "In an object, only a key can precede a colon.",
    "python_literals": "Python's words and quotation marks have one equivalent each in JSON.",
    "control_characters": "An unescaped line break in a string can only mean the line break.",
}
# Values that the tool's schema rejects and whose type allows one conversion.
TYPE_REPAIRS: Final = {
    "unwrapped": "The only key is not declared, and its value has the keys of the tool.",
    "number_from_text": "The schema does not allow a string, and this one is a JSON number.",
    "boolean_from_text": "The schema does not allow a string, and this one is a boolean.",
    "container_from_text": "The schema does not allow a string, and this one is a JSON array or "
    "object.",
    "null_from_text": "The schema does not allow a string, and this one is JSON null.",
    "integer_from_float": "The fraction is zero, and the number is small enough to be exact.",
    "null_optional_dropped": "The schema rejects null, and the property is optional.",
    "empty_optional_dropped": "The schema rejects the empty string, and the property is optional.",
}
# Tried only if the arguments fail as written, and accepted only if no other candidate is valid.
SCHEMA_REPAIRS: Final = {
    "control_tokens": "Chat template tokens are never part of JSON, and nothing else surrounds it.",
    "closers_too_many": "The object is complete, and only closing brackets follow it.",
    "empty_object_beside": "The empty object has no content, and the schema rejects it.",
    "sole_item": "The list holds exactly one object, and arguments must be an object.",
    "no_arguments": "The value is empty, the tool allows no arguments, and none of its properties "
    "could have this value.",
    "call_in_arguments": "The name is the tool's own; the schema rejects the nested call and "
    "allows its arguments.",
    "doubled_braces": "No object starts with a brace, and the outer pair holds nothing else.",
    "keys_renamed": "The schema rejects the keys as written. Each has the words of exactly one "
    "declared key that is missing.",
    "text_from_number": "The schema requires a string, and an integer has one spelling. Floats and "
    "-0 have several and are reported instead.",
    "null_from_word": "The schema rejects this string, in upper and lower case, and allows null or "
    "absence.",
    "entities_decoded": "The schema rejects the string as written and allows it decoded once.",
    "percents_decoded": "The schema rejects the string as written and allows it decoded once.",
    "text_bared": "The schema rejects the string as written and allows it without the surrounding "
    "quotation marks, tokens, or blanks.",
}
# Wrong for most models. Each is enabled only by its own preset.
OPT_IN_REPAIRS: Final = {
    "html_entities": "Lossless for models that always escape HTML, as the preset states.",
    "text_from_container": "The schema requires a string, and this is the JSON of the value.",
}
REPAIRS: Final = SPELLING_REPAIRS | TYPE_REPAIRS | SCHEMA_REPAIRS | OPT_IN_REPAIRS
# The longest integer that Python converts in both directions under any configured limit.
_MAX_DIGITS = 640
_INTEGER_BOUND = 10**_MAX_DIGITS
_FENCE = "```"
_FENCE_LABEL = "json"
_BYTE_ORDER_MARK = "\ufeff"
_KIND_NAMES = {list: "a list", str: "a string", bool: "a boolean"}


class ParsedArguments(msgspec.Struct, frozen=True, gc=False):
    """The result of parsing arguments: `value`, or None with a `problem`."""

    value: JSON | None
    size: int
    repairs: tuple[str, ...] = ()
    problem: Problem | None = None


def parse_arguments(raw: object, max_bytes: int) -> ParsedArguments:
    """Parse arguments in any form that a provider sends; never raise, never guess."""
    match raw:
        case None:
            return ParsedArguments({}, 0)
        case str():
            return _parse_text(raw, max_bytes)
        case _:
            return _parse_tree(raw, max_bytes)


def refuse_truncated(arguments: ParsedArguments) -> ParsedArguments:
    """Reject the arguments of a truncated reply, even if the part that arrived is valid."""
    message = "Your reply was cut off before the call was complete. Send the call again, shorter."
    return ParsedArguments(
        None, arguments.size, problem=Problem(ErrorCode.ARGUMENTS_TRUNCATED, message)
    )


def _parse_text(raw: str, max_bytes: int) -> ParsedArguments:
    repairs: dict[str, None] = {}
    text = strip_wrapping(repair_surrogates(raw, repairs), repairs)
    size = len(text) if text.isascii() else len(text.encode())
    if size > max_bytes:
        return _size_failure(size, max_bytes)
    try:
        value = _decode_object(text, repairs) if text else {}
    except ParseError as refusal:
        return _parse_failure(size, refusal)
    return ParsedArguments(value, size, tuple(repairs))


def _parse_tree(raw: object, max_bytes: int) -> ParsedArguments:
    """Parse arguments that were sent as a JSON value instead of text."""
    repairs: dict[str, None] = {}
    size = 0
    try:
        tree = sanitize_value(raw, repairs)
        size = len(msgspec.json.encode(tree))
        if size > max_bytes:
            return _size_failure(size, max_bytes)
        return ParsedArguments(_require_object(tree), size, tuple(repairs))
    except ParseError as refusal:
        return _parse_failure(size, refusal)


def _parse_failure(size: int, error: ParseError) -> ParsedArguments:
    problem = Problem(ErrorCode.ARGUMENTS_JSON_PARSE_ERROR, error.message, error.data)
    return ParsedArguments(None, size, problem=problem)


def _size_failure(size: int, max_bytes: int) -> ParsedArguments:
    message = (
        f"The arguments have {size} bytes and the limit is {max_bytes}. "
        "Send the call again with shorter strings and without fields you do not need."
    )
    data = {"bytes": size, "max_bytes": max_bytes}
    return ParsedArguments(
        None, size, problem=Problem(ErrorCode.ARGUMENTS_TOO_LARGE, message, data)
    )


def strip_wrapping(text: str, repairs: dict[str, None]) -> str:
    """Strip blanks, a byte order mark, and a code fence around the whole text."""
    text = text.strip()
    if text.startswith(_BYTE_ORDER_MARK):
        repairs["byte_order_mark"] = None
        text = text.lstrip(_BYTE_ORDER_MARK).strip()
    if len(text) < 2 * len(_FENCE) or not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return text
    repairs["code_fence"] = None
    inside = text[len(_FENCE) : -len(_FENCE)].strip()
    labelled = inside[: len(_FENCE_LABEL)].lower() == _FENCE_LABEL
    return inside[len(_FENCE_LABEL) :].strip() if labelled else inside


def _decode_object(text: str, repairs: dict[str, None]) -> JSON:
    value = decode_with_repairs(text, repairs)
    if value is None:
        repairs["null_arguments"] = None
        return {}
    if isinstance(value, str):
        repairs["double_encoded"] = None
        inner = strip_wrapping(value, repairs)
        # Only an object can be encoded twice by mistake; null and blank cannot.
        if inner.startswith("{"):
            value = decode_with_repairs(inner, repairs)
    return _require_object(value)


def _require_object(value: object) -> JSON:
    if isinstance(value, dict):
        return value
    kind = _KIND_NAMES.get(type(value), "a number")
    raise ParseError("not_an_object", f"The arguments are {kind}, not a JSON object.")


def decode_with_repairs(
    text: str, repairs: dict[str, None], allowed_starts: frozenset[str] = OBJECT_STARTS
) -> object:
    """Decode strict JSON; if that fails, decode it with lossless repairs.

    Raises `ParseError`. `allowed_starts` are the characters that a text to repair may start with.
    """
    try:
        value, end = decode_prefix(_STRICT, text, limit=MAX_DEPTH)
        if end == len(text):
            return _sanitize_if_needed(value, text, repairs)
    except json.JSONDecodeError:
        pass
    except TooDeep:
        raise depth_error() from None
    return _require_equal(
        [
            decode_repaired(document, repairs)
            for document in repair_json(text, repairs, allowed_starts)
        ]
    )


def decode_repaired(document: str, repairs: dict[str, None]) -> object:
    """Decode a repaired document; raise `ParseError` if it is still malformed."""
    try:
        return _sanitize_if_needed(_RELAXED.raw_decode(document)[0], document, repairs)
    except json.JSONDecodeError as error:
        raise syntax_error(error.doc, error.pos) from None


def _require_equal(values: list[object]) -> object:
    """Return the first of several documents; raise `ParseError` if they differ."""
    first, *others = values
    if all(_has_same_json(first, other) for other in others):
        return first
    raise ParseError(
        "several_objects",
        "The arguments hold several different JSON objects.",
        advice="Send one JSON object per call.",
    )


def _sanitize_if_needed(value: object, text: str, repairs: dict[str, None]) -> object:
    """Sanitize a value if its text has escaped surrogates or may be nested too deeply."""
    # A surrogate needs an escape, and deep nesting needs that many brackets.
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        return sanitize_value(value, repairs)
    return value


def sanitize_value(value: object, repairs: dict[str, None], depth: int = 1) -> Any:
    """Copy a decoded value with its text repaired; reject values that JSON cannot represent."""
    if depth > MAX_DEPTH and isinstance(value, dict | list):
        raise depth_error()
    match value:
        case str():
            return repair_surrogates(value, repairs)
        case dict():
            return _build_object(
                [
                    (_sanitize_key(key, repairs), sanitize_value(item, repairs, depth + 1))
                    for key, item in value.items()
                ]
            )
        case list():
            return [sanitize_value(item, repairs, depth + 1) for item in value]
        case _:
            return _check_scalar(value)


def _sanitize_key(key: object, repairs: dict[str, None]) -> str:
    if not isinstance(key, str):
        raise ParseError("not_json", "The arguments have a key that is not a string.")
    return repair_surrogates(key, repairs)


def _check_scalar(value: object) -> object:
    """Return a number or null; raise `ParseError` for anything that JSON cannot represent."""
    if isinstance(value, float):
        return value if math.isfinite(value) else _refuse_not_finite(str(value))
    if isinstance(value, int):
        return value if -_INTEGER_BOUND < value < _INTEGER_BOUND else _refuse_too_long()
    if value is None:
        return None
    raise ParseError("not_json", "The arguments are not JSON.")


def repair_surrogates(text: str, repairs: dict[str, None]) -> str:
    """Join surrogate pairs and replace lone halves with U+FFFD, since requests are UTF-8."""
    joined = join_surrogates(text)
    if joined != text:
        repairs["surrogates"] = None
    return joined


def _build_object(pairs: list[tuple[str, Any]]) -> JSON:
    """Build an object; reject duplicate keys with different values."""
    value = dict(pairs)
    if len(value) < len(pairs):
        for key, item in pairs:
            if not _has_same_json(value[key], item):
                raise ParseError(
                    "duplicate_key",
                    f'The key "{truncate(key, MAX_QUOTED_CHARS)}" appears twice, with '
                    "different values.",
                    advice="Send the arguments again, with each key once.",
                    key=truncate(key, MAX_QUOTED_CHARS),
                )
    return value


def _has_same_json(one: object, other: object) -> bool:
    # In Python 1, 1.0, and True are equal; their JSON texts differ.
    return one is other or _CANONICAL.encode(one) == _CANONICAL.encode(other)


def _parse_integer(digits: str) -> int:
    return int(digits) if len(digits.lstrip("-")) <= _MAX_DIGITS else _refuse_too_long()


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        _refuse_not_finite(digits)
    if loses_fraction(digits, number):
        raise ParseError(
            "number", f"{truncate(digits, MAX_QUOTED_CHARS)} has more digits than a float can hold."
        )
    return number


def loses_fraction(digits: str, number: float) -> bool:
    """Whether rounding made an integer of a number that has a fraction."""
    if not number.is_integer():
        return False
    exact = Decimal(digits)
    return exact != exact.to_integral_value()


def _refuse_not_finite(token: str) -> NoReturn:
    raise ParseError("number", f"{truncate(token, MAX_QUOTED_CHARS)} is not a finite number.")


def _refuse_too_long() -> NoReturn:
    raise ParseError("number", f"A number has more than {_MAX_DIGITS} digits.")


def _make_decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_build_object,
        parse_float=_parse_float,
        parse_int=_parse_integer,
        parse_constant=_refuse_not_finite,
        strict=strict,
    )


_STRICT = _make_decoder(strict=True)
_RELAXED = _make_decoder(strict=False)
_CANONICAL = json.JSONEncoder(sort_keys=True)
_JSON_STARTS: Final = frozenset('{["')
_TOO_LARGE: Final = "it is too large"
_PROBLEMS: Final = {
    "cut_off": "it ends too early",
    "too_deep": f"it is nested more than {MAX_DEPTH} levels deep",
    "several_objects": "it holds several different JSON values",
    "bad_escape": "it has an invalid JSON escape",
    "number": "it has a number that is not finite, or too long",
}
_KEY_PROBLEMS: Final = {
    "missing_value": 'the key "{}" has no value',
    "duplicate_key": 'the key "{}" appears twice, with different values',
}


class ParsedValue(msgspec.Struct, frozen=True):
    """The result of parsing a JSON value: `value`, or a `problem` if it is not blank.

    A problem is a clause, such as "it ends too early".
    """

    value: Any = None
    problem: str = ""
    repairs: tuple[str, ...] = ()


def parse_json_value(text: str) -> ParsedValue:
    """Parse a text that must be exactly one JSON value; never raise, never guess."""
    if len(text) > MAX_TEXT or value_count_bound(text.encode("utf-8", "replace")) > MAX_VALUES:
        return ParsedValue(problem=_TOO_LARGE)
    repairs: dict[str, None] = {}
    inside = strip_wrapping(repair_surrogates(text, repairs), repairs)
    try:
        return ParsedValue(
            decode_with_repairs(inside, repairs, _JSON_STARTS), repairs=tuple(repairs)
        )
    except ParseError as refusal:
        return ParsedValue(problem=_problem_text(refusal))


def _problem_text(error: ParseError) -> str:
    """Return why a text is not exactly one JSON value, as a clause."""
    if error.reason in _KEY_PROBLEMS:
        return _KEY_PROBLEMS[error.reason].format(error.key)
    near = f" (near `{error.near}`)" if error.near else ""
    return _PROBLEMS.get(error.reason, f"it is not one JSON value with nothing around it{near}")
