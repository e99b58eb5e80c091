"""Harmony messages: a header says for whom, on which channel; then the message itself."""

import msgspec

from surecall.dialects.found import Draft, NotACall, Section
from surecall.dialects.grammar_b import known, plain_name, read_named
from surecall.dialects.source import Source
from surecall.dialects.spelling import BUILT_IN, MESSAGE, MESSAGE_ENDS, STRIPPED_LEADS
from surecall.dialects.values import read_value

_MAX_HEADER = 400
_TO = "to="
_LOOK_BACK = 24


class Frame(msgspec.Struct, frozen=True):
    """The header of one message, and where the message begins and ends."""

    recipient: str
    is_thought: bool
    body: int
    end: int


def read_frame(source: Source, at: int) -> Frame:
    """Read the header that begins here."""
    text = source.text
    stop = text.find(MESSAGE, at, at + _MAX_HEADER)
    if stop < 0:
        raise NotACall("no message follows", at)
    _, to, rest = text[at:stop].partition(_TO)
    recipient = rest.partition("<")[0].split()[:1] if to else []
    body = stop + len(MESSAGE)
    end = source.first(MESSAGE_ENDS, body)
    return Frame(
        recipient=recipient[0] if recipient else "",
        is_thought="analysis" in text[at:stop] or recipient == ["self"],
        body=body,
        end=end if end >= 0 else len(text),
    )


def is_tool(source: Source, recipient: str) -> bool:
    """Whether a message goes to a tool, and not to the user or to a built-in of the model."""
    if not recipient:
        return False
    return known(source.tools, recipient) is not None or (
        recipient.partition(".")[0] not in BUILT_IN
    )


def read_message(source: Source, frame: Frame, start: int) -> Section:
    """Read a message to a tool as a call; a text that is no object is handed on as it is."""
    spec = known(source.tools, frame.recipient)
    name = spec.name if spec else plain_name(frame.recipient)
    at = source.blanks(frame.body)
    if source.text.startswith("{", at):
        try:
            value = read_value(source, at)
        except NotACall:
            call = Draft(name, source.text[at : frame.end].strip(), start, frame.end)
        else:
            arguments = source.text[at : value.end] if value.twice else value.value
            call = Draft(name, arguments, start, value.end, None, value.cut)
    else:
        raw = source.text[at : frame.end].strip()
        call = Draft(name, raw or {}, start, frame.end, None, not raw and frame.end <= at)
    return Section(row="B5", calls=(call,), end=call.end, body=at)


def read_stripped(source: Source, at: int, floor: int) -> Section:
    """Read `commentary to=functions.f json{...}`, what is left without special tokens."""
    call, _ = read_named(source, at + len(_TO), "B5")
    text, start = source.text, at
    while True:
        before = text[max(floor, start - _LOOK_BACK) : start].rstrip()
        lead = next((lead for lead in STRIPPED_LEADS if before.endswith(lead)), None)
        if lead is None:
            break
        start = text.rfind(lead, floor, start)
    return Section(row="B5", calls=(call,), end=call.end, body=at, start=start)
