"""Parses call bodies: a JSON object, a list of calls, a name with an object, or Python."""

from typing import Any

import msgspec

from surecall.values.types import JSON
from surecall.wire.dialects import spelling
from surecall.wire.dialects.call_values import ESCAPED, CallValue, decode_arguments, parse_value
from surecall.wire.dialects.named_calls import (
    is_python_call,
    parse_named_call,
    parse_python_calls,
    skip_fence,
)
from surecall.wire.dialects.segments import starts_line
from surecall.wire.dialects.tagged_calls import (
    CHILD_ENDS,
    ParameterParser,
    call_tag_at,
    child_tag_at,
    dsml_prefix,
    parameter_style_at,
    parse_children,
    parse_tagged_call,
    skip_lead,
)
from surecall.wire.dialects.text_source import (
    MAX_NAME,
    CallSection,
    NotACall,
    RecoveredCall,
    TextSource,
    is_name,
    tool_shape,
    unknown_tool,
)

# Grammar A: one or several JSON objects that name the tool to call.


def parse_objects(source: TextSource, at: int) -> tuple[list[RecoveredCall], int]:
    """Parse one object, a list, or several in sequence; stop at a malformed one."""
    calls: list[RecoveredCall] = []
    at = at if source.starts_with(ESCAPED, at) else source.skip_chars("[", at)
    while source.starts_with(("{", *ESCAPED), at):
        try:
            calls += calls_from_value(source, parse_value(source, at), at)
        except NotACall:
            if not calls:
                raise
            break
        at = source.skip_chars(",;", calls[-1].end)
    if not calls:
        raise NotACall("no object follows", at)
    return calls, _skip_brackets(source, calls[-1].end)


def _skip_brackets(source: TextSource, at: int) -> int:
    """Skip closing brackets, including extra ones before a closing tag."""
    text, end = source.text, at
    while end < len(text) and text[end] in "}], \n":
        end += 1
    tail = text[at:end]
    if end == len(text) or source.starts_with(spelling.CLOSERS, end) or "\n" in tail:
        return at + len(tail.rstrip())
    return end - len(tail.lstrip(" ]"))


def calls_from_value(source: TextSource, value: CallValue, start: int) -> list[RecoveredCall]:
    """Return the calls in a value; raise `NotACall` if there are none."""
    found = _call_tuples(source, value.value)
    is_unclosed = not value.is_truncated and source.text[value.end - 1] not in '}]"'
    if not found or (is_unclosed and found[0][1] is None):
        raise NotACall("the object does not name a tool and its arguments", value.end)
    return [
        RecoveredCall(
            _without_namespace(source, name),
            value.ambiguous_text or decode_arguments(arguments),
            start,
            value.end,
            call_id,
            value.is_truncated,
            was_repaired=value.was_repaired,
            value_ends=value.value_ends,
        )
        for name, arguments, call_id in found
    ]


def _without_namespace(source: TextSource, name: str) -> str:
    """Return the name of the tool if `name` has a namespace before a colon."""
    spec = source.tools.find(name) if ":" in name else None
    return spec.name if spec else name


def _call_tuples(source: TextSource, value: Any) -> list[tuple[str, Any, str | None]]:
    """Return (name, arguments, id) of each call in a value, under any known keys."""
    if isinstance(value, list):
        return [call for item in value for call in _call_tuples(source, item)]
    if not isinstance(value, dict):
        return []
    for key in spelling.LIST_KEYS:
        if isinstance(value.get(key), list):
            return _call_tuples(source, value[key])
    call_id = next(
        (value[key] for key in spelling.ID_KEYS if isinstance(value.get(key), str)), None
    )
    inner = value.get("function")
    value = inner if isinstance(inner, dict) else value
    if _is_tool_definition(source, value):
        raise NotACall("it is a tool definition", 0, has_other_meaning=True)
    found = _call_with_name_key(source, value) or _call_keyed_by_tool(source, value)
    return [(*found, call_id)] if found else []


def _call_with_name_key(source: TextSource, value: JSON) -> tuple[str, Any] | None:
    """Return name and arguments of a call that names its tool under a key, if it is one."""
    for key in (*spelling.NAME_KEYS, "type"):
        name = value.get(key)
        if not isinstance(name, str) or not _may_be_tool_name(source, name.strip()):
            continue
        fields = [field for field in spelling.ARGUMENT_KEYS if field in value]
        _require_one_meaning(source, value, key, fields)
        rest = {
            other: value[other] for other in value if other not in {key, *spelling.METADATA_KEYS}
        }
        if key != "type" and (fields or not rest):
            return name.strip(), value[fields[0]] if fields else None
        spec = source.tools.find(name)
        if spec and rest.keys() <= tool_shape(spec).properties.keys():
            return name.strip(), rest
    return None


