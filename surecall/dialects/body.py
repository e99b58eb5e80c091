"""From an opener to its calls: pass over the envelopes, then let the body choose the grammar."""

from surecall.dialects.children import after_lead, named_tag, read_children
from surecall.dialects.found import Draft, NotACall, Section
from surecall.dialects.grammar_a import read_objects
from surecall.dialects.grammar_b import read_named
from surecall.dialects.grammar_c import Head, dsml_prefix, head_at, read_tagged
from surecall.dialects.grammar_c_keys import keys_follow, read_keys
from surecall.dialects.grammar_d import is_call, read_calls
from surecall.dialects.source import Source
from surecall.dialects.spelling import DEFAULT_ROWS, LEAD, OPENERS, ROWS, TAG_NAMES, Opener
from surecall.dialects.values import decoded, typed

_MAX_TAG = 200
# Without a limit, a long row of openers would be gone through once for each of them.
_MAX_ENVELOPES = 8
_FENCE = "```"
# The name that follows this one is told again by the object.
_NAMED = "<|message_model|>"
_BY_START: dict[str, list[Opener]] = {}
for _opener in OPENERS:
    _BY_START.setdefault(_opener.stem[:2], []).append(_opener)

_CHILD_NAMES = ("name", "tool_name", "function")
_CHILD_ARGUMENTS = ("arguments", "parameters", "args", "input")


class Envelope:
    """The envelopes around a body: the row of the outermost, and what its tag says."""

    def __init__(self, source: Source, at: int) -> None:
        self.row = ""
        self.id: str | None = None
        self.fenced = False
        self.led = False
        for _ in range(_MAX_ENVELOPES):
            step = self._step(source, at)
            if step is None:
                break
            at = source.blanks(step)
        self.end = self._fence(source, at)

    def _step(self, source: Source, at: int) -> int | None:
        """Return the end of the envelope's mark that stands here, None if there is none."""
        opener = opener_at(source, at)
        if opener is None or opener.kind not in ("wrap", "dsml"):
            return None
        if opener.kind == "dsml" and head_at(source, at):
            return None
        self.led = self.led or opener.stem == LEAD
        end, row = self._tag(source, at, opener)
        if end is not None and (not self.row or self.row == "C12"):
            self.row = row
        return end

    def _tag(self, source: Source, at: int, opener: Opener) -> tuple[int | None, str]:
        text, end = source.text, at + len(opener.stem)
        if opener.kind == "dsml":
            end = text.find(">", at, at + _MAX_TAG)
            return (None if end < 0 else end + 1), opener.row
        if opener.stem == _NAMED:
            end += len(source.name(end))
        if opener.stem.endswith("s["):
            return end - 1, opener.row
        if opener.stem[0] != "<" or opener.stem[-1] == ">":
            return end, opener.row
        end = text.find(">", at, at + _MAX_TAG)
        name, _, attributes = text[at + 1 : end].partition(" ")
        row = TAG_NAMES.get(name.partition(":")[0])
        if end < 0 or row is None or "<" in attributes:
            return None, opener.row
        _, named, value = attributes.partition("id=")
        self.id = value.strip("\"' ") if named else None
        return end + 1, row

    def _fence(self, source: Source, at: int) -> int:
        """Pass over a code fence between an envelope and its JSON."""
        self.fenced = self.row == "D6" or source.text.startswith(_FENCE, at)
        if not source.text.startswith(_FENCE, at):
            return at
        after = source.blanks(at + len(_FENCE))
        after += len("json") if source.text.startswith("json", after) else 0
        return source.blanks(after)


def opener_at(source: Source, at: int) -> Opener | None:
    """Return the opener that stands here."""
    for opener in _BY_START.get(source.text[at : at + 2], ()):
        if source.text.startswith(opener.stem, at):
            return opener
    return _DSML if dsml_prefix(source.text, at) is not None else None


_DSML = next(opener for opener in OPENERS if opener.kind == "dsml")


