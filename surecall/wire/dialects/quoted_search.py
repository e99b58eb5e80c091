"""Finds calls of one tool in text that the model did not write.

Here it only matters whether the text contains the call, so quotation marks, fences, and sentences
are ignored. Calls are parsed at each mark, at each object, and after each mention of the name.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from surecall.parsing.quotations import SOURCE_BOUNDARY, name_pattern
from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.call_bodies import (
    calls_from_value,
    parse_call_behind_name,
    parse_section,
    parse_tool_tag,
)
from surecall.wire.dialects.call_values import parse_value
from surecall.wire.dialects.marks import MarkScanner, marks_to_find
from surecall.wire.dialects.named_calls import (
    harmony_header_at,
    is_addressed_to_tool,
    parse_harmony_call,
)
from surecall.wire.dialects.text_source import INITIAL_FUEL, NotACall, RecoveredCall, TextSource

_NON_CALL_KINDS = frozenset({"think", "thought", "final", "answer", "code"})
_ATTEMPT_COST = 1_000
# Words that may separate a tool name and its arguments, besides marks and digits.
_WORDS_BEFORE_ARGUMENTS = (
    *("arguments", "argument", "args", "arg", "parameters", "parameter", "input", "action", "type"),
    *("tool", "call", "function", "begin", "json", "code", "constrain", "message", "channel"),
    *("commentary", "sep", "string", "kwargs"),
)
# The end of a sentence or a source may not separate them.
_GAP = (
    r"(?:(?![.!?]\s)[^A-Za-z("
    rf"{{{SOURCE_BOUNDARY[0]}]|{'|'.join(_WORDS_BEFORE_ARGUMENTS)}){{0,100}}+(?=[({{])"
)
# Only calls have these between a name and its arguments.
_CALL_GAP = re.compile(r"[A-Za-z]|<\|")

_FIELD = re.compile(r"[ \t]+([\w-]+):[ \t]*(.*)\n?")
_FIELDS = (
    r"[\"']?[ \t]*\n[ \t-]*(?:arguments|parameters|args|input):[ \t]*\n"
    rf"(?P<fields>(?:{_FIELD.pattern})+)"
)


def quoted_calls(texts: Iterable[str], tool: ToolSpec) -> Iterator[tuple[Any, bool]]:
    """Yield the arguments of possible calls of a tool until the fuel is used up.

    Each comes with whether its form is only that of a call, as opposed to `search("x")`.
    """
    fuel = INITIAL_FUEL
    for text in texts:
        source = TextSource(text, [tool], fuel)
        yield from _iter_arguments(source, tool)
        fuel = min(fuel, source.fuel)


def _iter_arguments(source: TextSource, tool: ToolSpec) -> Iterator[tuple[Any, bool]]:
    """Yield the arguments of possible calls, each with whether its form is only that of a call."""
    text = source.text
    for place, opener in _iter_marks(text, tool.name):
        yield from _arguments_at(source, place, opener)
    place = text.find("{")
    while place >= 0:
        yield from _arguments_at(source, place, None)
        place = text.find("{", place + 1)
    for match in name_pattern(tool.name, _GAP).finditer(text):
        source.spend_fuel(_ATTEMPT_COST)
        try:
            value = parse_value(source, match.end()).arguments
        except NotACall:
            continue
        gap = match[0][len(tool.name) :]
        yield [*value] if isinstance(value, tuple) else value, bool(_CALL_GAP.search(gap))
    for match in name_pattern(tool.name, _FIELDS).finditer(text):
        yield dict(_iter_yaml_fields(source, match)), True


def _iter_yaml_fields(source: TextSource, match: re.Match[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields after a name, one per line as in YAML."""
    for field in _FIELD.finditer(source.text, match.start("fields"), match.end("fields")):
        source.spend_fuel(_ATTEMPT_COST)
        try:
            yield field[1], parse_value(source, field.start(2)).arguments
        except NotACall:
            yield field[1], field[2]


def _iter_marks(text: str, name: str) -> Iterator[tuple[int, spelling.Opener]]:
    """Yield the marks that may begin a call, each after its position."""
    marks = MarkScanner(
        text,
        (mark for mark in marks_to_find([name], weak=True) if mark.kind not in _NON_CALL_KINDS),
    )
    found = marks.next_mark(0)
    while found:
        if found[1].kind not in _NON_CALL_KINDS:
            yield found
        found = marks.next_mark(found[0] + 1)


def _arguments_at(
    source: TextSource, place: int, opener: spelling.Opener | None
) -> Iterator[tuple[Any, bool]]:
    """Yield the arguments of the calls at `place`, and that their form is only that of a call."""
    source.spend_fuel(_ATTEMPT_COST)
    try:
        calls = _parse_at(source, place, opener)
    except NotACall:
        return
    yield from ((call.arguments, True) for call in calls if source.tools.find(call.name))


def _parse_at(
    source: TextSource, place: int, opener: spelling.Opener | None
) -> list[RecoveredCall]:
    """Return the calls that begin at `place`, with a mark or as bare JSON."""
    if opener is None:
        return calls_from_value(source, parse_value(source, place), place)
    match opener.kind:
        case "stripped":
            return parse_harmony_call(source, place).calls
        case "frame":
            return _parse_harmony_at(source, place)
        case "back":
            return parse_call_behind_name(source, place, opener, 0).calls
        case "tool":
            return parse_tool_tag(source, place, opener.stem[1:-1]).calls
        case "dsml":
            place = max(0, source.text.rfind("<", 0, place))
        case _:
            pass
    return _parse_section_at(source, place, opener)


def _parse_harmony_at(source: TextSource, place: int) -> list[RecoveredCall]:
    frame = harmony_header_at(source, place)
    if frame is None or not is_addressed_to_tool(source, frame):
        return []
    return parse_harmony_call(source, place).calls


def _parse_section_at(
    source: TextSource, place: int, opener: spelling.Opener
) -> list[RecoveredCall]:
    try:
        return parse_section(source, place).calls
    except NotACall:
        if opener.row != "A7":
            raise
        return parse_call_behind_name(source, place, opener, 0).calls