def _require_one_meaning(source: TextSource, value: JSON, key: str, fields: list[str]) -> None:
    """Reject a call that names two tools or has arguments in two places."""
    names = {value[other] for other in spelling.NAME_KEYS if isinstance(value.get(other), str)}
    known = {spec.name for name in names if (spec := source.tools.find(name))}
    spec = source.tools.find(value[key])
    beside = tool_shape(spec).properties.keys() & (value.keys() - {key, *fields[:1]})
    twice = any(value[field] != value[fields[0]] for field in fields)
    if len(known) > 1 or twice or (fields and beside - {*spelling.METADATA_KEYS}):
        raise NotACall("the object is ambiguous", 0)


def _is_tool_definition(source: TextSource, value: JSON) -> bool:
    """Whether an object is a tool definition, with a schema as its parameters."""
    schema, name = value.get("parameters"), value.get("name")
    if not isinstance(schema, dict) or schema.get("type") != "object" or "arguments" in value:
        return False
    spec = source.tools.find(name) if isinstance(name, str) else None
    return not schema.keys() <= tool_shape(spec).properties.keys()


def _may_be_tool_name(source: TextSource, name: str) -> bool:
    """Whether this looks like a name or is another spelling of a tool name."""
    return is_name(name) or (len(name) <= MAX_NAME and source.tools.find(name) is not None)


def _call_keyed_by_tool(source: TextSource, value: JSON) -> tuple[str, Any] | None:
    """Parse `{"tool": {...}}`, where the only key is a tool name."""
    name, arguments = next(iter(value.items()), ("", None))
    sole = len(value) == 1 and isinstance(arguments, dict)
    return (name, arguments) if sole and source.tools.find(name) else None


# From an opener to its calls: skip the envelopes; the body determines the grammar.

_MAX_TAG = 200
# Without a limit, a long row of openers would take quadratic time.
_MAX_ENVELOPES = 8
_WRAP_OPENERS = {opener.stem: opener for opener in spelling.OPENERS if opener.kind == "wrap"}
_WRAP_STEMS = tuple(_WRAP_OPENERS)
_QUOTES = ('"', "'")
LABELED_FENCES = tuple(f"```{label}" for label in spelling.FENCE_LABELS)


class Envelope(msgspec.Struct):
    """The envelopes around a body: the row of the outermost, and the data of its tag."""

    start: int
    end: int
    row: str = ""
    id: str | None = None
    tool_name: str = ""
    has_lead: bool = False


def _parse_envelope(source: TextSource, at: int) -> Envelope:
    envelope = Envelope(at, at)
    for _ in range(_MAX_ENVELOPES):
        opener = _WRAP_OPENERS.get(source.mark_at(_WRAP_STEMS, envelope.end))
        row = (
            _enter_opener(source, envelope, opener) if opener else _enter_dsml_tag(source, envelope)
        )
        if not row:
            break
        envelope.has_lead = envelope.has_lead or row == "C12"
        envelope.row = envelope.row if envelope.row not in ("", "C12") else row
        envelope.end = source.skip_blanks(envelope.end)
    return envelope


def _enter_opener(source: TextSource, envelope: Envelope, opener: spelling.Opener) -> str:
    """Skip one opening mark and return its row; empty if it is an unknown tag."""
    at, stem = envelope.end, opener.stem
    if stem[0] == "<" and stem[-1] != ">":
        end = source.text.find(">", at, at + _MAX_TAG)
        name, _, attributes = source.text[at + 1 : max(at, end)].partition(" ")
        row = spelling.TAG_NAMES.get(name.partition(":")[0], "")
        if end < 0 or "<" in attributes or not row:
            return ""
        _, named, value = attributes.partition("id=")
        _, _, asked = attributes.partition("name=")
        envelope.end = end + 1
        envelope.id = value.strip("\"' ") if named else envelope.id
        envelope.tool_name = asked[1:].partition(asked[:1])[0] if asked[:1] in _QUOTES else ""
        return row
    envelope.end = at + len(stem) - opener.body_chars
    if stem == "<|message_model|>":
        # The object repeats the name that follows.
        envelope.end += len(source.name_at(envelope.end))
    return opener.row


