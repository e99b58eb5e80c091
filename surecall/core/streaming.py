"""Read a streamed reply and decide what to show of it.

`ResponseReader` reads a stream of events, or the plain body that came instead:

    feed(bytes), close() ─► the new deltas
    finish()             ─► the complete body, or a `Fault`

The bytes decide which it is, not the headers: endpoints ignore `stream`, label streams as JSON, and
label errors as streams. A stream begins with a field name or a comment, and JSON never does.

`MarkFilter` holds back text that may be a mark: of a call written as text, or of reasoning.

    text so far ─► safe to show │ may become a mark

Text before the first possible mark is safe, except trailing blanks, which belong to the mark. A
complete mark holds back the rest of the reply, unless it is in inline code; reasoning ends at its
closing mark. `ReplyDisplay` compares the shown text with the parsed reply in the end, so holding
back too much delays text but never loses it.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from surecall.core.guided.protocol import ANSWER, BEFORE_A_STEP
from surecall.core.guided.replies import FieldReader, SkipFieldReader, TextReader
from surecall.parsing.budget import FRAMING_FACTOR
from surecall.settings.connection import DEFAULT_LIMITS
from surecall.values.errors import Fault
from surecall.values.types import Reply, is_blank
from surecall.wire.assembler import Assembler, CallDelta, Delta, ReasoningDelta, TextDelta
from surecall.wire.call_styles import TextCalls
from surecall.wire.dialects.marks import STEMS
from surecall.wire.dialects.spelling import BARS, DSML, OPENERS, REASONING_TAGS, STRIPPED_LEADS
from surecall.wire.sse import SseDecoder, SseEvent, stream_limit_error
from surecall.wire.text_edges import may_be_lead, possible_trail_start, strip_lead

_BLANKS = b"\xef\xbb\xbf \t\r\n"
# A comment, `data`, `event`, `id`, or `retry`.
_STREAM_STARTS = (b":", b"d", b"e", b"i", b"r")


class ResponseReader:
    """Reads one response. `max_bytes` bounds its memory; the body of an error `is_plain`."""

    def __init__(
        self,
        assembler: Assembler,
        max_bytes: int = DEFAULT_LIMITS.max_response_bytes,
        *,
        is_plain: bool = False,
    ) -> None:
        self._assembler = assembler
        self._decoder = SseDecoder(max_total_bytes=FRAMING_FACTOR * max_bytes)
        self._max_bytes = max_bytes
        # Unknown until the first byte that is not blank.
        self._is_stream: bool | None = False if is_plain else None
        self._plain = bytearray()
        self._streamed = 0

    @property
    def size(self) -> int:
        """The size of the response in bytes; of a stream, the data of its events."""
        return self._streamed if self._is_stream else len(self._plain)

    @property
    def pending_bytes(self) -> int:
        """The number of buffered bytes of an unfinished event."""
        return self._decoder.buffered_bytes

    @property
    def is_stream(self) -> bool:
        """Whether events have begun to arrive."""
        return bool(self._is_stream)

    @property
    def is_complete(self) -> bool:
        """Whether the stream is complete, so that nothing can change the outcome."""
        return self._assembler.is_finished

    def feed(self, chunk: bytes) -> list[Delta]:
        """Add bytes and return the new deltas; raise `ProviderError` above `max_bytes`."""
        if self._is_stream:
            return self._deltas(self._decoder.feed(chunk))
        self._plain += chunk
        if len(self._plain) > self._max_bytes:
            raise stream_limit_error(self._max_bytes, "bytes")
        if self._is_stream is None and (begin := chunk.lstrip(_BLANKS)):
            self._is_stream = begin.startswith(_STREAM_STARTS)
            if self._is_stream:
                return self._deltas(self._decoder.feed(bytes(self._plain)))
        return []

    def close(self) -> list[Delta]:
        """End the input and return the last deltas; an unterminated event may be complete."""
        return self._deltas(self._decoder.close())

    def finish(self) -> Any | bytes | Fault:
        """Return the assembled body of a stream or its fault; the bytes of a plain response."""
        return self._assembler.finish() if self._is_stream else bytes(self._plain)

    def _deltas(self, events: Iterable[SseEvent]) -> list[Delta]:
        """Assemble events; return their deltas, with consecutive text joined."""
        deltas: list[Delta] = []
        for event in events:
            if self.is_complete:
                break
            self._streamed += len(event.data.encode())
            deltas += self._assembler.add(event.data, event.event)
        # Tokens that arrive together are shown together, which takes a tenth of the time.
        runs = (list(run) for _, run in itertools.groupby(deltas, type))
        return [delta for run in runs for delta in _join_texts(run)]


def _join_texts(deltas: list[Delta]) -> list[Delta]:
    """Join deltas of one kind if they are text; return others unchanged."""
    texts = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    return [TextDelta("".join(texts))] if texts else deltas


SafeDelta: TypeAlias = TextDelta | ReasoningDelta
_TICK = "`"
# Nearly every mark contains one of these; plain text has few of them.
_MARK_CHARS = "<[`=◁"
_MAX_CLOSER_CHARS = max(map(len, REASONING_TAGS.values()))
# How a line may begin that contains a call without an unmistakable mark.
_WEAK_STEMS = ("{", "```", *(opener.stem for opener in OPENERS if opener.weak))
# Longer undecided text is held back until the end of the reply.
_MAX_PENDING_CHARS = 4096
_PORTION_CHARS = 512
_HEADERS = tuple(f"{lead}to=" for lead in STRIPPED_LEADS)
_MAX_MARKS = 100
# Stems are grouped by their first characters, so that most texts rule out whole groups.
_HEAD_CHARS = 2
# What can follow a tool's name that begins an unmarked call.
_AFTER_TOOL_NAME = ("(", "{", "[", "<", ":", "=")


class TextFilter(Protocol):
    """Passes on what may be shown of a text that is still arriving."""

    def feed(self, piece: str) -> list[SafeDelta]:
        """Add text and return what may be shown."""


class GuidedAnswerFilter:
    """Shows only the answer of one guided reply."""

    def __init__(self) -> None:
        self._answer: TextReader = FieldReader(ANSWER)
        for name in reversed(BEFORE_A_STEP):
            self._answer = SkipFieldReader(name, self._answer)

    def feed(self, piece: str) -> list[SafeDelta]:
        """Add text of the JSON object and return what it adds to the answer."""
        text = self._answer.feed(piece)
        return [TextDelta(text)] if text else []


class SilentFilter:
    """Shows nothing: a guided reply with a typed answer is shown when it is complete."""

    def feed(self, piece: str) -> list[SafeDelta]:  # noqa: ARG002  # a filter's signature
        """Return nothing."""
        return []


class MarkFilter:
    """Holds back calls and reasoning in one streamed text; the settings are the config's."""

    def __init__(
        self, mode: TextCalls, tools: Sequence[str] = (), *, strip_thinking: bool = True
    ) -> None:
        self._passes_everything = mode == "off" and not strip_thinking
        self._finds_unmarked = mode == "any"
        self._find = (
            partial(first_opener, stems=tuple(REASONING_TAGS)) if mode == "off" else first_opener
        )
        self._strips_thinking = strip_thinking
        self._tools = tools
        self._pending = ""
        self._closer = ""
        self._is_held = False
        self._has_thought = False
        self._marks = 0
        # The last character that was shown, and whether it is in inline code.
        self._last = ""
        self._in_code = 0

    def feed(self, piece: str) -> list[SafeDelta]:
        """Add text and return what may be shown."""
        if self._passes_everything:
            return [TextDelta(piece)]
        free: list[SafeDelta] = []
        # In small portions, as pending text is searched repeatedly.
        for at in range(0, len(piece), _PORTION_CHARS):
            if self._is_held:
                break
            self._pending += piece[at : at + _PORTION_CHARS]
            while self._emit_reasoning(free) if self._closer else self._emit_text(free):
                self._marks += 1
                # Each mark is costly, and real replies have few.
                self._is_held = self._marks > _MAX_MARKS
        return free

    def _emit_reasoning(self, deltas: list[SafeDelta]) -> bool:
        """Emit reasoning; return whether it has ended, so that more may follow."""
        thought, closer, rest = self._pending.partition(self._closer)
        if closer:
            self._closer, self._has_thought = "", True
        else:
            # The closing mark may have begun.
            cut = max(0, len(thought) - _MAX_CLOSER_CHARS)
            rest, thought = thought[cut:], thought[:cut]
        self._pending = rest
        if thought:
            deltas.append(ReasoningDelta(thought))
        return bool(closer)

    def _emit_text(self, deltas: list[SafeDelta]) -> bool:
        """Emit the text before the first possible mark; return whether to continue."""
        text = self._pending
        if self._has_thought and not self._last:
            text = text.lstrip()
        place = 0 if self._begins_header(text) else self._find(text)
        if self._finds_unmarked:
            place = min(
                filter(lambda at: at >= 0, (place, self._find_unmarked_call(text))), default=-1
            )
        shown = (text if place < 0 else text[:place]).rstrip()
        self._pending = text[len(shown) :]
        self._show(shown, deltas)
        # A NUL, which no mark contains, rules out marks that have only begun.
        is_marked = place >= 0 and self._find(self._pending + "\0") >= 0
        goes_on = is_marked and self._handle_mark(place - len(shown), deltas)
        self._is_held = self._is_held or len(self._pending) > _MAX_PENDING_CHARS
        return goes_on and not self._is_held

    def _begins_header(self, text: str) -> bool:
        """Whether a reply begins with the rest of a header that began in the prompt."""
        begun = text.lstrip()
        return not self._last and (
            begun.startswith(_HEADERS) or any(header.startswith(begun) for header in _HEADERS)
        )

    def _show(self, text: str, deltas: list[SafeDelta]) -> None:
        """Add text to the deltas to show."""
        if not text:
            return
        deltas.append(TextDelta(text))
        self._last = text[-1]
        line = text.rpartition("\n")[2]
        ticks = line.count(_TICK) + (0 if "\n" in text else self._in_code)
        self._in_code = ticks % 2

    def _handle_mark(self, place: int, deltas: list[SafeDelta]) -> bool:
        """Handle a complete mark: in inline code, of reasoning, or perhaps of a call."""
        if place == 0 and self._in_code and self._last == _TICK:
            line, newline, _ = self._pending.partition("\n")
            inside, tick, _ = line.partition(_TICK)
            if tick:
                self._pending = self._pending[len(inside) + 1 :]
                self._show(inside + tick, deltas)
                return True
            if not newline:
                return False  # the code may still end in this line
        opener = next(
            (mark for mark in REASONING_TAGS if self._pending.startswith(mark, place)), None
        )
        if opener is None or self._last or not self._strips_thinking:
            self._is_held = True
            return False
        self._pending = self._pending[place + len(opener) :]
        self._closer = REASONING_TAGS[opener]
        return True

    def _find_unmarked_call(self, text: str) -> int:
        """Return the position of the first line that may begin an unmarked call, or -1."""
        first = len(text) - len(text.lstrip())
        first = text.rfind("\n", 0, first) + 1
        at = first if first or not self._last else text.find("\n") + 1
        while at < len(text) and (at or not self._last):
            end = text.find("\n", at)
            line = (text[at:] if end < 0 else text[at:end]).lstrip()
            if line and self._may_begin_call(line):
                return at
            if end < 0:
                break
            at = end + 1
        return -1

    def _may_begin_call(self, line: str) -> bool:
        if any(stem.startswith(line) or line.startswith(stem) for stem in _WEAK_STEMS):
            return True
        match line[0]:
            case "[":
                inside = line[1:].lstrip()
                return inside[:1] in ("", "{") or self._may_name_tool(inside)
            case "<":
                return self._may_name_tool(line[1:])
            case _:
                return self._may_name_tool(line)

    def _may_name_tool(self, text: str) -> bool:
        """Whether a text begins with a tool's name and a call, or with part of a name."""
        for name in self._tools:
            rest = text[len(name) :].lstrip(" ")
            if name.startswith(text) or (
                text.startswith(name) and (not rest or rest.startswith((*_AFTER_TOOL_NAME, ">")))
            ):
                return True
        return False


