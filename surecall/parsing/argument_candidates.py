# ruff: noqa: RUF001 (the quotation marks are what models write)
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
    value_in_key         {"path=a": ""}     where `path` is declared and missing
    keys_renamed         {"calendarId": …}  where `calendar_id` is declared and missing

A key is renamed only to one with the same words, joined in another way (`Calendar-ID`) or with a
leftover template mark (`path</arg_key>`). Synonyms are not considered.

Single values are repaired likewise, each by the only alternative that the schema allows, and only
if its `type`, `enum`, `const`, `pattern`, or `format` rejects it:

    text_from_number     7            where a string is required: an integer has one spelling
    null_from_word       "None"       where the schema does not allow this string
    entities_decoded     "&gt;="      where the schema rejects it and allows ">="
    percents_decoded     "a%20b"      likewise
    text_bared           "“red”"      likewise: surrounding quotation marks, control tokens, blanks

Two further rewritings are correct for some models only, so each is enabled by its own preset:

    html_entities        `a &amp;&amp; b`, written for `a && b`
    text_from_container  an object, where the schema requires its JSON text
"""

import json
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

from surecall.parsing.arguments import (
    decode_repaired,
    parse_arguments,
    sanitize_value,
    strip_wrapping,
)
from surecall.parsing.coercion import Coercion
from surecall.parsing.json_repair import ParseError, repair_json_prefix
from surecall.parsing.names import (
    IGNORED_CHARACTERS,
    is_noise,
    strip_control_tokens,
    strip_first_token,
    strip_last_token,
)
from surecall.values.text import html_entity, unescape_html
from surecall.values.types import JSON

ValuePath: TypeAlias = tuple[str | int, ...]
# The schema keywords that reject the value at each path.
Rejections: TypeAlias = Mapping[ValuePath, frozenset[str]]

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


def _may_be_negative_zero(raw: object, coercion: Coercion) -> bool:
    """Whether a string was converted from an integer that may have been `-0`."""
    if "text_from_number" not in coercion.steps or not isinstance(raw, str):
        return False
    compact = "".join(raw.split())
    return any(piece in compact for piece in _NEGATIVE_ZEROS)


# Arguments as a whole


def _raw_candidates(raw: object, target: TargetTool) -> list[ArgumentCandidate]:
    """List the candidates for arguments as the provider sent them."""
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
    """List the candidates for arguments in text; add the repairs to `repairs`."""
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
    """Return a JSON document as the only candidate; none if it is not an object."""
    value = decode_repaired(document, repairs)
    return [ArgumentCandidate(value, tuple(repairs))] if isinstance(value, dict) else []


def _empty_candidates(
    value: Any, target: TargetTool, steps: tuple[str, ...]
) -> list[ArgumentCandidate]:
    """List what an empty value may mean: no arguments, or the value of any property."""
    doubts = [ArgumentCandidate({name: value}, is_certain=False) for name in target.properties]
    return [ArgumentCandidate({}, steps), *doubts]


def _unwrap_text(text: str, repairs: dict[str, None]) -> str:
    """Strip everything around the JSON, layer by layer."""
    for _ in range(_MAX_LAYERS):
        text = _unwrap_layer(text, repairs)
    return text


def _unwrap_layer(text: str, repairs: dict[str, None]) -> str:
    """Return a text without the outermost layer around the JSON."""
    inside = strip_control_tokens(text)
    if inside != text.strip():
        repairs["control_tokens"] = None
    inside = strip_wrapping(inside, repairs)
    if inside.startswith('"'):
        return _decode_json_string(inside, repairs)
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


def _decode_json_string(text: str, repairs: dict[str, None]) -> str:
    """Decode JSON that was encoded as a JSON string; return other text unchanged."""
    try:
        inner: str = json.loads(text)
    except ValueError:
        return text
    repairs["double_encoded"] = None
    return inner


# Arguments that are something else, whatever the schema allows

_ERROR_KEYS = frozenset({"error", "message", "code", "type", "details", "raw"})
_PARAMETER_ENDS = ("parameter>", "</arg_value>", "</param>")
_MAX_OPENING_TAG = 80
_MAX_NAME_WITH_ARGUMENTS = 2_000


def find_misplaced_content(value: JSON, properties: Iterable[str]) -> str:
    """Return why these are not the arguments of the call; empty if they may be.

    An error in place of arguments, a value that continues with the markup of a missing parameter,
    and a value inside its key were not meant, even if the schema allows them.
    """
    declared = set(properties)
    if "error" in value and declared and value.keys() <= _ERROR_KEYS - declared:
        return "They are an error message. Call the tool with its arguments."
    for key, item in value.items():
        if "=" in key and not item and key not in declared and _split_key(key, declared - {*value}):
            return f"The key {key[:_LONGEST_KEY]!r} contains its value."
        if isinstance(item, str) and "</" in item:
            swallowed = _swallowed_key(key, item, declared - value.keys())
            if swallowed:
                return f"{key!r} contains the markup of {swallowed!r}. Pass both separately."
    return ""


def _swallowed_key(key: str, text: str, missing: set[str]) -> str:
    """Return the missing key whose parameter opens in a text, after the closer of `key`."""
    for closer in (f"</{key}>", *_PARAMETER_ENDS):
        at = text.find(closer) if missing else -1
        while at >= 0:
            at += len(closer)
            opening = text[at : at + _MAX_OPENING_TAG].lstrip()
            tag, ended, _ = opening[1:].partition(">" if "<arg_key>" not in opening else "</")
            words = tag.replace('"', " ").replace("'", " ").replace("=", " ").replace(">", " ")
            found = missing.intersection(words.split()[-1:]) if opening[:1] == "<" else set()
            if ended and found:
                return found.pop()
            at = text.find(closer, at)
    return ""


def _split_key(key: str, missing: set[str]) -> tuple[str, str] | None:
    """Return the missing key and the value that a key contains, if it does."""
    name, _, value = key.partition("=")
    name = name.strip()
    return (name, value.strip().strip("\"'")) if name in missing and value.strip() else None


def _with_split_key(value: JSON, properties: Iterable[str]) -> JSON | None:
    """Return the arguments with a value taken out of its key, or None if none is in one."""
    missing = set(properties) - value.keys()
    pairs = {key: _split_key(key, missing) for key, item in value.items() if not item}
    split = {key: pair for key, pair in pairs.items() if pair}
    if len(split) != 1:
        return None
    ((old, (name, inner)),) = split.items()
    return {name if key == old else key: inner if key == old else value[key] for key in value}


def split_call_name(name: str, arguments: Any) -> tuple[str, Any]:
    """Return the name and the arguments of a call that has them as attributes of its name.

    `f path="a"` without other arguments means `f` with this path.
    """
    bare, _, rest = name.partition(" ")
    found: dict[str, Any] = {}
    if len(name) > _MAX_NAME_WITH_ARGUMENTS or arguments not in ({}, "{}", "", None):
        return name, arguments
    while rest.strip():
        key, opened, rest = rest.partition('="')
        value, closed, rest = rest.partition('"')
        if not opened or not closed or not key.strip().isidentifier() or key.strip() in found:
            return name, arguments
        found[key.strip()] = value
    return (bare, found) if found else (name, arguments)


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
        split = _with_split_key(one.value, target.properties)
        if split is not None:
            yield ArgumentCandidate(split, (*one.steps, "value_in_key"), one.is_certain)


def _inner_arguments(value: JSON, is_own_name: Callable[[str], bool]) -> JSON | None:
    """Return the arguments of a call of this tool that is written inside the arguments, if any."""
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
            return _decode_entities(value, _unescape_common_entity)
        case list():
            return [_unescape_value(item) for item in value]
        case dict():
            return {key: _unescape_value(item) for key, item in value.items()}
        case _:
            return value


def _decode_entities(text: str, decode: Callable[[str], str]) -> str:
    """Decode the text after each ampersand."""
    head, *rest = text.split("&")
    return head + "".join(map(decode, rest))


def _unescape_common_entity(rest: str) -> str:
    """Decode a common entity in the text after an ampersand; else put the ampersand back."""
    end = rest.find(";", 0, _LONGEST_ENTITY + 1)
    known = _ENTITIES.get(rest[:end].lower()) if end > 0 else None
    return f"&{rest}" if known is None else known + rest[end + 1 :]


# Single values

_REJECTING_KEYWORDS = frozenset({"type", "enum", "const", "pattern", "format"})
_NULL_SPELLINGS = frozenset({"null", "Null", "NULL", "None", "nil", "undefined"})
_QUOTES = {"“": "”", "‘": "’", "„": "“", "«": "»", "‹": "›", '"': '"', "'": "'", "`": "`"}
_QUOTE_MARK = '<|"|>'
_BLANKS = "".join(IGNORED_CHARACTERS)
# Each guess costs a validation of the whole value.
_MAX_GUESSES = 12
_LONGEST_NAMED_ENTITY = 40
_DIGITS = frozenset(string.digits)
_HEX = frozenset(string.hexdigits)


class _Guess(msgspec.Struct, frozen=True):
    """A possible meaning of a value, and its repair; without one, it only adds ambiguity."""

    value: Any
    step: str = ""


def repair_values(
    value: JSON, rejections: Callable[[JSON], Rejections], fit: Callable[[JSON], Coercion]
) -> Coercion | None:
    """Replace each rejected value by its only allowed alternative; return None if that fails.

    All paths are tried together, guess by guess, to keep the number of validations small.
    """
    guesses = {
        place: found
        for place, keywords in rejections(value).items()
        if keywords <= _REJECTING_KEYWORDS and (found := _guesses(_value_at(value, place)))
    }
    fitting: dict[ValuePath, dict[str, _Guess]] = {place: {} for place in guesses}
    for turn in range(max(map(len, guesses.values()), default=0)):
        tried = {place: found[min(turn, len(found) - 1)] for place, found in guesses.items()}
        fitted = fit(_with_guesses(value, tried)).value
        wrong = rejections(fitted)
        for place, guess in tried.items():
            if place not in wrong:
                fitting[place].setdefault(_json_at(fitted, place), guess)
    chosen = {place: guess for place, found in fitting.items() for guess in found.values()}
    sure = all(guess.step for guess in chosen.values())
    if not chosen or not sure or any(len(found) > 1 for found in fitting.values()):
        return None
    coerced = fit(_with_guesses(value, chosen))
    steps = (guess.step for guess in chosen.values())
    return None if rejections(coerced.value) else Coercion(coerced.value, (*steps, *coerced.steps))


def _guesses(value: Any) -> list[_Guess]:
    """List the possible meanings of a rejected value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [_Guess(str(value), "text_from_number")]
    return _text_guesses(value) if isinstance(value, str) else []


