"""Harmony messages: for whom they are and on which channel, with their tokens or without them."""

import msgspec

from surecall.wire.dialects import spelling
from surecall.wire.dialects.found import Section
from surecall.wire.dialects.named import read_named
from surecall.wire.dialects.source import Source

_MAX_HEADER = 400
_TO = "to="
_MAX_BEGUN = 100
_HEADER_WORDS = (_TO, "final", "analysis", "commentary", "code", "json", "assistant")


class Frame(msgspec.Struct, frozen=True):
    """The header of a message, and where the message itself begins."""

    header: str
    recipient: str
    body: int

    @property
    def is_thought(self) -> bool:
        """Whether the model speaks to itself."""
        return "analysis" in self.header or self.recipient == "self"

    @property
    def is_answer(self) -> bool:
        """Whether the model speaks to the user."""
        return bool(self.recipient) or "final" in self.header


def frame_at(source: Source, place: int) -> Frame | None:
    """Read the header that begins here, if it is one."""
    stop = source.text.find(spelling.MESSAGE, place, place + _MAX_HEADER)
    if stop < 0:
        return None
    to = source.text.find(_TO, place, stop)
    recipient = source.name(to + len(_TO)) if to >= 0 else ""
    return Frame(source.text[place:stop].lower(), recipient, stop + len(spelling.MESSAGE))


def calls_tool(source: Source, frame: Frame) -> bool:
    """Whether a message is for a tool, known or not."""
    known = source.tools.find(frame.recipient) is not None
    return known or frame.recipient.partition(".")[0] not in ("", *spelling.BUILT_IN)


def begun(source: Source, at: int) -> tuple[int, str]:
    """Return where a text begins, and the recipient if a header goes on there."""
    begin = source.blanks(at)
    to = source.blanks(begin + len(source.mark(spelling.STRIPPED_LEADS, begin)))
    return begin, source.name(to + len(_TO)) if source.at(_TO, to) else ""


def begun_frame(source: Source, at: int) -> bool:
    """Whether a text begins with the rest of a header, up to its message."""
    stop = source.text.find(spelling.MESSAGE, at, at + _MAX_BEGUN)
    header = source.text[at : max(at, stop)]
    return stop > at and not header.startswith("<") and all(map(_of_header, header.split()))


def _of_header(word: str) -> bool:
    return word.startswith(_HEADER_WORDS) or "<|" in word


def read_message(source: Source, place: int) -> Section:
    """Read `to=f … {...}`, with the special tokens of a message or without them."""
    call, header = read_named(source, source.find(_TO, place) + len(_TO), "B5")
    call = msgspec.structs.replace(call, start=place)
    return Section([call], "B5", place, header.end, call.end)
