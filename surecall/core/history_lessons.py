"""What a refused history teaches: which field, id, content or role the endpoint does not take.

A lesson is drawn only if the refusal names a thing that is in the request, and says what is wrong
with it. What an error does not say stays an error. `wire.history_codec` lists the lessons, and
writes earlier turns as they say.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from surecall.parsing.schema_walk import rewritten
from surecall.values.errors import Fault
from surecall.values.types import JSON
from surecall.wire.history_codec import (
    ABSENT,
    IDS,
    NAME,
    NINE,
    NULL,
    PLAIN,
    SCHEMA,
    SIGNATURE,
    SYSTEM_IN_USER,
    TEXT,
    WITHOUT,
    codec_of,
)
from surecall.wire.messages import PLAIN_LENGTH, is_plain_id
from surecall.wire.opaque_state import DOCUMENTED_OF_CALL, DOCUMENTED_OF_FUNCTION

# These are about who asks, how often and how slowly, never about what is asked.
_NOT_ABOUT_THE_REQUEST: Final = frozenset({401, 402, 403, 408, 429})
_MESSAGE_FIELDS: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
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
# How far from the name of a field the word may stand that judges it, in characters.
_NEAR: Final = 160
_TOOL_WORDS: Final = ("tool", "function", "schema", "parameters")
_NEEDED_KEYWORDS: Final = frozenset(
    {
        *("type", "properties", "items", "required", "$ref", "$defs", "definitions"),
        *("name", "description", "parameters"),
    }
)
_CONTENT_WORDS: Final = frozenset({"content", "text"})
_SIGNATURES: Final = frozenset({"signature", "extra_content"})
_ID_WORDS: Final = frozenset({"id", "tool_call_id", "tool_use_id", "call_id", "tool_call_ids"})
_FORM_WORDS: Final = ("pattern", "character", "alphanumeric", "letters", "a-z", "digits")
_LENGTH_WORDS: Final = ("too long", "length", "longer", "at most", "exceed", "up to")
_PREFIX_WORDS: Final = ("begins with", "begin with", "starts with", "start with")
_EMPTY_WORDS: Final = ("empty", "blank", "at least 1", "too short", "whitespace", "min_length")
_NULL_WORDS: Final = ("null", "nil", "none", "string", "str ", "type", "required", "missing")
_NINE: Final = 9


def history_lesson(
    fault: Fault, messages: Sequence[JSON], learned: Sequence[str], tools: Sequence[JSON] = ()
) -> str | None:
    """Return what a refusal teaches about messages and tools, if it is something not yet known."""
    if fault.status is not None and (
        fault.status < 400 or fault.status in _NOT_ABOUT_THE_REQUEST  # noqa: PLR2004
    ):
        return None
    text = f"{fault.message}\n{fault.body or ''}".lower()
    found = (
        lesson
        for reader in (_about_ids, _about_signatures, _about_fields, *_FURTHER)
        for lesson in reader(text, messages, learned)
    )
    every = chain(found, _about_schemas(text, tools))
    return next((lesson for lesson in every if lesson not in learned), None)


def _about_ids(text: str, messages: Sequence[JSON], _: Sequence[str]) -> Iterator[str]:
    words = _words(text)
    if _ID_WORDS.isdisjoint(words) and not _follow_each_other(words, "call", "id"):
        return
    ids = [str(call.get("id")) for call in _calls(messages)]
    for lesson in _id_lessons(text, words, max(map(len, ids), default=0)):
        if any(codec_of(lesson)(given) != given for given in ids):
            yield lesson


def _id_lessons(text: str, words: list[str], longest: int) -> Iterator[str]:
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 4]  # noqa: PLR2004
    is_form, is_length = _any(text, _FORM_WORDS), _any(text, _LENGTH_WORDS)
    if _NINE in numbers and (is_form or is_length):
        yield NINE
    if prefix := _prefix(text):
        yield f"{IDS}{prefix}"
    limits = [number for number in numbers if _NINE <= number < longest]
    if is_length and limits and max(limits) < PLAIN_LENGTH:
        yield NINE
    if is_form or (is_length and limits):
        yield PLAIN


def _prefix(text: str) -> str:
    """Return how an id should begin, of a refusal that quotes it."""
    for phrase in _PREFIX_WORDS:
        _, found, rest = text.partition(phrase)
        quoted = rest.strip()[:1]
        if found and quoted in {"'", '"', "`"}:
            wanted = rest.strip()[1:].partition(quoted)[0]
            return wanted if is_plain_id(wanted) and len(wanted) <= _NINE else ""
    return ""


def _about_fields(text: str, messages: Sequence[JSON], _: Sequence[str]) -> Iterator[str]:
    yield from (f"{WITHOUT}{field}" for field in _refused(text, _fields(messages)))


def _about_schemas(text: str, tools: Sequence[JSON]) -> Iterator[str]:
    """Look for a keyword of the tools' schemas; what a schema is made of cannot be left out."""
    if tools and _any(text, _TOOL_WORDS):
        keywords = set[str]().union(*(_keywords(tool["function"]) for tool in tools))
        yield from (f"{SCHEMA}{keyword}" for keyword in _refused(text, keywords))


