"""A streamed answer on its way to the client: what may be sent now, and what cannot be unsaid.

Text goes out as it comes. If the model has to be asked again after that, what follows is held until
its end is known: calls go out after the text that was sent; a text that goes on from it goes on.
Another text follows what was sent, if the model had said that to its end: it said both. A text that
broke off cannot be gone on from by another one, and the stream ends with an error. In a `buffered`
stream nothing goes out before its end is known, so that this cannot happen.
"""

from typing import Final

from surecall.core.streaming.display import CallAnnounced, Shown, TextWithdrawn
from surecall.proxy.faces.face import Events, Failure
from surecall.values.types import JSON
from surecall.wire.assembler import ReasoningDelta, TextDelta

# Thoughts that are a list go out whole, at the end.
_TEXTS: Final = frozenset({"reasoning_content", "reasoning"})
_UNSAID: Final = Failure(
    502,
    "The answer broke off after a part of it had been sent, and the next one begins differently. "
    "A buffered stream (--stream buffered) avoids this.",
    "STREAM_CHANGED",
)


class Live:
    """The bytes of one streamed answer, in the events of a face."""

    def __init__(self, events: Events, head: JSON, *, buffered: bool) -> None:
        self._events = events
        self._head = head
        self._buffered = buffered
        self._begun = False
        self._is_held = buffered
        self._is_fresh = self._is_broken = False
        # What was sent, in pieces: to make it one with each new piece would take its square.
        self._text: list[str] = []
        self._thoughts: dict[str, list[str]] = {}

    @property
    def begun(self) -> bool:
        """Whether anything has been written."""
        return self._begun

    def begin(self, head: JSON) -> bytes:
        """Write the beginning, once: the upstream has begun to answer, and says who it is."""
        if self._begun:
            return b""
        self._begun = True
        return self._events.begin(self._head | head)

    def again(self) -> None:
        """Hold what follows: the upstream is asked again, and something has been sent."""
        self._hold()
        self._is_fresh = False

    def broke_off(self) -> None:
        """Take in that the reply under way has no end; what was sent of it is only a piece."""
        self._is_broken = self._is_broken or self._is_fresh

    def _hold(self) -> None:
        self._is_held = self._buffered or bool(self._text or self._thoughts)

    def show(self, shown: Shown) -> bytes:
        """Write what is new, if it may be written now."""
        match shown:
            case TextWithdrawn():
                self._hold()
                return b""
            case TextDelta(text) if not self._is_held:
                self._text.append(text)
                self._is_fresh = True
                return self.begin({}) + self._events.text(text)
            case ReasoningDelta(text, field) if not self._is_held and field in _TEXTS:
                self._thoughts.setdefault(field, []).append(text)
                return self.begin({}) + self._events.thought(text, field)
            case CallAnnounced() | TextDelta() | ReasoningDelta():  # pragma: no branch  # all
                return b""

    def finish(self, body: JSON) -> bytes:
        """Write the rest of an answer and its end, or that it cannot be told any more."""
        begin = self.begin({key: body[key] for key in self._head if key in body})
        message = self._continued(body["choices"][0]["message"])
        if message is None:
            return begin + self._events.fail(_UNSAID)
        choice = body["choices"][0] | {"message": message}
        return begin + self._events.finish(body | {"choices": [choice]})

    def fail(self, failure: Failure) -> bytes:
        """Write why there is no answer."""
        return self._events.fail(failure)

    def _continued(self, message: JSON) -> JSON | None:
        """Return a message that begins with what was sent; None if it cannot."""
        thoughts = {field: "".join(pieces) for field, pieces in self._thoughts.items()}
        message = message | {
            field: sent
            for field, sent in thoughts.items()
            if not str(message.get(field) or "").startswith(sent)
        }
        if not self._text:
            return message
        text = "".join(self._text)
        sent, said = text.lstrip(), str(message.get("content") or "").lstrip()
        if said.startswith(sent):
            return message | {"content": text + said[len(sent) :]}
        if message.get("tool_calls"):
            return message | {"content": text}
        return None if self._is_broken else message | {"content": f"{text}\n\n{said}"}