def _text_guesses(text: str) -> list[_Guess]:
    """List the possible meanings of a string; none if there are too many to try."""
    layers = _inner_texts(text)
    found = dict.fromkeys(layers, "text_bared")
    for step, decode in _DECODERS.items():
        decoded = [decode(layer) for layer in (text, *layers)]
        for other in (*decoded, *_inner_texts(decoded[0])):
            found.setdefault(other, step)
    guesses = [_Guess(other, step) for other, step in found.items() if other != text]
    words = _NULL_SPELLINGS.intersection((text, *layers))
    # A word for null may also be an allowed word in another case.
    cases = {change(word) for word in words for change in (str.lower, str.upper, str.title)}
    guesses += [_Guess(None, "null_from_word"), *map(_Guess, cases - words)] if words else []
    return guesses if len(guesses) <= _MAX_GUESSES else []


def _inner_texts(text: str) -> list[str]:
    """Strip blanks, quotation marks, and control tokens around a text; list each stage.

    Of two tokens, the last is stripped first; stripping only the first is listed as well.
    """
    found: dict[str, None] = {}
    for _ in range(_MAX_LAYERS):
        inside = _strip_quotes(text.strip(_BLANKS), text)
        if inside == text:
            inside = strip_last_token(text)
            found[strip_first_token(text)] = None
        found[inside] = None
        text = inside if inside != text else strip_first_token(text)
    return list(found)