def _enter_dsml_tag(source: TextSource, envelope: Envelope) -> str:
    """Skip a DSML tag around the body and return its row; empty if there is none."""
    at = envelope.end
    end = source.text.find(">", at, at + _MAX_TAG)
    is_tag = source.starts_with("<", at) and dsml_prefix(source.text, at) != spelling.DSML
    if end < 0 or not is_tag or call_tag_at(source, at):
        return ""
    envelope.end = end + 1
    return "C5"


def parse_section(source: TextSource, at: int) -> CallSection:
    """Parse the calls that begin with the envelope or tag at `at`."""
    envelope = _parse_envelope(source, at)
    body = source.skip_blanks(skip_fence(source, envelope.end))
    fenced = body > envelope.end or envelope.row == "D6"
    if body == at and call_tag_at(source, at) is None:
        raise NotACall("the tag is malformed", at)
    calls, end, row = _parse_body(source, body, envelope)
    if envelope.id and len(calls) == 1:
        calls = [msgspec.structs.replace(calls[0], id=envelope.id)]
    end = skip_fence(source, end, labeled=False) if fenced else end
    return CallSection(calls, row, at, body, end)


def _parse_body(
    source: TextSource, at: int, envelope: Envelope
) -> tuple[list[RecoveredCall], int, str]:
    """Return the calls of a body, its end, and its row."""
    if call_tag_at(source, at):
        return _parse_tagged_calls(source, at, envelope)
    if source.starts_with("[", at) and is_python_call(source, source.skip_blanks(at + 1)):
        return *parse_python_calls(source, at), _body_row("python", envelope.row)
    if envelope.tool_name and (named := _parse_attributed_call(source, at, envelope)):
        return [named], named.end, _body_row("named", envelope.row)
    if source.starts_with(("{", "[", *ESCAPED), at):
        return *parse_objects(source, at), _body_row("json", envelope.row)
    if source.starts_with(("<", spelling.LEAD), at):
        call = _parse_child_call(source, at)
        return [call], call.end, "C13"
    return _parse_name_body(source, at, envelope.row)


def _parse_attributed_call(source: TextSource, at: int, envelope: Envelope) -> RecoveredCall | None:
    """Parse a call whose envelope names the tool."""
    spec = source.tools.find(envelope.tool_name)
    style = parameter_style_at(source, at)
    if spec is None or not (style or source.starts_with("{", at)):
        return None
    if style:
        values, end, cut = ParameterParser(source, style, spec).parse(at)
        ends = style.value_ends
        return RecoveredCall(spec.name, values, envelope.start, end, None, cut, value_ends=ends)
    value = parse_value(source, at)
    return RecoveredCall(
        spec.name,
        value.arguments,
        envelope.start,
        value.end,
        None,
        value.is_truncated,
        value_ends=value.value_ends,
    )


def _parse_tagged_calls(
    source: TextSource, at: int, envelope: Envelope
) -> tuple[list[RecoveredCall], int, str]:
    """Return tagged calls up to a malformed one, their end, and their row."""
    calls: list[RecoveredCall] = []
    row = ""
    while head := call_tag_at(source, at):
        try:
            call, made_of = parse_tagged_call(source, *head, at)
        except NotACall:
            if not calls:
                raise
            break
        calls.append(call)
        row = row or _tagged_row(envelope, head[0].row, made_of)
        at = skip_lead(source, call.end)
    return calls, calls[-1].end, row


def _parse_name_body(source: TextSource, at: int, row: str) -> tuple[list[RecoveredCall], int, str]:
    """Return the calls, end, and row of a body that begins with a name.

    Parameters, Python, or a header with an object may follow the name.
    """
    name = source.name_at(at)
    after = source.skip_blanks(at + len(name))
    style = parameter_style_at(source, after) if name else None
    if style:
        spec = source.tools.find(name)
        if spec is None and source.starts_with("</arg_key", after):
            # Without the opening mark of its first key, a name and a key run together.
            spec, after = source.tools.find_with_key(name), at
            after += len(spec.name) if spec else 0
        if spec is None and not source.starts_with(("<arg_key", "<tool_sep"), after):
            raise unknown_tool(name, after)
        values, end, cut = ParameterParser(source, style, spec).parse(after)
        row = "C10" if source.starts_with("<tool_sep", after) else _body_row("keys", row)
        row = row if style.row == "C9" else style.row
        ends = style.value_ends
        found = RecoveredCall(
            spec.name if spec else name, values, at, end, None, cut, value_ends=ends
        )
        return [found], end, row
    if row in spelling.PYTHON_ROWS and is_python_call(source, at):
        return *parse_python_calls(source, at), _body_row("python", row)
    call, header = parse_named_call(source, at, row)
    empty = not call.arguments and header.end == call.end
    row = _body_row("keys" if empty and row in ("A1", "A5") else "named", row)
    return [call], call.end, "B1" if row == "B2" and header.has_type_word else row


