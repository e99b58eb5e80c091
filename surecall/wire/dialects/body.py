"""From an opener to its calls: pass over the envelopes, then let the body choose the grammar."""

import msgspec

from surecall.wire.dialects import spelling
from surecall.wire.dialects.children import after_lead, named_tag, read_children
from surecall.wire.dialects.found import Found, NotACall, Section, no_tool
from surecall.wire.dialects.named import after_fence, is_call, read_calls, read_named
from surecall.wire.dialects.objects import calls_of, read_objects
from surecall.wire.dialects.source import MAX_NAME, Source, shape_of
from surecall.wire.dialects.tagged import (
    Body,
    dsml_prefix,
    head_at,
    parameters_follow,
    read_tagged,
)
from surecall.wire.dialects.values import ESCAPED, decoded, read_value

_MAX_TAG = 200
# Without a limit, a long row of openers would be gone through once for each of them.
_MAX_ENVELOPES = 8
_WRAPS = {opener.stem: opener for opener in spelling.OPENERS if opener.kind == "wrap"}
_STEMS = tuple(_WRAPS)
_QUOTES = ('"', "'")
LABELLED = tuple(f"```{label}" for label in spelling.LABELS)


class Envelope(msgspec.Struct):
    """The envelopes around a body: the row of the outermost, and what its tag says."""

    start: int
    end: int
    row: str = ""
    id: str | None = None
    asked: str = ""
    led: bool = False


def _read_envelope(source: Source, at: int) -> Envelope:
    envelope = Envelope(at, at)
    for _ in range(_MAX_ENVELOPES):
        opener = _WRAPS.get(source.mark(_STEMS, envelope.end))
        row = _enter(source, envelope, opener) if opener else _enter_dsml(source, envelope)
        if not row:
            break
        envelope.led = envelope.led or row == "C12"
        envelope.row = envelope.row if envelope.row not in ("", "C12") else row
        envelope.end = source.blanks(envelope.end)
    return envelope


def _enter(source: Source, envelope: Envelope, opener: spelling.Opener) -> str:
    """Go through one opening mark, and return its row; a tag's name must be a known one."""
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
        envelope.asked = asked[1:].partition(asked[:1])[0] if asked[:1] in _QUOTES else ""
        return row
    envelope.end = at + len(stem) - opener.inside
    if stem == "<|message_model|>":
        # The name that follows is told again by the object.
        envelope.end += len(source.name(envelope.end))
    return opener.row


def _enter_dsml(source: Source, envelope: Envelope) -> str:
    at = envelope.end
    end = source.text.find(">", at, at + _MAX_TAG)
    is_tag = source.at("<", at) and dsml_prefix(source.text, at) != spelling.DSML
    if end < 0 or not is_tag or head_at(source, at):
        return ""
    envelope.end = end + 1
    return "C5"


def read_section(source: Source, at: int) -> Section:
    """Read the calls that begin with the envelope or the tag that is here."""
    envelope = _read_envelope(source, at)
    body = source.blanks(after_fence(source, envelope.end))
    fenced = body > envelope.end or envelope.row == "D6"
    if body == at and head_at(source, at) is None:
        raise NotACall("the tag does not go on like one", at)
    calls, end, row = _read(source, body, envelope)
    if envelope.id and len(calls) == 1:
        calls = [msgspec.structs.replace(calls[0], id=envelope.id)]
    end = after_fence(source, end, labelled=False) if fenced else end
    return Section(calls, row, at, body, end)


def _read(source: Source, at: int, envelope: Envelope) -> tuple[list[Found], int, str]:
    if head_at(source, at):
        return _read_heads(source, at, envelope)
    if source.at("[", at) and is_call(source, source.blanks(at + 1)):
        return *read_calls(source, at), _row("python", envelope.row)
    if envelope.asked and (named := _read_attributed(source, at, envelope)):
        return [named], named.end, _row("named", envelope.row)
    if source.at(("{", "[", *ESCAPED), at):
        return *read_objects(source, at), _row("json", envelope.row)
    if source.at(("<", spelling.LEAD), at):
        call = _read_child_call(source, at)
        return [call], call.end, "C13"
    return _read_name(source, at, envelope.row)


def _read_attributed(source: Source, at: int, envelope: Envelope) -> Found | None:
    """Read the arguments of a call whose envelope names the tool."""
    spec = source.tools.find(envelope.asked)
    style = parameters_follow(source, at)
    if spec is None or not (style or source.at("{", at)):
        return None
    if style:
        values, end, cut = Body(source, style, spec).read(at)
        return Found(spec.name, values, envelope.start, end, None, cut)
    value = read_value(source, at)
    return Found(spec.name, value.arguments, envelope.start, value.end, None, value.cut)


