"""Lists the candidates for malformed arguments, so that the schema can pick the one that fits.

Candidates are tried only if the arguments fail as written. One is accepted only if it is the only
one that the schema allows. A candidate that is not certain is never accepted itself; it only makes
the arguments ambiguous. Each repair has a name.

    control_tokens       {…}<|im_end|>      chat template tokens, zero-width characters
    closers_too_many     {…}}               a complete object followed only by closing brackets
    empty_object_beside  {}{…}              where the schema rejects the empty object
    sole_item            [{…}]              a list of exactly one object
    no_arguments         [], "", "[]"       for a tool without a parameter that could hold these
    doubled_braces       {{…}}              no object starts with a brace
    call_in_arguments    {"name": "f", "arguments": {…}}, as the arguments of f
    keys_renamed         {"calendarId": …}  where `calendar_id` is declared and missing

A key is renamed only to one with the same words, joined in another way (`Calendar-ID`) or with a
leftover template mark (`path</arg_key>`). Synonyms are not considered. Repairs of single values are
in `rejected_values`.

Two further rewritings are correct for some models only, so each is enabled by its own preset:

    html_entities        `a &amp;&amp; b`, written for `a && b`
    text_from_container  an object, where the schema requires its JSON text
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from surecall.parsing.arguments import (
    decode_repaired,
    parse_arguments,
    sanitize_value,
    strip_wrapping,
)
from surecall.parsing.coercion import Coercion
from surecall.parsing.json_repair import ParseError, repair_json_prefix
from surecall.parsing.names import is_noise, strip_control_tokens
from surecall.parsing.rejected_values import Rejections, repair_values
from surecall.values.types import JSON

_LONGEST_KEY = 128


def with_declared_keys(value: JSON, properties: Iterable[str]) -> JSON | None:
    """Return the arguments under declared keys, or None if there is nothing to rename.

    A key is renamed only if exactly one declared and missing key has the same words.
    """
    declared = dict.fromkeys(properties)
    if value.keys() <= declared.keys():
        return None
    open_places = [name for name in declared if name not in value]
    folded = Counter(map(_fold_key, declared))
    own = {_fold_key(name): name for name in open_places if folded[_fold_key(name)] == 1}
    renamed = {key: own.get(_fold_key(key), key) for key in value if key not in declared}
    if len(set(renamed.values())) < len(renamed) or all(old == new for old, new in renamed.items()):
        return None
    return {renamed.get(key, key): item for key, item in value.items()}


def _fold_key(key: str) -> str:
    """Remove word separators and surrounding marks from a key, unless it is long."""
    if len(key) > _LONGEST_KEY:
        return key
    bare = strip_control_tokens(key)
    return bare.replace("_", "").replace("-", "").lower() if bare.isascii() else bare


_MAX_LAYERS = 4
_CLOSING_BRACKETS = frozenset("}]")
_NULL_WORDS = frozenset({"null", "None", "undefined"})
_NAME_KEYS = frozenset({"name", "tool_name", "tool", "function"})
_ARGUMENT_KEYS = frozenset({"arguments", "parameters", "args", "input", "tool_input"})
_METADATA_KEYS = frozenset({"id", "call_id", "tool_call_id", "type", "index"})
# In compact JSON, only these hold an integer whose value loses its spelling.
_NEGATIVE_ZEROS = (":-0,", ":-0}", "[-0,", "[-0]", ",-0,", ",-0]")


class ArgumentCandidate(msgspec.Struct, frozen=True):
    """One possible meaning, and the repairs that lead to it."""

    value: JSON
    steps: tuple[str, ...] = ()
    is_certain: bool = True


class TargetTool(msgspec.Struct, frozen=True):
    """The called tool: its names, its properties, and its schema."""

    is_own_name: Callable[[str], bool]
    properties: Iterable[str]
    fit: Callable[[JSON], Coercion]
    rejections: Callable[[JSON], Rejections]


def sole_candidate(raw: object, parsed: JSON | None, target: TargetTool) -> Coercion | None:
    """Return the only candidate for `raw` that the tool allows, if there is exactly one.

    `parsed` is the parsed value of `raw`, if it could be parsed.
    """
    found: dict[str, tuple[Coercion, bool]] = {}
    first = _raw_candidates(raw, target) if parsed is None else [ArgumentCandidate(parsed)]
    for reading in (every for one in first for every in _variants(one, target)):
        allowed = _fit_candidate(reading, target)
        if allowed is not None:
            key = json.dumps(allowed.value, sort_keys=True)
            if reading.is_certain or key not in found:
                found[key] = (allowed, reading.is_certain)
    if len(found) != 1:
        return None
    ((only, sure),) = found.values()
    return only if sure and not _may_be_negative_zero(raw, only) else None


def _fit_candidate(candidate: ArgumentCandidate, target: TargetTool) -> Coercion | None:
    """Return a candidate fitted to the schema, or None if the schema rejects it."""
    fitted = target.fit(candidate.value)
    steps = (*candidate.steps, *fitted.steps)
    if target.rejections(fitted.value):
        better = repair_values(fitted.value, target.rejections, target.fit)
        if better is None:
            return None
        fitted, steps = better, (*steps, *better.steps)
    return Coercion(fitted.value, tuple(dict.fromkeys(steps)))


def _may_be_negative_zero(raw: object, found: Coercion) -> bool:
    """Whether a string was converted from an integer that may have been `-0`."""
    if "text_from_number" not in found.steps or not isinstance(raw, str):
        return False
    compact = "".join(raw.split())
    return any(piece in compact for piece in _NEGATIVE_ZEROS)


# Arguments as a whole


def _raw_candidates(raw: object, target: TargetTool) -> list[ArgumentCandidate]:
    repairs: dict[str, None] = {}
    try:
        if isinstance(raw, str):
            return _text_candidates(raw, target, repairs)
        match sanitize_value(raw, repairs):
            case [dict(item)]:
                return [ArgumentCandidate(item, (*repairs, "sole_item"))]
            case []:
                return _empty_candidates([], target, ("no_arguments",))
            case _:
                return []
    except ParseError:
        return []


def _text_candidates(
    raw: str, target: TargetTool, repairs: dict[str, None]
) -> list[ArgumentCandidate]:
    text = _unwrap_text(raw, repairs)
    if text in {"", "[]"} or text in _NULL_WORDS:
        value = [] if text == "[]" else text
        return _empty_candidates(value, target, (*repairs, "no_arguments"))
    documents, rest = repair_json_prefix(text, repairs)
    if not is_noise(rest, _CLOSING_BRACKETS):
        return []
    if rest:
        repairs["closers_too_many"] = None
    filled = [document for document in documents if document != "{}"]
    if len(filled) > 1:
        return []
    if len(filled) == len(documents) or not filled:
        return _document_candidates(documents[0], repairs)
    del repairs["repeated_object"]
    repairs["empty_object_beside"] = None
    return [ArgumentCandidate({}, is_certain=False), *_document_candidates(filled[0], repairs)]


def _document_candidates(document: str, repairs: dict[str, None]) -> list[ArgumentCandidate]:
    value = decode_repaired(document, repairs)
    return [ArgumentCandidate(value, tuple(repairs))] if isinstance(value, dict) else []


def _empty_candidates(
    value: Any, target: TargetTool, steps: tuple[str, ...]
) -> list[ArgumentCandidate]:
    """Interpret an empty value as no arguments, unless it may be the value of a property."""
    doubts = [ArgumentCandidate({name: value}, is_certain=False) for name in target.properties]
    return [ArgumentCandidate({}, steps), *doubts]


def _unwrap_text(text: str, repairs: dict[str, None]) -> str:
    """Strip everything around the JSON, layer by layer."""
    for _ in range(_MAX_LAYERS):
        text = _unwrap_layer(text, repairs)
    return text


def _unwrap_layer(text: str, repairs: dict[str, None]) -> str:
    inside = strip_control_tokens(text)
    if inside != text.strip():
        repairs["control_tokens"] = None
    inside = strip_wrapping(inside, repairs)
    if inside.startswith('"'):
        return _decode_string(inside, repairs)
    if inside.startswith("{") and inside.endswith("}"):
        item = inside[1:-1].strip().removesuffix(",")
        if item.startswith("{"):
            repairs["doubled_braces"] = None
            return item
    if inside.startswith("[") and inside.endswith("]"):
        item = inside[1:-1].strip().removesuffix(",")
        if item.startswith("{"):
            repairs["sole_item"] = None
            return item
    return inside


def _decode_string(text: str, repairs: dict[str, None]) -> str:
    try:
        inner: str = json.loads(text)
    except ValueError:
        return text
    repairs["double_encoded"] = None
    return inner


# A call in place of its arguments


def _variants(candidate: ArgumentCandidate, target: TargetTool) -> Iterator[ArgumentCandidate]:
    """Yield a candidate, the arguments of a call inside it, and both under declared keys."""
    found = [candidate]
    inner = _inner_arguments(candidate.value, target.is_own_name)
    if inner is not None:
        found.append(
            ArgumentCandidate(inner, (*candidate.steps, "call_in_arguments"), candidate.is_certain)
        )
    for one in found:
        yield one
        renamed = with_declared_keys(one.value, target.properties)
        if renamed is not None:
            yield ArgumentCandidate(renamed, (*one.steps, "keys_renamed"), one.is_certain)


def _inner_arguments(value: JSON, is_own_name: Callable[[str], bool]) -> JSON | None:
    function = value.get("function")
    if isinstance(function, dict) and value.keys() <= {"function", *_METADATA_KEYS}:
        value = function
    named, given = _NAME_KEYS & value.keys(), _ARGUMENT_KEYS & value.keys()
    if len(named) != 1 or len(given) != 1 or not value.keys() <= named | given | _METADATA_KEYS:
        return None
    (name,), (inner,) = (value[key] for key in named), (value[key] for key in given)
    if not isinstance(name, str) or not is_own_name(name):
        return None
    inner = parse_arguments(inner, sys.maxsize).value if isinstance(inner, str) else inner
    return inner if isinstance(inner, dict) else None


# The characters that must be escaped in HTML, in the common spellings.
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": "\xa0"}
_ENTITIES |= {"#34": '"', "#38": "&", "#39": "'", "#60": "<", "#62": ">"}
_ENTITIES |= {"#x22": '"', "#x26": "&", "#x27": "'", "#x2f": "/", "#x3c": "<", "#x3e": ">"}
_LONGEST_ENTITY = max(map(len, _ENTITIES))


def unescape_arguments(value: JSON, steps: list[str]) -> JSON:
    """Decode the HTML entities in every string once; return the value itself if it has none."""
    decoded: JSON = _unescape_value(value)
    if decoded == value:
        return value
    steps.append("html_entities")
    return decoded


def encode_containers(value: JSON, schema: JSON, steps: list[str]) -> JSON:
    """Encode lists and objects as JSON text where the schema declares a string."""
    properties = schema.get("properties", {})
    written = {
        name: msgspec.json.encode(item).decode()
        for name, item in value.items()
        if isinstance(item, dict | list) and _expects_string(properties.get(name))
    }
    if not written:
        return value
    steps.append("text_from_container")
    return value | written


def _expects_string(schema: Any) -> bool:
    kinds = schema.get("type") if isinstance(schema, dict) else None
    given = kinds if isinstance(kinds, list) else [kinds]
    return "string" in given and not {"array", "object"}.intersection(map(str, given))


def _unescape_value(value: Any) -> Any:
    match value:
        case str():
            return _unescape_text(value)
        case list():
            return [_unescape_value(item) for item in value]
        case dict():
            return {key: _unescape_value(item) for key, item in value.items()}
        case _:
            return value


def _unescape_text(text: str) -> str:
    head, *rest = text.split("&")
    return head + "".join(map(_unescape_entity, rest))


def _unescape_entity(after: str) -> str:
    """Decode the text after an ampersand."""
    end = after.find(";", 0, _LONGEST_ENTITY + 1)
    known = _ENTITIES.get(after[:end].lower()) if end > 0 else None
    return f"&{after}" if known is None else known + after[end + 1 :]
