"""Holding back what may be an edge of the answer: end tokens, invisible characters, blanks.

The reply is trimmed in the end, and what was shown must be the beginning of what is left. So
nothing is shown before the answer has begun, and what may be its end waits for what follows.
"""

from surecall.core.streaming.holdback import Filter, Free
from surecall.wire.assembler import TextDelta
from surecall.wire.text_edges import may_begin, may_end, without_lead

# Whatever is longer than this and still in doubt waits for the end of the reply.
_LONG = 4096


class Edges:
    """Lets pass what another filter lets pass, but for what may be trimmed in the end."""

    def __init__(self, inner: Filter) -> None:
        self._inner = inner
        self._pending = ""
        self._has_begun = False
        self._is_held = False

    def feed(self, piece: str) -> list[Free]:
        """Take more of the text; give what may be shown of it."""
        free: list[Free] = []
        for each in self._inner.feed(piece):
            if not isinstance(each, TextDelta):
                free.append(each)
            elif not self._is_held and (shown := self._shown(each.text)):
                free.append(TextDelta(shown))
        return free

    def _shown(self, piece: str) -> str:
        text = self._pending + piece
        if not self._has_begun and may_begin(text):
            cut = 0
        else:
            text = text if self._has_begun else without_lead(text)
            self._has_begun = True
            cut = may_end(text)
        self._pending = text[cut:]
        self._is_held = len(self._pending) > _LONG
        return text[:cut]