def _read_heads(source: Source, at: int, envelope: Envelope) -> tuple[list[Found], int, str]:
    """Read tagged calls in a row; a bad one ends the row."""
    calls: list[Found] = []
    row = ""
    while head := head_at(source, at):
        try:
            call, made_of = read_tagged(source, *head, at)
        except NotACall:
            if not calls:
                raise
            break
        calls.append(call)
        row = row or _tagged_row(envelope, head[0].row, made_of)
        at = after_lead(source, call.end)
    return calls, calls[-1].end, row


def _read_name(source: Source, at: int, row: str) -> tuple[list[Found], int, str]:
    """Read a body that begins with a name: parameters, Python, or a header with an object."""
    name = source.name(at)
    after = source.blanks(at + len(name))
    style = parameters_follow(source, after) if name else None
    if style:
        spec = source.tools.find(name)
        if spec is None and not source.at(("<arg_key", "<tool_sep"), after):
            raise no_tool(name, after)
        values, end, cut = Body(source, style, spec).read(after)
        row = "C10" if source.at("<tool_sep", after) else _row("keys", row)
        row = row if style.row == "C9" else style.row
        return [Found(spec.name if spec else name, values, at, end, None, cut)], end, row
    if row in spelling.PYTHON_ROWS and is_call(source, at):
        return *read_calls(source, at), _row("python", row)
    call, header = read_named(source, at, row)
    empty = not call.arguments and header.end == call.end
    row = _row("keys" if empty and row in ("A1", "A5") else "named", row)
    return [call], call.end, "B1" if row == "B2" and header.by_type else row


def _read_child_call(source: Source, at: int) -> Found:
    """Read `<name>f</name>` and then the arguments: one object, or a tag for each."""
    tag = named_tag(source, at)
    if tag is None or tag.name not in spelling.NAME_KEYS:
        raise NotACall("what follows is not a call", at)
    closing = f"</{tag.name}>"
    stop = source.text.find(closing, tag.end, tag.end + _MAX_TAG)
    asked = source.text[tag.end : max(stop, tag.end)].strip()
    spec = source.tools.find(asked)
    if spec is None:
        raise no_tool(asked, tag.end)
    values, end, cut = read_children(source, stop + len(closing), tag.lead, shape_of(spec))
    whole = next((values[key] for key in spelling.ARGUMENT_KEYS if set(values) == {key}), values)
    return Found(spec.name, decoded(whole), at, end, None, cut)


def _row(kind: str, row: str) -> str:
    return spelling.ROWS[kind].get(row, spelling.DEFAULT_ROWS.get(kind, row))


def _tagged_row(envelope: Envelope, style: str, made_of: str) -> str:
    if made_of == "tags" or envelope.led:
        return "C12"
    if style == "C1":
        return _row("function json" if made_of == "json" else "function", envelope.row)
    return "C3" if style == "C4" and envelope.row == "C3" else style


# Calls without a mark of their own, or with one that comes too late


def read_behind(source: Source, place: int, opener: spelling.Opener, floor: int) -> Section:
    """Read a call whose name is before its opener; only a known tool is believed."""
    floor = max(floor, place - MAX_NAME)
    before = source.text[floor:place].rstrip().removesuffix("</parameter>").rstrip()
    stop = floor + len(before)
    start = source.name_before(stop, floor)
    spec = source.tools.find(source.text[start:stop]) if start < stop else None
    if spec is None:
        raise NotACall("no tool is named before it", place)
    if opener.row == "A7":
        value = read_value(source, source.blanks(place + len(opener.stem)))
        arguments = value.value if value.twice is None else source.text[start : value.end]
        calls = [Found(spec.name, arguments, start, value.end, None, value.cut)]
        end, row = value.end, "B4"
    else:
        calls, end, row = _read_name(source, start, opener.row)
    mangled = start - len("<name>")
    start = mangled if mangled >= floor and source.at("<name>", mangled) else start
    return Section(calls, row, start, place, end)


def may_begin(source: Source, at: int) -> bool:
    """Whether something without a mark may begin here; a quick look."""
    mark = source.text[at : at + 1]
    if mark == "[":
        first = source.blanks(at + 1)
        return source.at("{", first) or is_call(source, first)
    if not (mark.isalnum() or mark == "_"):
        return mark == "{" or source.at(ESCAPED, at)
    end = at + len(source.name(at))
    return source.at(("{", "({"), end) or source.at("{", source.blanks(end))