def _keywords(function: JSON) -> set[str]:
    found: set[str] = set()

    def noted(schema: JSON) -> JSON:
        found.update(schema)
        return schema

    rewritten(function["parameters"], noted)
    return (found | function.keys()) - _NEEDED_KEYWORDS


def _refused(text: str, names: set[str]) -> Iterator[str]:
    """Yield which of these names a refusal is about, in the order in which it names them."""
    mentions = sorted((place, name) for name in names if (place := _mention(text, name)) >= 0)
    yield from (name for place, name in mentions if _is_refused(text, place, len(name)))


def _fields(messages: Sequence[JSON]) -> set[str]:
    """Name everything in a history that the format does not demand."""
    found: set[str] = set()
    for message in messages:
        found |= message.keys() - _MESSAGE_FIELDS
        content = message.get("content")
        if message.get("role") == "assistant" and isinstance(content, list):
            found |= {str(part.get("type")) for part in content if isinstance(part, dict)}
    for call in _calls(messages):
        found |= call.keys() - DOCUMENTED_OF_CALL
        found |= call["function"].keys() - DOCUMENTED_OF_FUNCTION
    if any("name" in message for message in messages):
        found.add("name")
    return found - {"text"}


def _mention(text: str, field: str) -> int:
    """Say where a refusal names a field; a name that is a common word must be quoted."""
    name = field.lower()
    if name == "name":
        quoted = (f"{mark}name{end}" for mark in "'\"`." for end in "'\"`: ")
        return -1 if "function" in text else max(text.find(each) for each in quoted)
    place = text.find(name)
    while place >= 0:
        around = text[place - 1 : place] + text[place + len(name) : place + len(name) + 1]
        if not any(char.isalnum() or char == "_" for char in around):
            return place
        place = text.find(name, place + 1)
    return -1


def _is_refused(text: str, place: int, length: int) -> bool:
    """Whether the nearest word of judgement says that it must not be there."""
    if text[:place].endswith(_EXPECTED):
        return False
    # Of a list of errors, each in braces of its own, one is about this field.
    start = max(0, place - _NEAR, text.rfind("{", 0, place))
    end = text.find("}", place, place + length + _NEAR)
    near = text[start : end if end >= 0 else place + length + _NEAR]
    refusing, demanding = (
        _nearest(near, place - start, words) for words in (_REFUSING, _DEMANDING)
    )
    return refusing < demanding


def _nearest(text: str, at: int, words: Iterable[str]) -> int:
    places = (place for word in words for place in _places(text, word))
    return min((abs(place - at) for place in places), default=len(text))


def _places(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _about_content(text: str, messages: Sequence[JSON], learned: Sequence[str]) -> Iterator[str]:
    words = set(_words(text))
    if words.isdisjoint(_CONTENT_WORDS):
        return
    said = [message for message in messages if message.get("tool_calls")]
    blank = any(message.get("content") == "" for message in said)
    null = any(message.get("content", "") is None for message in said)
    if blank and _any(text, _EMPTY_WORDS):
        yield from (NULL, ABSENT)
    wanted = "content" in words and _any(text, _DEMANDING)
    if null and (wanted or _any(text, _NULL_WORDS)):
        yield ABSENT if NULL in learned else TEXT
    if any("content" not in message for message in said) and (wanted or _any(text, _NULL_WORDS)):
        yield TEXT


def _about_signatures(text: str, messages: Sequence[JSON], _: Sequence[str]) -> Iterator[str]:
    missing = any(not _SIGNATURES & call.keys() for call in _calls(messages))
    if missing and "thought_signature" in text and _any(text, _DEMANDING):
        yield SIGNATURE


def _about_names(text: str, messages: Sequence[JSON], _: Sequence[str]) -> Iterator[str]:
    """Look for a result without the name that is asked for: Gemini calls a result a response."""
    unnamed = any(message.get("role") == "tool" and "name" not in message for message in messages)
    if unnamed and "function_response" in text and "name" in _words(text):
        yield NAME


def _about_system(text: str, messages: Sequence[JSON], _: Sequence[str]) -> Iterator[str]:
    is_sent = bool(messages) and messages[0].get("role") == "system"
    if is_sent and "system" in text and "role" in text and _any(text, (*_REFUSING, "only user")):
        yield SYSTEM_IN_USER


_FURTHER: Final = (_about_names, _about_content, _about_system)


def _calls(messages: Iterable[JSON]) -> Iterator[JSON]:
    for message in messages:
        yield from message.get("tool_calls") or ()


def _any(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def _words(text: str) -> list[str]:
    return "".join(char if char.isalnum() or char == "_" else " " for char in text).split()


def _follow_each_other(words: list[str], one: str, other: str) -> bool:
    return (one, other) in pairwise(words)
