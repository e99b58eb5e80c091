"""Reads what a rejection says about a request, and derives lessons from it.

    rejection + request ─► candidates, one after another: the table of refusals (refusals.toml),
                           then whatever optional name the rejection calls invalid
                        ─► the first candidate that changes the request

There is a lesson only if the rejection names something that is in the request and says what is
wrong with it; any other rejection stays an error.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final

from surecall.parsing.coercion import rewrite_schema
from surecall.settings.providers import RefusalRow, refusal_rows
from surecall.values.errors import ErrorCode, Fault
from surecall.values.text import occurrences
from surecall.values.types import JSON
from surecall.wire.chat_format import PLAIN_ID_LENGTH, is_plain_id
from surecall.wire.provider_state import DOCUMENTED_CALL_FIELDS, DOCUMENTED_FUNCTION_FIELDS
from surecall.wire.request_adaptations import (
    API_PREFIX,
    AT_MOST_PREFIX,
    CONTENT_ABSENT,
    CONTENT_FILLED,
    CONTENT_NULL,
    CONTENT_TEXT,
    IDS_PREFIX,
    MAX_TOOLS_PREFIX,
    PLAIN_IDS,
    RENAME_PREFIX,
    SCHEMA_PREFIX,
    SHORT_IDS,
    SIGNATURE_SKIP,
    WITHOUT_PREFIX,
    adapt_request,
    id_codec,
    is_adaptable,
)
from surecall.wire.schema_flavors import NEEDED_KEYWORDS

# These concern authentication, rate, and time, never the content of the request.
_NOT_ABOUT_THE_REQUEST: Final = frozenset({401, 402, 403, 408, 429})
# Of the server errors, only this one is also used for invalid requests.
SERVER_ERROR: Final = 500
_MAY_BE_A_REFUSAL: Final = frozenset({None, SERVER_ERROR})
_CLIENT_ERRORS: Final = range(400, 500)
# A rejection may quote the whole prompt.
_MAX_TEXT_CHARS: Final = 8_000
_MESSAGE_FIELDS: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
# Omitting these would change what the request is about.
_ESSENTIAL_FIELDS: Final = frozenset(
    {"model", "messages", "tools", "tool_choice", "stream", "response_format", "functions"}
)
_REFUSING: Final = (
    "unsupported",
    "not support",
    "n't support",
    "not permitted",
    "not allowed",
    "not accept",
    "forbidden",
    "unknown",
    "unrecogni",
    "unexpected",
    "additional propert",
    "extra input",
    "extra field",
    "extra_forbidden",
    "invalid",
    "cannot find field",
    "no such",
    "must not",
    "should not",
    "not defined",
    "deprecated",
    "extraneous",
    "not available",
    "not valid",
    "not enabled",
    "not recognized",
    "only the default",
    "cannot be used",
    "incompatible",
    "disallow",
    "not match",
    "may only be",
    "非法",
    "不支持",
    "无效",
)
_DEMANDING: Final = (
    "missing",
    "required",
    "must be passed",
    "must be provided",
    "must be included",
    "must include",
    "must start",
    "must contain",
    "must have",
    "must also",
    "passed back",
    "lacks",
)
_EXPECTED: Final = ("expected `", "expected '", 'expected "')
# How far from the name of a field a word such as "unsupported" may stand, in characters.
_CONTEXT_CHARS: Final = 160
_NOWHERE: Final = 1_000
_MAX_MENTIONS: Final = 20
_MAX_REFUSED: Final = 6
_TOOL_WORDS: Final = ("tool", "function", "schema", "parameters")
_CONTENT_WORDS: Final = frozenset({"content", "text"})
_SIGNATURES: Final = frozenset({"signature", "extra_content"})
_ID_WORDS: Final = frozenset({"id", "tool_call_id", "tool_use_id", "call_id", "tool_call_ids"})
_FORM_WORDS: Final = ("pattern", "character", "alphanumeric", "letters", "a-z", "digits")
_LENGTH_WORDS: Final = ("too long", "length", "longer", "at most", "exceed", "up to")
_PREFIX_WORDS: Final = ("begins with", "begin with", "starts with", "start with")
_EMPTY_WORDS: Final = ("empty", "blank", "at least 1", "too short", "whitespace", "min_length")
_NULL_WORDS: Final = ("null", "nil", "none", "string", "str ", "type", "required", "missing")
_NINE: Final = 9
# Codes that any invalid request gets, names that a rejection suggests, and the request, if quoted.
_NOISE: Final = re.compile(
    r"invalid_(?:request|argument|parameter|message|value)\w*|invalid ?(?:parameter|argument)\b"
    r"|did you mean[^?]{0,80}"
    r"|[\"']messages\\*[\"']: ?\[\s*\{.*",
    re.DOTALL,
)
_QUOTES: Final = frozenset("'\"`[")
_FIELD_WORDS: Final = ("parameter", "field", "argument", "property", "option", "keyword", "key")
_BEFORE_FIELD: Final = (*_FIELD_WORDS, "parameters", "(s)", "supplied", "permitted", "->")
_VERBS: Final = ("is ", "are ", "may ", "must ", "cannot ", "can ", "does ", "should ", "not ")
# After these, a plain word is not the name of a field.
_NOT_A_FIELD: Final = ("the", "a", "an", "your", "this", "when", "if", "while", "with", "role")
_SUPPORT: Final = ("support", "supports", "unsupported")
_VALUES: Final = ("role", "model")


def is_about_request(fault: Fault) -> bool:
    """Whether a fault may be about the content of the request."""
    if fault.code is ErrorCode.CONTEXT_TOO_LONG or fault.status in _NOT_ABOUT_THE_REQUEST:
        return False
    if fault.status not in _MAY_BE_A_REFUSAL and fault.status not in _CLIENT_ERRORS:
        return False
    text = _text_of(fault)
    return all(row.lessons for row in refusal_rows() if _matches(row, text))


def _text_of(fault: Fault) -> str:
    """Return what a rejection says, its message in the first line, without codes and hints."""
    return _NOISE.sub("", f"{fault.message}\n{fault.body or ''}"[:_MAX_TEXT_CHARS].lower())


def request_lessons(
    fault: Fault, body: JSON, tried: Sequence[str], *, apis: bool = False
) -> tuple[str, ...]:
    """Return the untried lessons that a rejection of a request teaches; empty without any.

    Each of them changes the request. With `apis`, the client can switch to another upstream API.
    """
    if not is_about_request(fault) or not is_adaptable(body):
        return ()
    for lessons in _candidates(_text_of(fault), body, tried):
        useful = tuple(
            lesson
            for lesson in dict.fromkeys(lessons)
            if lesson not in tried and _is_useful(lesson, body, apis=apis)
        )
        if useful:
            return useful
    return ()


def _is_useful(lesson: str, body: JSON, *, apis: bool) -> bool:
    """Whether a lesson would change how a request is sent."""
    if lesson.startswith(API_PREFIX):
        return apis
    if lesson.startswith(MAX_TOOLS_PREFIX):
        return True
    return bool(adapt_request(body, (lesson,)) != body)


def _candidates(text: str, body: JSON, tried: Sequence[str]) -> Iterator[Iterable[str]]:
    """Yield groups of lessons, the likeliest first; a group is learned together."""
    messages, tools = body["messages"], body.get("tools") or []
    for row in refusal_rows():
        if _matches(row, text):
            yield [
                *(lesson for each in row.lessons if (lesson := _with_limit(each, text, body))),
                *_refused_beside(row, text, body),
            ]
    for read in (_lessons_about_ids, _lessons_about_signatures):
        yield from ([lesson] for lesson in read(text, messages))
    yield list(_lessons_about_schemas(text, tools))
    yield list(_refused_names(text, set(body) - _ESSENTIAL_FIELDS))
    yield list(_lessons_about_fields(text, messages))
    said = text.partition("\n")[0]
    yield from ([lesson] for lesson in _lessons_about_content(said, messages, tried))


def _refused_beside(row: RefusalRow, text: str, body: JSON) -> Iterator[str]:
    """Yield the other options that a rejection names beside the one to be renamed."""
    if row.lessons[0].startswith(RENAME_PREFIX):
        renamed = set(row.lessons[0].split(":"))
        yield from _refused_names(text, set(body) - _ESSENTIAL_FIELDS - renamed)


def _matches(row: RefusalRow, text: str) -> bool:
    return all(_says(text, group) for group in row.says) and not _contains_any(text, row.unless)


def _says(text: str, phrases: Iterable[str]) -> bool:
    """Whether a rejection has one of these phrases."""
    return any(
        _contains_any(text, _REFUSING) if phrase == "@refusing" else phrase in text
        for phrase in phrases
    )


def _with_limit(lesson: str, text: str, body: JSON) -> str:
    """Return a lesson with the limit that a rejection states; blank if it states none."""
    if "{}" not in lesson:
        return lesson
    words = [word for word in split_words(text) if word.isascii() and word.isdigit()]
    numbers = [int(word) for word in words if len(word) <= _NINE]
    given: Any = None
    if lesson.startswith(MAX_TOOLS_PREFIX):
        given = len(body.get("tools") or ())
    elif lesson.startswith(AT_MOST_PREFIX):
        given = body.get(lesson.split(":")[1])
        if not isinstance(given, int):
            return ""
    limits = [each for each in numbers if each > 1 and (given is None or each < given)]
    return lesson.format(max(limits) if given is not None else min(limits)) if limits else ""


def _lessons_about_ids(text: str, messages: Sequence[JSON]) -> Iterator[str]:
    words = split_words(text)
    if _ID_WORDS.isdisjoint(words) and not _are_adjacent(words, "call", "id"):
        return
    ids = [str(call.get("id")) for call in _sent_calls(messages)]
    for lesson in _id_form_lessons(text, words, max(map(len, ids), default=0)):
        if any(id_codec(lesson)(given) != given for given in ids):
            yield lesson


def _id_form_lessons(text: str, words: list[str], longest: int) -> Iterator[str]:
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 4]  # noqa: PLR2004
    is_form, is_length = _contains_any(text, _FORM_WORDS), _contains_any(text, _LENGTH_WORDS)
    if _NINE in numbers and (is_form or is_length):
        yield SHORT_IDS
    if prefix := _required_prefix(text):
        yield f"{IDS_PREFIX}{prefix}"
    limits = [number for number in numbers if _NINE <= number < longest]
    if is_length and limits and max(limits) < PLAIN_ID_LENGTH:
        yield SHORT_IDS
    if is_form or (is_length and limits):
        yield PLAIN_IDS


def _required_prefix(text: str) -> str:
    """Return the prefix that ids must have, if the rejection quotes it; else blank."""
    for phrase in _PREFIX_WORDS:
        _, found, rest = text.partition(phrase)
        quoted = rest.strip()[:1]
        if found and quoted in {"'", '"', "`"}:
            wanted = rest.strip()[1:].partition(quoted)[0]
            return wanted if is_plain_id(wanted) and len(wanted) <= _NINE else ""
    return ""


def _lessons_about_fields(text: str, messages: Sequence[JSON]) -> Iterator[str]:
    yield from (
        f"{WITHOUT_PREFIX}{field}" for field in _refused_names(text, _optional_fields(messages))
    )


def _lessons_about_schemas(text: str, tools: Sequence[JSON]) -> Iterator[str]:
    """Yield lessons about parts of tool definitions that can be omitted or rewritten."""
    names = set[str]()
    functions = [tool["function"] for tool in tools if "function" in tool]
    for definition in (*tools, *functions):
        names |= definition.keys()
    if _contains_any(text, _TOOL_WORDS):
        names = names.union(*map(_schema_keywords, functions))
    for name in _refused_names(text, names - NEEDED_KEYWORDS):
        yield f"{SCHEMA_PREFIX}{name}"


def _schema_keywords(function: JSON) -> set[str]:
    found: set[str] = set()

    def collect(schema: JSON) -> JSON:
        found.update(schema)
        return schema

    if isinstance(parameters := function.get("parameters"), dict):
        rewrite_schema(parameters, collect)
    return found


def _refused_names(text: str, names: set[str]) -> Iterator[str]:
    """Yield the names that a rejection is about, in the order in which it mentions them."""
    refused = sorted((_first_refused(text, name), name) for name in names)
    found = [name for place, name in refused if place >= 0]
    if len(found) <= _MAX_REFUSED:  # more of them are a quotation of the request
        yield from found


def _first_refused(text: str, name: str) -> int:
    """Return where a rejection first says that a name must not be there, or -1."""
    mentions = islice(_mentions(text, name), _MAX_MENTIONS)
    return next((at for at, length in mentions if _is_refused(text, at, length)), -1)


def _optional_fields(messages: Sequence[JSON]) -> set[str]:
    """Return the names of all optional fields and content types in a history."""
    found: set[str] = set()
    for message in messages:
        found |= message.keys() - _MESSAGE_FIELDS
        content = message.get("content")
        if message.get("role") == "assistant" and isinstance(content, list):
            found |= {str(part.get("type")) for part in content if isinstance(part, dict)}
    for call in _sent_calls(messages):
        found |= call.keys() - DOCUMENTED_CALL_FIELDS - {"custom"}
        found |= call.get("function", {}).keys() - DOCUMENTED_FUNCTION_FIELDS
    if any("name" in message for message in messages):
        found.add("name")
    return found - {"text"}


def _mentions(text: str, field: str) -> Iterator[tuple[int, int]]:
    """Yield where a rejection names a field, and how long its name is there."""
    name = field.lower()
    if name == "name":
        quoted = (f"{mark}name{end}" for mark in "'\"`." for end in "'\"`: ")
        found = () if "function" in text else quoted
        yield from ((place, len(name)) for each in found for place in occurrences(text, each))
        return
    # A plain word such as "stop" may be a part of the sentence.
    plain = field.isalpha() and field.islower()
    for spelling in sorted({name, name.replace("_", "")} - {""}):  # some write it in camel case
        for place, length in _words_at(text, spelling):
            if not plain or _is_marked(text, place, spelling):
                yield place, length


def _words_at(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Yield where a whole word stands, and its length."""
    for place in occurrences(text, word):
        end = place + len(word)
        around = text[max(0, place - 1) : place] + text[end : end + 1]
        if not any(char.isascii() and (char.isalnum() or char in "_-") for char in around):
            yield place, len(word)