def read_section(source: Source, at: int) -> Section:
    """Read the calls that begin with the envelope or the tag that stands here."""
    envelope = Envelope(source, at)
    body = envelope.end
    if not envelope.row and body == at and head_at(source, at) is None:
        raise NotACall("the tag does not go on like one", at)
    calls, end, row = _read(source, body, envelope)
    if envelope.id and len(calls) == 1:
        (call,) = calls
        calls = [
            Draft(call.name, call.arguments, call.start, call.end, envelope.id, call.truncated)
        ]
    if envelope.fenced and source.text.startswith(_FENCE, source.blanks(end)):
        end = source.blanks(end) + len(_FENCE)
    return Section(row=row, calls=tuple(calls), end=end, body=body)


def _read(source: Source, at: int, envelope: Envelope) -> tuple[list[Draft], int, str]:
    text, row = source.text, envelope.row
    head = head_at(source, at)
    if head is not None:
        return _read_heads(source, at, envelope, head)
    if text.startswith("[", at) and is_call(source, source.blanks(at + 1)):
        calls, end = read_calls(source, at)
        return calls, end, _row("python", row)
    if text.startswith(("{", "["), at):
        calls, end = read_objects(source, at)
        return calls, end, _row("json", row)
    if text.startswith(("<", LEAD), at):
        call = _read_child_call(source, at)
        return [call], call.end, "C13"
    return _read_name(source, at, row)


def _read_heads(
    source: Source, at: int, envelope: Envelope, head: Head | None
) -> tuple[list[Draft], int, str]:
    """Read tagged calls in a row; a bad one ends the row."""
    calls: list[Draft] = []
    row = ""
    while head is not None:
        try:
            call, made_of = read_tagged(source, head, at)
        except NotACall:
            if not calls:
                raise
            break
        calls.append(call)
        row = row or _tagged_row(envelope, head.style.row, made_of)
        at = after_lead(source, call.end)
        head = head_at(source, at)
    return calls, calls[-1].end, row


def _read_name(source: Source, at: int, row: str) -> tuple[list[Draft], int, str]:
    """Read a body that begins with a name: keys, Python, or a header with an object."""
    name = source.name(at)
    after = source.blanks(at + len(name))
    if name and keys_follow(source, after):
        call = read_keys(source, at, name, after)
        suffixed = source.text.startswith("<tool_sep", after)
        return [call], call.end, "C10" if suffixed else _row("keys", row)
    if row in ("D2", "D3", "D6", "C4", "A9") and is_call(source, at):
        calls, end = read_calls(source, at)
        return calls, end, _row("python", row)
    call, header = read_named(source, at, row)
    empty = not call.arguments and header.end == call.end
    row = _row("keys" if empty and row in ("A1", "A5") else "named", row)
    return [call], call.end, "B1" if row == "B2" and header.by_type else row


def _read_child_call(source: Source, at: int) -> Draft:
    """Read `<name>f</name>` and then the arguments: one object, or a tag for each."""
    tag = named_tag(source, at)
    if tag is None or tag[0] not in _CHILD_NAMES:
        raise NotACall("what follows is not a call", at)
    closing = f"</{tag[0]}>"
    stop = source.text.find(closing, tag[1], tag[1] + _MAX_TAG)
    asked = source.text[tag[1] : max(stop, tag[1])].strip()
    spec = source.tools.find(asked)
    if spec is None:
        raise NotACall(f"no tool is called {asked[:40]!r}", tag[1])
    values, end, cut = read_children(source, stop + len(closing), tag[2], spec)
    whole = next((values[key] for key in _CHILD_ARGUMENTS if set(values) == {key}), values)
    if isinstance(whole, str):
        whole = typed(whole, {"type": "object"}, {})
    return Draft(spec.name, decoded(whole), at, end, None, cut)


def _row(kind: str, row: str) -> str:
    return ROWS[kind].get(row, DEFAULT_ROWS.get(kind, row))


def _tagged_row(envelope: Envelope, style: str, made_of: str) -> str:
    if made_of == "tags" or envelope.led:
        return "C12"
    if style == "C1":
        return _row("function json" if made_of == "json" else "function", envelope.row)
    return "C3" if style == "C4" and envelope.row == "C3" else style
