"""Values observed in a conversation: the user's texts, and the values in tool results.

Earlier history counts. Prompts of the loop do not, nor do calls that never ran: those repeat what
the model made up. A value that a read-only tool merely echoes from the call's arguments is no
evidence either, nor is any word of it, in whatever spelling: as a number, in capitals, padded.

Values are found in text as whole words. Neither O-77 nor 7731 is a whole word in O-7731: a joiner
such as `-` is not a word boundary. Numbers are found by value: 20 is in "20.00 EUR". They are
compared exactly and never as floats, which cannot distinguish large integers. A word with an
ambiguous separator, such as "1,200", "1.200", or "1 200", contains no number.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

import msgspec

from surecall.core.state import Run, once_per_run
from surecall.settings.contract import From
from surecall.values.nesting import TooDeep, decode_json
from surecall.values.paths import path_steps, values_at
from surecall.values.types import FIRST_INEXACT_FLOAT, JSON, Assistant, ToolCall, ToolResult, User
from surecall.wire.content_parts import parts_of, text_of

USER: Final = "the user"
MAX_OBSERVED_VALUES: Final = 20_000
_MAX_JSON_CHARS: Final = 200_000


class ObservedValue(NamedTuple):
    """One value of a result, with its key and the tool (`source`) that returned it.

    `echoed_forms` are the normalized arguments of the call: the value is no evidence of those.
    """

    key: str
    value: str | int | float
    source: str
    echoed_forms: frozenset[str] = frozenset()


class ValueRow(NamedTuple):
    """Values that belong together: those of an object and of the objects around it."""

    values: JSON
    source: str


class ObservedValues(NamedTuple):
    """Everything observed. Results of the tools in `truncated_tools` are incomplete."""

    user_texts: tuple[str, ...] = ()
    values: tuple[ObservedValue, ...] = ()
    rows: tuple[ValueRow, ...] = ()
    truncated_tools: frozenset[str] = frozenset()


@once_per_run
def observed_values(run: Run) -> ObservedValues:
    """Return the values that the user and the tools have given in a conversation."""
    words = tuple(
        _user_text(item.content)
        for item in run.messages
        if isinstance(item, User) and not item.nudge
    )
    leaves: list[ObservedValue] = []
    records: list[ValueRow] = []
    cut: set[str] = set()
    for call, result in _results_with_calls(run):
        if result.replaced or len(leaves) > MAX_OBSERVED_VALUES:
            cut.add(result.name)
        known = _echoed_values(run, call, result)
        given = [part for value in known for part in (value, *_words_in_value(value))]
        echo = frozenset(
            normalized_value(value) for value in given if not _is_named_by_user(value, words)
        )
        for leaf in _iter_values(result.name, returned_data(result), records):
            value = (
                blank_out_values(leaf.value, known) if isinstance(leaf.value, str) else leaf.value
            )
            if (
                value not in known
                and value != ""
                and not (echo and normalized_value(value) in echo)
            ):
                leaves.append(leaf._replace(value=value, echoed_forms=echo))
    return ObservedValues(words, tuple(leaves), tuple(records), frozenset(cut))


def _user_text(content: Any) -> str:
    """Return the text of a user message, with line breaks between content parts."""
    return "\n".join(text_of([part]) for part in parts_of(content)) or text_of(content)


def _results_with_calls(run: Run) -> Iterator[tuple[ToolCall | None, ToolResult]]:
    """Yield the results that may hold new values, each with its call."""
    calls: dict[str, ToolCall] = {}
    for position, item in enumerate(run.messages):
        if isinstance(item, Assistant):
            calls |= {call.id: call for call in item.calls}
        elif isinstance(item, ToolResult) and item.found is not None:
            continue  # names and descriptions of tools
        elif isinstance(item, ToolResult) and (item.executed or position < run.start or item.ok):
            yield calls.get(item.call_id), item


def _echoed_values(run: Run, call: ToolCall | None, result: ToolResult) -> set[Any]:
    """Return the argument values that a result may merely echo.

    After a successful write there are none: what it was called with exists now.
    """
    reads = any(spec.read_only for spec in run.tools if spec.name == result.name)
    if call is None or (result.ok and not reads):
        return set()
    return {leaf.value for leaf in _iter_values("", call.arguments, [])}


def _words_in_value(value: str | float) -> Iterator[str]:
    """Yield the words of a text; each may be an identifier."""
    if isinstance(value, str):
        yield from words_in(value)


def _is_named_by_user(value: str | float, user_texts: Sequence[str]) -> bool:
    """Whether the user named a value, in any spelling: then an echo of it is evidence."""
    form = normalized_value(value)
    return any(
        is_value_in(str(value).casefold(), text.casefold())
        or any(normalized_value(word) == form for word in words_in(text))
        for text in user_texts
    )


def returned_data(result: ToolResult) -> Any:
    """Return the data of a result as JSON, or the error messages of a failure."""
    try:
        envelope: Any = decode_json(result.content)
    except (msgspec.DecodeError, TooDeep):
        return result.content
    match envelope:
        case {"ok": True, "data": {"value": value, **rest}} if not rest:
            return decode_container(value)
        case {"ok": True, "data": data}:
            return data
        case {"ok": False, "errors": list(errors), **rest}:
            messages = [error.get("message") for error in errors if isinstance(error, dict)]
            return [messages, rest.get("data")]
        case _:
            return envelope


def decode_container(value: Any) -> Any:
    """Return the object or list that a text encodes as JSON; any other value unchanged."""
    if not isinstance(value, str) or len(value) > _MAX_JSON_CHARS or value[:1] not in {"{", "["}:
        return value
    try:
        return decode_json(value)
    except (msgspec.DecodeError, TooDeep):
        return value


def _iter_values(source: str, value: Any, rows: list[ValueRow]) -> Iterator[ObservedValue]:
    """Yield the scalar values in a result, without recursion; append its objects to `rows`."""
    stack: list[tuple[str, Any, JSON]] = [("", value, {})]
    while stack:
        key, item, around = stack.pop()
        match item:
            case dict():
                own = {name: one for name, one in item.items() if is_text_or_number(one)}
                around = around | own
                if own:
                    rows.append(ValueRow(around, source))
                stack += [(name, one, around) for name, one in reversed(item.items())]
            case list():
                stack += [(key, one, around) for one in reversed(item)]
            case str() | int() | float() if is_text_or_number(item):
                yield ObservedValue(key, item, source)


def is_text_or_number(value: Any) -> bool:
    """Whether a value is a text or a number; booleans are not."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def values_at_source(run: Run, source: From) -> tuple[Any, ...]:
    """Return the values at a path in the successful results of a tool, in order."""
    steps = path_steps(source.path)
    found: list[Any] = []
    for _, result in _results_with_calls(run):
        if result.name == source.tool and result.ok:
            found += [item for item in values_at(returned_data(result), steps) if item not in found]
    return tuple(found)


