"""What of a streamed reply may be shown immediately, and what has to wait.

A text that turns out to be a call, or reasoning, must never have been shown as the answer. So the
text is held back from the first place where such a mark may begin, and let go when that is ruled
out, at the latest when the reply is complete and everything is known. What was shown by then and
is not part of the answer after all is withdrawn, never silently doubled.
"""

import itertools
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from surecall.core.streaming.holdback import Filter
from surecall.values.errors import Fault
from surecall.values.types import Reply, is_blank
from surecall.wire.assembler import CallDelta, Delta, ReasoningDelta, TextDelta


class CallAnnounced(msgspec.Struct, frozen=True, tag="call_announced"):
    """The model is writing a call. It runs, if at all, when the reply is complete and in order."""

    position: int
    name: str


class TextWithdrawn(msgspec.Struct, frozen=True, tag="text_withdrawn"):
    """Text of this turn that was shown does not count any more; what does, if any, follows."""

    text: str


Shown: TypeAlias = TextDelta | ReasoningDelta | CallAnnounced | TextWithdrawn
Show: TypeAlias = Callable[[Shown], None]


class Display:
    """What has been shown of one reply, to `show`. Of `names`, calls are announced early."""

    def __init__(self, show: Show, holdback: Filter, names: frozenset[str] = frozenset()) -> None:
        self._show = show
        self._holdback = holdback
        self._names = names
        self._texts: list[str] = []
        self._announced: set[int] = set()

    def feed(self, delta: Delta) -> None:
        """Show what may be shown of what a stream added."""
        match delta:
            case TextDelta(text):
                for free in self._holdback.feed(text):
                    self._show(free)
                    if isinstance(free, TextDelta):
                        self._texts.append(free.text)
            case ReasoningDelta():
                self._show(delta)
            case CallDelta(position, name, _):  # pragma: no branch  # a closed union
                # A name that is not known may be half of one that is.
                if name in self._names:
                    self._announce(position, name)

    def close(self, outcome: Reply | Fault) -> None:
        """Show the rest of a reply that is complete; take back what is not part of it.

        A text with a doubtful call in it is not shown before it is known to be the answer.
        """
        if isinstance(outcome, Fault) or outcome.claims:
            self._withdraw()
            return
        if (rest := self._unshown(outcome.text)) is None:
            self._withdraw()
            rest = outcome.text.lstrip()
        if rest:
            self._show(TextDelta(rest))
        for position, call in enumerate(outcome.calls):
            self._announce(position, call.name)

    def _unshown(self, text: str) -> str | None:
        """Return what of a text was not shown yet; None if it does not begin with what was."""
        # Blanks that led up to a call leave the text with it; showing them does no harm.
        pieces = itertools.dropwhile(is_blank, self._texts)
        begin = next(pieces, "").lstrip()
        at = len(text) - len(text.lstrip()) if begin else 0
        # Piece by piece: a copy of all that was shown may be large.
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
        if self._texts:
            self._show(TextWithdrawn("".join(self._texts)))
