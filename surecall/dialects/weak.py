"""Calls without a mark of their own: naked JSON, `f{...}`, `[f(...)]`, tags named like tools.

They are believed only of a tool that exists, with arguments that are complete, on a line of their
own. What looks like one and is none stays what it was: an example, or an answer in JSON.
"""

from surecall.dialects.children import read_children
from surecall.dialects.found import Draft, NotACall, Section
from surecall.dialects.grammar_a import drafts
from surecall.dialects.grammar_b import known, read_named
from surecall.dialects.grammar_d import is_call, read_calls
from surecall.dialects.source import Source
from surecall.dialects.values import read_value
from surecall.types import JSON

_NAMED_ROWS = {"call:": "B10", "functions.": "B3"}


def may_begin(source: Source, at: int) -> bool:
    """Whether something without a mark may begin here; a quick look."""
    text = source.text
    mark = text[at : at + 1]
    if mark in ("{", "["):
        return True
    if not (mark.isalnum() or mark == "_"):
        return False
    end = at + len(source.name(at))
    return text.startswith(("{", "({"), end) or text.startswith("{", source.blanks(end))


def read_unmarked(source: Source, at: int) -> Section:
    """Read the call that begins here without any opener."""
    text = source.text
    if text.startswith("[", at) and is_call(source, source.blanks(at + 1)):
        calls, end = read_calls(source, at)
        if text[end - 1] != "]":
            raise NotACall("the list of calls does not end", end)
        return section(source, "D1", calls, end, at)
    if text.startswith(("{", "["), at):
        return _read_naked(source, at)
    return _read_named(source, at)


def read_tool_tag(source: Source, at: int, name: str) -> Section:
    """Read `<tool><key>value</key></tool>`."""
    closing, end, cut = f"</{name}>", at + len(name) + 2, False
    values: JSON = {}
    if not source.text.startswith(closing, source.blanks(end)):
        values, end, cut = read_children(source, end, "", source.tools.specs[name])
    after = source.blanks(end)
    if not source.text.startswith(closing, after):
        raise NotACall("the tag is not closed", after)
    end = after + len(closing)
    return section(source, "C13", [Draft(name, values, at, end, None, cut)], end, at)


def section(source: Source, row: str, calls: list[Draft], end: int, body: int) -> Section:
    """Accept calls of known tools with complete arguments that end their line."""
    for call in calls:
        if source.tools.find(call.name) is None:
            raise NotACall(f"no tool is called {call.name[:40]!r}", end)
        if call.truncated:
            raise NotACall("the call is cut off", end)
    return Section(row=row, calls=tuple(calls), end=end, body=body, plain=True)


def _read_naked(source: Source, at: int) -> Section:
    value = read_value(source, at)
    calls, end = drafts(source, value, at), value.end
    listed = isinstance(value.value, list)
    if listed and len(calls) < len(value.value):
        raise NotACall("not every object of the list is a call", end)
    return section(source, "A19" if listed else _naked_row(value.value), calls, end, at)


def _naked_row(value: JSON) -> str:
    inner = value.get("function")
    return "A18" if isinstance(inner, dict) and "_name" in inner else "A17"


def _read_named(source: Source, at: int) -> Section:
    asked = source.name(at)
    prefix = next((prefix for prefix in _NAMED_ROWS if asked.startswith(prefix)), "")
    if known(source.tools, asked.removeprefix(prefix)) is None:
        raise NotACall(f"no tool is called {asked[:40]!r}", at + len(asked))
    row = _NAMED_ROWS.get(prefix, "B10" if source.find('<|"|>', at) >= 0 else "A17")
    call, _ = read_named(source, at, row)
    return section(source, "B11" if row == "A17" else row, [call], call.end, at)