def _is_marked(text: str, place: int, word: str) -> bool:
    """Whether a word in a rejection is marked as the name of a field."""
    before, after = (
        text[max(0, place - 40) : place],
        text[place + len(word) : place + len(word) + 40],
    )
    last = (before.split() or [""])[-1].strip("'\"`(:")
    if _QUOTES & {before[-1:], after[:1]}:
        return not before.strip("'\"` ").endswith(_VALUES)
    if before[-1:] in {".", "/"} or (after[:1] == "." and after[1:2].isalnum()):
        return True
    following = after.lstrip()
    if before.rstrip(" :").endswith(_BEFORE_FIELD) or following.startswith(_FIELD_WORDS):
        return True
    if last in _SUPPORT:
        return not following[:1].isalpha()
    return following.startswith(_VERBS) and last not in _NOT_A_FIELD


def _is_refused(text: str, place: int, length: int) -> bool:
    """Whether the nearest verdict about a field is that it must not be there."""
    if text[max(0, place - _CONTEXT_CHARS) : place].endswith(_EXPECTED):
        return False
    wide = max(0, place - _CONTEXT_CHARS), place + length + _CONTEXT_CHARS
    # In a list of errors in braces, the one around the field concerns it.
    opening, closing = text.rfind("{", wide[0], place), text.find("}", place, wide[1])
    inner = max(wide[0], opening), closing if closing >= 0 else wide[1]
    for start, end in (inner, wide):
        near = text[start:end]
        refusing, demanding = (
            _nearest_distance(near, place - start, words) for words in (_REFUSING, _DEMANDING)
        )
        if refusing != demanding:
            return refusing < demanding
    return False