def _parse_child_call(source: TextSource, at: int) -> RecoveredCall:
    """Parse `<name>f</name>` and its arguments: one object, or a tag for each."""
    tag = child_tag_at(source, at)
    if tag is None or tag.name not in spelling.NAME_KEYS:
        raise NotACall("what follows is not a call", at)
    closing = f"</{tag.name}>"
    stop = source.text.find(closing, tag.content_start, tag.content_start + _MAX_TAG)
    asked = source.text[tag.content_start : max(stop, tag.content_start)].strip()
    spec = source.tools.find(asked)
    if spec is None:
        raise unknown_tool(asked, tag.content_start)
    style = parameter_style_at(source, source.skip_blanks(stop + len(closing)))
    if style:
        values, end, cut = ParameterParser(source, style, spec).parse(stop + len(closing))
        ends = style.value_ends
        return RecoveredCall(spec.name, values, at, end, None, cut, value_ends=ends)
    values, end, cut = parse_children(source, stop + len(closing), tag.lead, tool_shape(spec))
    whole = next((values[key] for key in spelling.ARGUMENT_KEYS if set(values) == {key}), values)
    arguments = decode_arguments(whole)
    return RecoveredCall(spec.name, arguments, at, end, None, cut, value_ends=CHILD_ENDS)


def _body_row(kind: str, row: str) -> str:
    """Return the row of a body of some kind in an envelope of a row."""
    return spelling.ROWS[kind].get(row, spelling.DEFAULT_ROWS.get(kind, row))


def _tagged_row(envelope: Envelope, style: str, made_of: str) -> str:
    """Return the id of the dialect row, such as "C3", by the tags, the body, and the envelope."""
    if made_of == "tags" or envelope.has_lead:
        return "C12"
    if style == "C1":
        return _body_row("function json" if made_of == "json" else "function", envelope.row)
    return "C3" if style == "C4" and envelope.row == "C3" else style


# Calls without a mark, or with one after the name.


def parse_call_behind_name(
    source: TextSource, place: int, opener: spelling.Opener, floor: int
) -> CallSection:
    """Parse a call of a known tool whose name precedes its opener."""
    floor = max(floor, place - MAX_NAME)
    before = source.text[floor:place].rstrip().removesuffix("</parameter>").rstrip()
    stop = floor + len(before)
    start = source.name_start(stop, floor)
    spec = source.tools.find(source.text[start:stop]) if start < stop else None
    if spec is None:
        raise NotACall("no tool is named before it", place)
    if opener.row == "B13" and not source.starts_with(
        "{", source.skip_blanks(place + len(opener.stem))
    ):
        raise NotACall("its input is not an object", place, tool=spec.name)
    if opener.row == "A7":
        value = parse_value(source, source.skip_blanks(place + len(opener.stem)))
        arguments = value.value if value.ambiguous_text is None else source.text[start : value.end]
        call = RecoveredCall(
            spec.name,
            arguments,
            start,
            value.end,
            None,
            value.is_truncated,
            value_ends=value.value_ends,
        )
        calls = [call]
        end, row = value.end, "B4"
    else:
        calls, end, row = _parse_name_body(source, start, opener.row)
    mangled = start - len("<name>")
    start = mangled if mangled >= floor and source.starts_with("<name>", mangled) else start
    if opener.row == "B13":
        start = source.text.rfind(spelling.REACT_MARKS[0], floor, start)
        if start < 0 or not starts_line(source.text, start) or not starts_line(source.text, place):
            raise NotACall("the lines of an action are not complete", place)
    return CallSection(calls, row, start, place, end)


def may_begin_call(source: TextSource, at: int) -> bool:
    """Quickly check whether a call without a mark may begin at `at`."""
    mark = source.text[at : at + 1]
    if mark == "[":
        first = source.skip_blanks(at + 1)
        return source.starts_with("{", first) or is_python_call(source, first)
    if not (mark.isalnum() or mark == "_"):
        return mark == "{" or source.starts_with(ESCAPED, at)
    end = at + len(source.name_at(at))
    return source.starts_with(("{", "({"), end) or source.starts_with("{", source.skip_blanks(end))


