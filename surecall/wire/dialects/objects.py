"""Grammar A: JSON that says which tool to call, one object or several."""

from typing import Any

from surecall.values.types import JSON
from surecall.wire.dialects import spelling
from surecall.wire.dialects.found import Found, NotACall
from surecall.wire.dialects.source import MAX_NAME, Source, is_name, shape_of
from surecall.wire.dialects.values import ESCAPED, Value, decoded, read_value


def read_objects(source: Source, at: int) -> tuple[list[Found], int]:
    """Read one object, a list of them, or several in a row; a bad one ends the row."""
    calls: list[Found] = []
    at = at if source.at(ESCAPED, at) else source.past("[", at)
    while source.at(("{", *ESCAPED), at):
        try:
            calls += calls_of(source, read_value(source, at), at)
        except NotACall:
            if not calls:
                raise
            break
        at = source.past(",;", calls[-1].end)
    if not calls:
        raise NotACall("no object follows", at)
    return calls, _after_brackets(source, calls[-1].end)


def _after_brackets(source: Source, at: int) -> int:
    """Pass over closing brackets, also those that are one too many before a closing tag."""
    text, end = source.text, at
    while end < len(text) and text[end] in "}], \n":
        end += 1
    tail = text[at:end]
    if end == len(text) or source.at(spelling.CLOSERS, end) or "\n" in tail:
        return at + len(tail.rstrip())
    return end - len(tail.lstrip(" ]"))


def calls_of(source: Source, value: Value, start: int) -> list[Found]:
    """Turn one value into its calls, or say why it is none."""
    found = _calls(source, value.value)
    closed_for_it = not value.cut and source.text[value.end - 1] not in '}]"'
    if not found or (closed_for_it and found[0][1] is None):
        raise NotACall("the object names no tool and its arguments", value.end)
    return [
        Found(
            name,
            value.twice or decoded(arguments),
            start,
            value.end,
            call_id,
            value.cut,
            mended=value.mended,
        )
        for name, arguments, call_id in found
    ]


def _calls(source: Source, value: Any) -> list[tuple[str, Any, str | None]]:
    """List (name, arguments, id) of a call object, however its keys are called."""
    if isinstance(value, list):
        return [call for item in value for call in _calls(source, item)]
    if not isinstance(value, dict):
        return []
    for key in spelling.LIST_KEYS:
        if isinstance(value.get(key), list):
            return _calls(source, value[key])
    call_id = next(
        (value[key] for key in spelling.ID_KEYS if isinstance(value.get(key), str)), None
    )
    inner = value.get("function")
    value = inner if isinstance(inner, dict) else value
    if _is_definition(source, value):
        raise NotACall("it defines a tool", 0, meant=True)
    found = _named(source, value) or _mapped(source, value)
    return [(*found, call_id)] if found else []


def _named(source: Source, value: JSON) -> tuple[str, Any] | None:
    for key in (*spelling.NAME_KEYS, "type"):
        name = value.get(key)
        if not isinstance(name, str) or not _may_name(source, name.strip()):
            continue
        fields = [field for field in spelling.ARGUMENT_KEYS if field in value]
        _check_one_meaning(source, value, key, fields)
        rest = {other: value[other] for other in value if other not in {key, *spelling.BESIDE_KEYS}}
        if key != "type" and (fields or not rest):
            return name.strip(), value[fields[0]] if fields else None
        spec = source.tools.find(name)
        if spec and rest.keys() <= shape_of(spec).properties.keys():
            return name.strip(), rest
    return None


def _check_one_meaning(source: Source, value: JSON, key: str, fields: list[str]) -> None:
    """Refuse a call that names two tools, or has arguments in two places."""
    names = {value[other] for other in spelling.NAME_KEYS if isinstance(value.get(other), str)}
    known = {spec.name for name in names if (spec := source.tools.find(name))}
    spec = source.tools.find(value[key])
    beside = shape_of(spec).properties.keys() & (value.keys() - {key, *fields[:1]})
    twice = any(value[field] != value[fields[0]] for field in fields)
    if len(known) > 1 or twice or (fields and beside - {*spelling.BESIDE_KEYS}):
        raise NotACall("the object says two things", 0)


def _is_definition(source: Source, value: JSON) -> bool:
    """Whether this describes a tool: its parameters are a schema, not arguments."""
    schema, name = value.get("parameters"), value.get("name")
    if not isinstance(schema, dict) or schema.get("type") != "object" or "arguments" in value:
        return False
    spec = source.tools.find(name) if isinstance(name, str) else None
    return not schema.keys() <= shape_of(spec).properties.keys()


def _may_name(source: Source, name: str) -> bool:
    """Whether this is like a name, or is another spelling of one."""
    return is_name(name) or (len(name) <= MAX_NAME and source.tools.find(name) is not None)


def _mapped(source: Source, value: JSON) -> tuple[str, Any] | None:
    """Read `{"tool": {...}}`, where the only key is the name of a tool."""
    name, arguments = next(iter(value.items()), ("", None))
    sole = len(value) == 1 and isinstance(arguments, dict)
    return (name, arguments) if sole and source.tools.find(name) else None