class _Stems(NamedTuple):
    """Lookup tables of stems: trying each stem in turn would be too slow."""

    by_head: dict[str, list[str]]
    beginnings: frozenset[str]
    endings: dict[str, tuple[str, ...]]
    signless: tuple[str, ...]
    longest: int


def first_opener(text: str, stems: tuple[str, ...] = STEMS) -> int:
    """Return the earliest position of an opener, or of what may become one; -1 if none.

    Text before that position can be shown while the reply is still streaming.
    """
    known = _stem_tables(stems)
    if not _may_contain_opener(text, known):
        return -1
    near = (stem for head, group in known.by_head.items() if head in text for stem in group)
    places = [place for stem in near if (place := text.find(stem)) >= 0]
    marked = text.find(DSML)
    if marked >= 0:
        places.append(max(0, text.rfind("<", 0, marked)))
    for at in range(max(0, len(text) - known.longest), len(text)):
        tail = text[at:]
        if tail in known.beginnings or (tail[0] == "<" and _begins_dsml(tail)):
            places.append(at)
            break
    return min(places, default=-1)


def _begins_dsml(tail: str) -> bool:
    return tail[1:2] in (*BARS, " ") and DSML.startswith(tail[1:].strip(BARS + " "))


def _may_contain_opener(text: str, known: _Stems) -> bool:
    """Whether a text may contain an opener, or end with the beginning of one; a fast test."""
    return (
        any(sign in text for sign in _MARK_CHARS)
        or any(stem in text for stem in known.signless)
        or text.endswith(known.endings.get(text[-1:], ()))
    )