def tools_returning(values: Sequence[ObservedValue], value: Any) -> Iterator[str]:
    """Yield the tools whose results hold exactly this value; numbers are compared exactly."""
    for leaf in values:
        if isinstance(leaf.value, str) or isinstance(value, str):
            is_same = str(leaf.value) == str(value)
        else:
            is_same = is_same_number(leaf.value, value)
        if is_same:
            yield leaf.source


_JOINERS: Final = "-_./@:#+"
# Between two digits, these may be part of a number.
_DIGIT_GROUPS: Final = ",'\u2019\xa0\u2007\u2009\u202f"
_EDGES: Final = " \t\r\n.,;:!?\"'`()[]{}<>|*\xab\xbb\u2018\u2019\u201c\u201d\u201e"
_SIGNS: Final = "€$£¥%#~≈="
# A point before digits is part of the number.
_BEFORE_NUMBERS: Final = (_EDGES + _SIGNS).replace(".", "")
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_LONGEST_NUMBER: Final = 1_000
# Enough digits that nothing is rounded.
_EXACT: Final = Context(prec=2 * _LONGEST_NUMBER)
_NON_LETTERS: Final = re.compile(r"[\W_]+")
# Spaces that group the digits of one number; the groups are not words of their own.
_JOINED_DIGITS: Final = re.compile(r"(?<=\d)[\xa0\u2007\u2009\u202f](?=\d)")
# `2 500` may be one number or two, with any kind of space.
_SPACES: Final = " \xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_THOUSANDS: Final = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)")
# `1.200` may be 1200 and `1,200` may be 1.2, so neither counts as a number; `0.125`, `1200.500`,
# and `1,200.50` are unambiguous. A comma alone may also separate two numbers.
_NUMBER: Final = re.compile(
    r"[+-]?(?:\d+"
    r"|(?![1-9]\d{0,2}\.\d{3}(?!\d))\d*\.\d+"
    r"|[1-9]\d{0,2}(?:,\d{3})+\.\d+"
    r"|[1-9]\d{0,2}(?:\.\d{3})+,\d+"
    r")(?:[eE][+-]?\d{1,3})?"
)