def _nearest_distance(text: str, at: int, words: Iterable[str]) -> int:
    """Return the distance from a position to the nearest of these words."""
    places = (place for word in words for place in occurrences(text, word))
    return min((abs(place - at) for place in places), default=_NOWHERE)


def _lessons_about_content(
    text: str, messages: Sequence[JSON], learned: Sequence[str]
) -> Iterator[str]:
    words = set(split_words(text))
    if words.isdisjoint(_CONTENT_WORDS):
        return
    turns = [message for message in messages if message.get("tool_calls")]
    blank = any(message.get("content") == "" for message in turns)
    null = any(message.get("content", "") is None for message in turns)
    if blank and _contains_any(text, _EMPTY_WORDS):
        yield from (CONTENT_NULL, CONTENT_ABSENT)
    if _contains_any(text, _EMPTY_WORDS):
        yield CONTENT_FILLED
    near = [text[max(0, at - 60) : at + length + 60] for at, length in _words_at(text, "content")]
    if not any(_contains_any(each, (*_DEMANDING, *_NULL_WORDS)) for each in near):
        return
    if null:
        yield CONTENT_ABSENT if CONTENT_NULL in learned else CONTENT_TEXT
    if any("content" not in message for message in turns):
        yield CONTENT_TEXT


def _lessons_about_signatures(text: str, messages: Sequence[JSON]) -> Iterator[str]:
    missing = any(not _SIGNATURES & call.keys() for call in _sent_calls(messages))
    if missing and "thought_signature" in text and _contains_any(text, _DEMANDING):
        yield SIGNATURE_SKIP


def _sent_calls(messages: Iterable[JSON]) -> Iterator[JSON]:
    """Yield the calls in a history."""
    for message in messages:
        yield from message.get("tool_calls") or ()


def _contains_any(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def split_words(text: str) -> list[str]:
    """Return the words of a text; an underscore is part of a word."""
    return "".join(char if char.isalnum() or char == "_" else " " for char in text).split()


def _are_adjacent(words: list[str], one: str, other: str) -> bool:
    return (one, other) in pairwise(words)