@cache
def _stem_tables(stems: tuple[str, ...]) -> _Stems:
    by_head: dict[str, list[str]] = {}
    for stem in stems:
        by_head.setdefault(stem[:_HEAD_CHARS], []).append(stem)
    begun = frozenset(stem[:length] for stem in stems for length in range(1, len(stem) + 1))
    endings: dict[str, list[str]] = {}
    for beginning in sorted(begun):
        endings.setdefault(beginning[-1], []).append(beginning)
    signless = tuple(stem for stem in (*stems, DSML) if not set(_MARK_CHARS) & set(stem))
    by_end = {last: tuple(found) for last, found in endings.items()}
    return _Stems(by_head, begun, by_end, signless, max(map(len, stems)))


# Holding back possible edges of the answer: end tokens, invisible characters, blanks.
#
# The reply is trimmed in the end, and the shown text must be a prefix of the result. So nothing is
# shown before the answer has begun, and a possible end is held back until more text follows.

# Longer undecided text is held back until the end of the reply.
_MAX_EDGE_CHARS = 4096


class EdgeFilter:
    """Wraps another filter and holds back text that may be trimmed in the end."""

    def __init__(self, inner: TextFilter) -> None:
        self._inner = inner
        self._pending = ""
        self._has_begun = False
        self._is_held = False

    def feed(self, piece: str) -> list[SafeDelta]:
        """Add text and return what may be shown."""
        free: list[SafeDelta] = []
        for each in self._inner.feed(piece):
            if not isinstance(each, TextDelta):
                free.append(each)
            elif not self._is_held and (shown := self._release(each.text)):
                free.append(TextDelta(shown))
        return free

    def _release(self, piece: str) -> str:
        """Add text; return the part that will not be trimmed, and keep the rest."""
        text = self._pending + piece
        if not self._has_begun and may_be_lead(text):
            cut = 0
        else:
            text = text if self._has_begun else strip_lead(text)
            self._has_begun = True
            cut = possible_trail_start(text)
        self._pending = text[cut:]
        self._is_held = len(self._pending) > _MAX_EDGE_CHARS
        return text[:cut]