def is_value_in(value: str | float, text: str) -> bool:
    """Whether a text contains a value as whole words; numbers are compared by value."""
    if not isinstance(value, str):
        return any(is_same_number(value, number) for number in numbers_in(text))
    return next(_positions(value, text), None) is not None


def blank_out_values(text: str, values: Iterable[Any]) -> str:
    """Return a text with some values replaced by blanks of the same length."""
    for value in map(str, values):
        for at in list(_positions(value, text)):
            text = text[:at] + " " * len(value) + text[at + len(value) :]
    return text


def _positions(value: str, text: str) -> Iterator[int]:
    """Yield the positions at which a text contains a value as whole words."""
    text = _join_digit_groups(text) if value.isdecimal() else text
    at = text.find(value) if value else -1
    while at >= 0:
        if _is_word_edge(text, at - 1, -1) and _is_word_edge(text, at + len(value), 1):
            yield at
        at = text.find(value, at + 1)


def _is_word_edge(text: str, at: int, step: int) -> bool:
    """Whether the character beside a value ends the word; `step` leads away from the value."""
    if not 0 <= at < len(text):
        return True
    beyond = text[at + step] if 0 <= at + step < len(text) else ""
    joins = text[at] in _JOINERS and beyond.isalnum()
    groups = text[at] in _DIGIT_GROUPS and beyond.isdecimal() and text[at - step].isdecimal()
    return not text[at].isalnum() and not joins and not groups


def _join_digit_groups(text: str) -> str:
    """Return a text with underscores in place of spaces between the digit groups of a number."""
    text = _JOINED_DIGITS.sub("_", text)
    return _THOUSANDS.sub(lambda match: "_".join(re.split(r"\D", match[0])), text)


def words_in(text: str) -> Iterator[str]:
    """Yield the words of a text, without surrounding punctuation."""
    return (bare for word in text.split() if (bare := word.strip(_EDGES)))


def numbers_in(text: str) -> Iterator[Decimal]:
    """Yield the exact numbers that are whole words of a text."""
    for word in _join_digit_groups(text).split():
        bare = word.rstrip(_EDGES + _SIGNS).lstrip(_BEFORE_NUMBERS)
        # Most words start with a letter, so this check comes first.
        if bare[:1] in _NUMBER_STARTS and len(bare) <= _LONGEST_NUMBER and _NUMBER.fullmatch(bare):
            yield Decimal(_decimal_text(bare))


def _decimal_text(number: str) -> str:
    """Return a number without thousands separators, and with a decimal point."""
    comma, point = number.rfind(","), number.rfind(".")
    if comma < 0:
        return number
    if comma < point:
        return number.replace(",", "")
    return number.replace(".", "").replace(",", ".")


def is_same_number(one: Any, other: Any) -> bool:
    """Whether two numbers are equal; a float from `FIRST_INEXACT_FLOAT` only equals a float."""
    if isinstance(one, float) is isinstance(other, float):
        return bool(one == other)
    written, number = (other, one) if isinstance(one, float) else (one, other)
    if abs(number) >= FIRST_INEXACT_FLOAT:
        return False
    # A fraction with more digits than a float can hold is rounded to the nearest float.
    return bool(float(written) == number if isinstance(written, Decimal) else written == number)


def normalized_value(value: str | float) -> str:
    """Return a value without its spelling: 666 for `"0666"`, `666.0`, and `"#666 "`."""
    text = unicodedata.normalize("NFKC", str(value))
    numbers = list(numbers_in(text)) if len(text.split()) == 1 else []
    if numbers:
        return f"{numbers[0].normalize(_EXACT):f}"
    return _NON_LETTERS.sub("", text.casefold())
