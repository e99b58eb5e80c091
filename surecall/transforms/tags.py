"""Tool calls written as `<tool_call>…</tool_call>` text, read by structure and in linear time.

The payload is read first and the closing tag looked for after it, so an argument may hold the
closing tag, backticks or anything else. What cannot be read as a call stays text. Code, whether
fenced, inline or escaped with a backslash, is never a call.
"""

import json

from surecall.types import JSON

OPEN, CLOSE = "<tool_call>", "</tool_call>"
# A payload that does not end makes the JSON reader run to the end of the text; many of them
# would make it quadratic. That many failed payloads are looked at, the rest stays text.
MAX_FAILURES = 32

_DECODER = json.JSONDecoder(strict=False)
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


def read_tags(content: str) -> tuple[str, list[JSON]]:
    """Return the text without the calls, and the calls in raw form."""
    if OPEN not in content:
        return content, []
    kept: list[str] = []
    calls: list[JSON] = []
    position = failures = 0
    for start in _Openers(content):
        if start < position:
            continue  # inside the payload of the call before
        if content[start - 1 : start] == "\\":
            kept += [content[position : start - 1], "&lt;"]
            position = start + 1
            continue
        found = _read_payload(content, start + len(OPEN)) if failures < MAX_FAILURES else None
        if found is None:
            failures += 1
            continue
        call, end = found
        kept.append(content[position:start])
        calls.append(call)
        position = end
    kept.append(content[position:])
    return "".join(kept), calls


class _Openers:
    """The places of opening tags that do not stand in code."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __iter__(self) -> "_Openers":
        self._at = 0
        self._unclosed = len(self._text) + 1
        return self

    def __next__(self) -> int:
        text = self._text
        while (start := text.find(OPEN, self._at)) >= 0:
            tick = text.find("`", self._at, start)
            if tick < 0:
                self._at = start + len(OPEN)
                return start
            self._at = self._after_code(tick)
        raise StopIteration

    def _after_code(self, tick: int) -> int:
        """Return the place after a code span; after its ticks, when it is never closed."""
        end = tick
        while self._text[end : end + 1] == "`":
            end += 1
        width = end - tick
        if width >= self._unclosed:
            return end
        close = self._text.find("`" * width, end)
        if close < 0:
            self._unclosed = width
            return end
        return close + width


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
    while text[end : end + 1] in _NAME_CHARS and end < len(text):
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
