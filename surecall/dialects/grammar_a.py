"""Grammar A: JSON that says which tool to call, one object or several."""

from typing import Any

from surecall.dialects.found import Draft, NotACall
from surecall.dialects.source import Source, is_name, properties
from surecall.dialects.spelling import CLOSERS
from surecall.dialects.values import Value, decoded, read_value
from surecall.types import JSON

_NAMES = ("name", "tool_name", "function", "tool", "call", "_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")
_IDS = ("id", "tool_call_id", "call_id")
_LISTS = ("tool_calls", "toolCalls", "calls")
# What may stand beside a name that has no arguments.
_BESIDE = frozenset({*_IDS, "type", "index"})


def read_objects(source: Source, at: int) -> tuple[list[Draft], int]:
    """Read one object, a list of them, or several in a row; a bad one ends the row."""
    text, calls, end = source.text, [], at
    at = source.blanks(at)
    while text.startswith("[", at):
        at = source.blanks(at + 1)
    while text.startswith("{", at):
        try:
            value = read_value(source, at)
            calls += drafts(source, value, at)
        except NotACall:
            if not calls:
                raise
            break
        end = at = value.end
        at = _after_separators(source, at)
    if not calls:
        raise NotACall("no object follows", at)
    return calls, _after_brackets(source, end)


def drafts(source: Source, value: Value, start: int) -> list[Draft]:
    """Turn one value into its calls, or say why it is none."""
    found = _calls(source, value.value)
    closed_for_it = not value.cut and source.text[value.end - 1] != "}"
    if not found or (closed_for_it and found[0][1] is None):
        raise NotACall("the object names no tool and its arguments", value.end)
    return [
        Draft(
            name=name,
            # Whatever the model meant by a key that comes twice is for the model to say.
            arguments=source.text[start : value.end] if value.twice else decoded(arguments),
            start=start,
            end=value.end,
            id=call_id,
            truncated=value.cut,
        )
        for name, arguments, call_id in found
    ]


def _calls(source: Source, value: Any) -> list[tuple[str, Any, str | None]]:
    """List (name, arguments, id) of a call object, however its keys are called."""
    if isinstance(value, list):
        return [call for item in value for call in _calls(source, item)]
    if not isinstance(value, dict):
        return []
    for key in _LISTS:
        if isinstance(value.get(key), list):
            return _calls(source, value[key])
    call_id = next((value[key] for key in _IDS if isinstance(value.get(key), str)), None)
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    found = _named(source, value) or _mapped(source, value)
    return [(*found, call_id)] if found else []


def _named(source: Source, value: JSON) -> tuple[str, Any] | None:
    for key in (*_NAMES, "type"):
        name = value.get(key)
        if not isinstance(name, str) or not is_name(name.strip()):
            continue
        for field in _ARGUMENTS:
            if field in value and key != "type":
                return name.strip(), value[field]
        rest = {other: value[other] for other in value if other not in {key, *_BESIDE}}
        if not rest and key != "type":
            return name.strip(), None
        spec = source.tools.find(name)
        if spec and rest.keys() <= properties(spec).keys():
            return name.strip(), rest
    return None


def _mapped(source: Source, value: JSON) -> tuple[str, Any] | None:
    """Read `{"tool": {...}}`, where the only key is the name of a tool."""
    if len(value) != 1:
        return None
    ((name, arguments),) = value.items()
    return (name, arguments) if isinstance(arguments, dict) and source.tools.find(name) else None


def _after_separators(source: Source, at: int) -> int:
    at = source.blanks(at)
    while source.text[at : at + 1] in (",", ";"):
        at = source.blanks(at + 1)
    return at


def _after_brackets(source: Source, at: int) -> int:
    """Pass over closing brackets, also those that are one too many before a closing tag."""
    end = at
    while source.text[end : end + 1] in ("}", "]", ",", " ", "\n"):
        end += 1
    tail = source.text[at:end]
    if end == len(source.text) or source.text.startswith(CLOSERS, end) or "\n" in tail:
        return at + len(tail.rstrip())
    return at + len(tail) - len(tail.lstrip(" ]"))
