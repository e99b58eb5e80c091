"""Tool calls written as `<tool_call>…</tool_call>` text, read by structure and in linear time.

The payload is read first and the closing tag looked for after it, so an argument may hold the
closing tag, backticks or anything else. What cannot be read as a call stays text. Code, whether
fenced, inline or escaped with a backslash, is never a call.
"""

import json

from surecall.values.types import JSON

OPEN, CLOSE = "<tool_call>", "</tool_call>"
# A payload that does not end makes the JSON reader run to the end of the text; many of them
# would make it quadratic. That many failed payloads are looked at, the rest stays text.
MAX_FAILURES = 32
FENCE = 3

_DECODER = json.JSONDecoder(strict=False)
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


def read_tags(content: str) -> tuple[str, list[JSON]]:
    """Return the text without the calls, and the calls in raw form."""
    kept: list[str] = []
    calls: list[JSON] = []
    openers = _Openers(content)
    copied = at = failures = 0
    while (start := openers.after(at)) >= 0:
        at = start + len(OPEN)
        if content[start - 1 : start] == "\\":
            kept += [content[copied : start - 1], "&lt;"]
            copied = start + 1
            continue
        found = _read_payload(content, at) if failures < MAX_FAILURES else None
        if found is None:
            failures += 1
            continue
        call, at = found
        kept.append(content[copied:start])
        calls.append(call)
        copied = at
    kept.append(content[copied:])
    return "".join(kept), calls


class _Openers:
    """Finds opening tags that do not stand in code, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = text.find(OPEN)
        self._code = _code_ends(text) if self._next >= 0 else {}

    def after(self, at: int) -> int:
        """Return the place of the next one, -1 when there is none."""
        while (start := self._seek(at)) >= 0:
            tick = self._text.find("`", at, start)
            if tick < 0:
                return start
            at = self._code[tick]
        return -1

    def _seek(self, at: int) -> int:
        # Kept from one code span to the next: searching anew each time would be quadratic.
        if 0 <= self._next < at:
            self._next = self._text.find(OPEN, at)
        return self._next


def _code_ends(text: str) -> dict[int, int]:
    """Tell for each run of backticks where the code that it opens ends.

    Inline code ends with exactly as many ticks, a fence with at least as many. A run that
    nothing closes opens no code: only the run itself is passed over.
    """
    ends: dict[int, int] = {}
    same: dict[int, int] = {}
    wider: list[tuple[int, int]] = []
    for start, end in reversed(_tick_runs(text)):
        width = end - start
        while wider and wider[-1][0] < width:
            wider.pop()
        fence_end = wider[-1][1] if wider else end
        ends[start] = fence_end if width >= FENCE else same.get(width, end)
        same[width] = end
        wider.append((width, end))
    return ends


def _tick_runs(text: str) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    start = text.find("`")
    while start >= 0:
        end = start
        while text[end : end + 1] == "`":
            end += 1
        runs.append((start, end))
        start = text.find("`", end)
    return runs


def _read_payload(text: str, start: int) -> tuple[JSON, int] | None:
    start = _skip_blank(text, start)
    if text.startswith("{", start):
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return None
        return _closed(_from_object(value), text, end)
    return _read_named(text, start)


def _read_named(text: str, start: int) -> tuple[JSON, int] | None:
    """Read `name` or `name {json}`."""
    end = start
    while text[end : end + 1] in _NAME_CHARS:
        end += 1
    name, end = text[start:end], _skip_blank(text, end)
    if not name:
        return None
    if not text.startswith("{", end):
        return _closed(_call(name, {}), text, end)
    try:
        arguments, end = _DECODER.raw_decode(text, end)
    except (ValueError, RecursionError):
        return None
    return _closed(_call(name, arguments), text, end)


def _closed(call: JSON | None, text: str, end: int) -> tuple[JSON, int] | None:
    """Accept a payload that is followed by its closing tag, or by the end of the text."""
    end = _skip_blank(text, end)
    if call is None or (end < len(text) and not text.startswith(CLOSE, end)):
        return None
    return call, min(end + len(CLOSE), len(text))


def _from_object(value: JSON) -> JSON | None:
    function = value.get("function")
    if isinstance(function, dict):
        value = function
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        return None
    for key in ("arguments", "args", "parameters"):
        if key in value:
            return _call(name, value[key])
    return _call(name, {})


def _call(name: str, arguments: object) -> JSON:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _skip_blank(text: str, start: int) -> int:
    while text[start : start + 1].isspace():
        start += 1
    return start