def read_unmarked(source: Source, at: int) -> Section:
    """Read the call that begins here without any opener."""
    if source.at("[", at) and is_call(source, source.blanks(at + 1)):
        calls, end = read_calls(source, at)
        if source.text[end - 1] != "]":
            raise NotACall("the list of calls does not end", end)
        return only_known(source, Section(calls, "D1", at, at, end))
    if source.at(("{", "[", *ESCAPED), at):
        value = read_value(source, at)
        calls, row = calls_of(source, value, at), "A19"
        if isinstance(value.value, dict):
            inner = value.value.get("function")
            row = "A18" if isinstance(inner, dict) and "_name" in inner else "A17"
        elif len(calls) < len(value.value):
            raise NotACall("not every object of the list is a call", value.end)
        return only_known(source, Section(calls, row, at, at, value.end))
    return _read_unmarked_name(source, at)


def _read_unmarked_name(source: Source, at: int) -> Section:
    asked = source.name(at)
    if source.tools.find(asked.removeprefix("call:")) is None:
        raise no_tool(asked, at + len(asked))
    row = "B3" if asked.startswith("functions.") else "B11"
    if asked.startswith("call:") or 0 <= source.find('<|"|>', at) < source.find('"', at):
        row = "B10"
    call, _ = read_named(source, at, row)
    return only_known(source, Section([call], row, at, at, call.end))


def read_fence(source: Source) -> Section | None:
    """Read a code block that is the whole reply, if it is a call without a mark."""
    begin = source.blanks(0)
    fence = source.mark(spelling.FENCES, begin)
    place = source.blanks(source.line_end(begin))
    if not fence or source.at(LABELLED, begin) or not may_begin(source, place):
        return None
    try:
        found = read_unmarked(source, place)
    except NotACall:
        return None
    whole = source.text[found.end :].strip().strip(fence) == ""
    return Section(found.calls, found.row, 0, place, found.end) if whole else None


def read_tool_tag(source: Source, at: int, name: str) -> Section:
    """Read `<tool><key>value</key></tool>`."""
    closing, end, cut = f"</{name}>", at + len(name) + 2, False
    spec = source.tools.specs[name]
    values: dict[str, object] = {}
    if not source.at(closing, source.blanks(end)):
        values, end, cut = read_children(source, end, "", shape_of(spec))
    end = source.blanks(end)
    if not source.at(closing, end):
        raise NotACall("the tag is not closed", end)
    end += len(closing)
    return only_known(
        source, Section([Found(name, values, at, end, None, cut)], "C13", at, at, end)
    )


def only_known(source: Source, section: Section, *, may_be_cut: bool = False) -> Section:
    """Accept calls of known tools whose arguments are complete."""
    for call in section.calls:
        if source.tools.find(call.name) is None:
            raise no_tool(call.name, section.end)
        if call.truncated and not may_be_cut:
            raise NotACall("the call is cut off", section.end)
    return section


def closed(source: Source, section: Section, closer: str) -> Section:
    """Accept calls of known tools whose mark is closed at the end of its line.

    Where the text ends first, the calls are cut off: the model is told, and nothing runs.
    """
    at = source.blanks(section.end)
    end = at + len(closer)
    if at >= len(source.text) and "{" in source.text[section.body :]:
        cut = [msgspec.structs.replace(call, truncated=True) for call in section.calls]
        section = msgspec.structs.replace(section, calls=cut)
        return only_known(source, section, may_be_cut=True)
    if not source.at(closer, at) or source.blanks(end) < source.line_end(end):
        raise NotACall("its closing mark does not end the line", at)
    return only_known(source, msgspec.structs.replace(section, end=end))


def tool_named(source: Source, place: int) -> str:
    """Return the tool that a broken call seems to name."""
    text, begin, limit = source.text, place, min(len(source.text), place + _MAX_TAG)
    while begin < limit and text[begin] not in "{[(>=\n":
        begin += 1
    body = source.blanks(begin + 1)
    named = source.tools.find(source.name(body))
    if named is not None:
        return named.name
    begins = text[begin : begin + 1] in ("{", "(") or source.at(("{", "[", "<", '"', "'"), body)
    told = text[body - 1 : body + _MAX_TAG] if begins else ""
    quoted = (name for name in source.tools.specs if f'"{name}"' in told or f"'{name}'" in told)
    return next(quoted, "")