# Showing a streamed reply.
#
# A call or reasoning must not be shown as the answer. Text is held back from the first possible
# mark on and released when a mark is ruled out, at the latest when the reply is complete. Text that
# was shown and is not part of the answer is withdrawn explicitly, never silently repeated.


class CallAnnounced(msgspec.Struct, frozen=True, tag="call_announced"):
    """The model is writing a call, which may run once the reply is complete and valid."""

    position: int
    name: str


class TextWithdrawn(msgspec.Struct, frozen=True, tag="text_withdrawn"):
    """The text shown so far in this turn is withdrawn; the valid text, if any, follows."""

    text: str


DisplayDelta: TypeAlias = TextDelta | ReasoningDelta | CallAnnounced | TextWithdrawn
ShowDelta: TypeAlias = Callable[[DisplayDelta], None]


class ReplyDisplay:
    """Passes one reply to `show` as it arrives; calls of the tools in `names` are announced."""

    def __init__(
        self, show: ShowDelta, holdback: TextFilter, names: frozenset[str] = frozenset()
    ) -> None:
        self._show = show
        self._filter = holdback
        self._names = names
        self._shown_texts: list[str] = []
        self._announced: set[int] = set()

    def feed(self, delta: Delta) -> None:
        """Show what may be shown of a delta."""
        match delta:
            case TextDelta(text):
                for free in self._filter.feed(text):
                    self._show(free)
                    if isinstance(free, TextDelta):
                        self._shown_texts.append(free.text)
            case ReasoningDelta():
                self._show(delta)
            case CallDelta(position, name, _):  # pragma: no branch  # a closed union
                # An unknown name may be the first half of a known one.
                if name in self._names:
                    self._announce(position, name)

    def close(self, outcome: Reply | Fault) -> None:
        """Show the rest of a complete reply, and withdraw text that is not part of it.

        The text of a reply with ambiguous calls is withdrawn.
        """
        if isinstance(outcome, Fault) or outcome.claims:
            self._withdraw()
            return
        if (rest := self._remaining_text(outcome.text)) is None:
            self._withdraw()
            rest = outcome.text.lstrip()
        if rest:
            self._show(TextDelta(rest))
        for position, call in enumerate(outcome.calls):
            self._announce(position, call.name)

    def _remaining_text(self, text: str) -> str | None:
        """Return the rest of a text after what was shown; None if it does not begin with that."""
        # Blanks before a call are removed from the text with it; having shown them is harmless.
        pieces = itertools.dropwhile(is_blank, self._shown_texts)
        begin = next(pieces, "").lstrip()
        at = len(text) - len(text.lstrip()) if begin else 0
        # Piece by piece, as a copy of all shown text may be large.
        for piece in itertools.chain((begin,), pieces):
            if not text.startswith(piece, at):
                return None
            at += len(piece)
        return text[at:]

    def _announce(self, position: int, name: str) -> None:
        if position not in self._announced:
            self._announced.add(position)
            self._show(CallAnnounced(position, name))

    def _withdraw(self) -> None:
        if self._shown_texts:
            self._show(TextWithdrawn("".join(self._shown_texts)))