def _strip_quotes(text: str, unstripped: str) -> str:
    """Strip one pair of quotation marks, unless blanks were stripped."""
    if text == unstripped and len(text) > 1:
        if _QUOTES.get(text[0]) == text[-1]:
            return text[1:-1]
        if text.startswith(_QUOTE_MARK) and text.endswith(_QUOTE_MARK):
            return text[len(_QUOTE_MARK) : -len(_QUOTE_MARK)]
    return text


def _unescape_entity(after: str) -> str:
    """Decode the text after an ampersand; an entity must end with a semicolon."""
    end = after.find(";", 0, _LONGEST_NAMED_ENTITY) + 1
    name = after[:end]
    known = html_entity(name) or (
        unescape_html(f"&{name}") if _is_numeric_entity(name[:-1]) else None
    )
    return f"&{after}" if known is None else known + after[end:]


def _is_numeric_entity(name: str) -> bool:
    is_hex = name[1:2] in {"x", "X"}
    digits = name[2:] if is_hex else name[1:]
    return name[:1] == "#" and digits != "" and (_HEX if is_hex else _DIGITS).issuperset(digits)


def _percent_decode(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


_DECODERS: dict[str, Callable[[str], str]] = {
    "entities_decoded": partial(_decode_entities, decode=_unescape_entity),
    "percents_decoded": _percent_decode,
}


def _value_at(value: Any, path: ValuePath) -> Any:
    for step in path:
        value = value[step]
    return value


def _json_at(value: Any, path: ValuePath) -> str:
    """Return the value at a path as JSON; blank if the path no longer exists."""
    try:
        return json.dumps(_value_at(value, path), sort_keys=True)
    except (LookupError, TypeError):
        return ""


def _with_guesses(value: JSON, guesses: Mapping[ValuePath, _Guess]) -> JSON:
    """Return a copy of a value with guesses at their paths."""
    copied: JSON = {**value}
    own: dict[ValuePath, Any] = {(): copied}
    for place, guess in guesses.items():
        for depth in range(1, len(place)):
            path = place[:depth]
            if path not in own:
                parent = own[path[:-1]]
                own[path] = parent[path[-1]] = _shallow_copy(parent[path[-1]])
        own[place[:-1]][place[-1]] = guess.value
    return copied


def _shallow_copy(value: Any) -> Any:
    return {**value} if isinstance(value, dict) else [*value]