def parse_unmarked(source: TextSource, at: int) -> CallSection:
    """Parse the call that begins at `at` without an opener."""
    if source.starts_with("[", at) and is_python_call(source, source.skip_blanks(at + 1)):
        calls, end = parse_python_calls(source, at)
        if source.text[end - 1] != "]":
            raise NotACall("the list of calls does not end", end)
        return require_known_tools(source, CallSection(calls, "D1", at, at, end))
    if source.starts_with(("{", "[", *ESCAPED), at):
        value = parse_value(source, at)
        calls, row = calls_from_value(source, value, at), "A19"
        if isinstance(value.value, dict):
            inner = value.value.get("function")
            row = "A18" if isinstance(inner, dict) and "_name" in inner else "A17"
        elif len(calls) < len(value.value):
            raise NotACall("not every object of the list is a call", value.end)
        return require_known_tools(source, CallSection(calls, row, at, at, value.end))
    return _parse_unmarked_name(source, at)


def _parse_unmarked_name(source: TextSource, at: int) -> CallSection:
    """Parse an unmarked call that begins with the name of a known tool."""
    asked = source.name_at(at)
    if source.tools.find(asked.removeprefix("call:")) is None:
        raise unknown_tool(asked, at + len(asked))
    row = "B3" if asked.startswith("functions.") else "B11"
    if asked.startswith("call:") or 0 <= source.find('<|"|>', at) < source.find('"', at):
        row = "B10"
    call, _ = parse_named_call(source, at, row)
    return require_known_tools(source, CallSection([call], row, at, at, call.end))


def parse_fenced_reply(source: TextSource) -> CallSection | None:
    """Parse a reply that is one code block with an unmarked call."""
    begin = source.skip_blanks(0)
    fence = source.mark_at(spelling.FENCES, begin)
    place = source.skip_blanks(source.line_end(begin))
    if not fence or source.starts_with(LABELED_FENCES, begin) or not may_begin_call(source, place):
        return None
    try:
        found = parse_unmarked(source, place)
    except NotACall:
        return None
    whole = source.text[found.end :].strip().strip(fence) == ""
    return CallSection(found.calls, found.row, 0, place, found.end) if whole else None


def parse_tool_tag(source: TextSource, at: int, name: str) -> CallSection:
    """Parse `<tool><key>value</key></tool>`."""
    closing, end, cut = f"</{name}>", at + len(name) + 2, False
    spec = source.tools.specs[name]
    values: dict[str, object] = {}
    if not source.starts_with(closing, source.skip_blanks(end)):
        values, end, cut = parse_children(source, end, "", tool_shape(spec))
    end = source.skip_blanks(end)
    if not source.starts_with(closing, end):
        raise NotACall("the tag is not closed", end)
    end += len(closing)
    call = RecoveredCall(name, values, at, end, None, cut, value_ends=CHILD_ENDS)
    return require_known_tools(source, CallSection([call], "C13", at, at, end))


def require_known_tools(
    source: TextSource, section: CallSection, *, may_be_truncated: bool = False
) -> CallSection:
    """Return the section if its calls are complete and of known tools."""
    for call in section.calls:
        if source.tools.find(call.name) is None:
            raise unknown_tool(call.name, section.end)
        if call.truncated and not may_be_truncated:
            raise NotACall("the call is cut off", section.end)
    return section


def require_closer(source: TextSource, section: CallSection, closer: str) -> CallSection:
    """Return the section if its closing mark ends the line and its tools are known.

    If the text ends first, the calls are marked as truncated: they are reported to the model and do
    not run.
    """
    at = source.skip_blanks(section.end)
    end = at + len(closer)
    if at >= len(source.text) and "{" in source.text[section.body_start :]:
        cut = [msgspec.structs.replace(call, truncated=True) for call in section.calls]
        section = msgspec.structs.replace(section, calls=cut)
        return require_known_tools(source, section, may_be_truncated=True)
    if not source.starts_with(closer, at) or source.skip_blanks(end) < source.line_end(end):
        raise NotACall("its closing mark does not end the line", at)
    return require_known_tools(source, msgspec.structs.replace(section, end=end))


def guess_tool_name(source: TextSource, place: int) -> str:
    """Return the tool that a malformed call seems to name, or an empty string."""
    text, begin, limit = source.text, place, min(len(source.text), place + _MAX_TAG)
    while begin < limit and text[begin] not in "{[(>=\n":
        begin += 1
    body = source.skip_blanks(begin + 1)
    named = source.tools.find(source.name_at(body))
    if named is not None:
        return named.name
    begins = text[begin : begin + 1] in ("{", "(") or source.starts_with(
        ("{", "[", "<", '"', "'"), body
    )
    near = text[body - 1 : body + _MAX_TAG] if begins else ""
    quoted = (name for name in source.tools.specs if f'"{name}"' in near or f"'{name}'" in near)
    return next(quoted, "")
