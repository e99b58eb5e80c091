"""The assembler: deltas of a streamed chat completion become one body, as a plain answer has it.

    add(data) ─► what is new, to show progress
    finish()  ─► the body, or the `Fault` that the stream is

It only undoes what streaming did. Bent names, ids and arguments go into the body as they came,
because one normaliser reads streamed and plain answers alike. Nothing here raises, whatever a
provider sends, and every step costs time in proportion to the bytes it looks at.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from surecall.parsing.budget import MAX_BYTES, MAX_CALLS, MAX_VALUES, Budget, holds_too_many
from surecall.values.errors import Fault
from surecall.values.nesting import TooDeep, decode_json
from surecall.values.types import JSON
from surecall.wire.finish_reasons import UNFINISHED, ending_of
from surecall.wire.next_words import next_words
from surecall.wire.plain_json import finite
from surecall.wire.stream_faults import broken_off, holds_error, plain_fault, too_much, unreadable
from surecall.wire.streamed_message import (
    CallDelta,
    Delta,
    ReasoningDelta,
    StreamedMessage,
    TextDelta,
)

__all__ = ["Assembler", "CallDelta", "Delta", "ReasoningDelta", "TextDelta"]

# Some servers write it small, or with blanks in it.
_DONE = "[done]"
_LONGEST_DONE = 16
_HEAD_KEYS = ("id", "model", "provider", "created", "system_fingerprint", "service_tier")
# So many choices beside the first are followed; one was asked for.
_MOST_OTHERS = 8


class Assembler:
    """Builds the body of one streamed answer.

    `known_names` are the tools on offer: a name that comes in two pieces is joined only if one of
    them begins that way. Of arguments beyond `max_arguments_bytes` only so much is kept that the
    reader refuses them. `judge` turns the mapping that holds an error into a fault. A stream of
    which more than `max_bytes` would have to be kept is one, too.
    """

    def __init__(
        self,
        known_names: Iterable[str] = (),
        max_arguments_bytes: int | None = None,
        judge: Callable[[JSON], Fault] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._judge = judge or plain_fault
        self._max_bytes = max_bytes
        self._budget = Budget(max_bytes)
        names = tuple(known_names)
        self._new = partial(StreamedMessage, names, max_arguments_bytes, self._budget)
        self._head: JSON = {}
        self._awaited = list(_HEAD_KEYS)
        self._usage: JSON | None = None
        self._ours: _Choice | None = None
        self._others: dict[int, _Choice] = {}
        self._index: int | None = None
        self._fault: Fault | None = None
        self._is_done = False
        self.skipped = 0

    @property
    def ended(self) -> bool:
        """Whether nothing that follows can change the outcome."""
        return self._is_done or self._fault is not None

    def add(self, data: str, event: str = "message") -> list[Delta]:
        """Take the data of one event; return what it added."""
        if self.ended:
            return []
        if self._ours is not None and event == "message" and (words := self._next_words(data)):
            deltas = self._ours.message.add_words(words)
            self._check_limits(self._ours)
            return deltas
        if _is_end_mark(data):
            self._is_done = True
            return []
        if len(data) > MAX_VALUES and holds_too_many(data.encode(), MAX_VALUES):
            self._fault = too_much(f"An event of the answer holds more than {MAX_VALUES} values.")
            return []
        payload = _decoded(data)
        if event == "error":
            self._fault = self._judge(payload if isinstance(payload, dict) else {"error": data})
            return []
        chunks = payload if isinstance(payload, list) else [payload]
        return [delta for chunk in chunks for delta in self._add_chunk(chunk)]

    def finish(self) -> JSON | Fault:
        """Return the body of the whole answer, or why there is none."""
        if self._fault is not None:
            return self._fault
        if self._ours is None and self.skipped:
            return unreadable(self.skipped)
        # Of the others only calls matter, which may be those of this very turn.
        followed = [other for other in self._others.values() if other.message.calls_count]
        followed = followed if self._ours is None else [self._ours, *followed]
        # Some gateways add the end mark to a stream that broke off behind them.
        is_open = any(choice.message.is_open for choice in followed)
        if not any(choice.ended for choice in followed) and (is_open or not self._is_done):
            return broken_off(in_call=is_open)
        choices = [choice.render(index) for index, choice in enumerate(followed)]
        body = self._head | {"object": "chat.completion", "choices": choices}
        return body if self._usage is None else body | {"usage": self._usage}

    def _next_words(self, data: str) -> str | None:
        """Return the next words of our choice, if there is nothing else in a chunk."""
        words = next_words(data)
        if words is None or words.index != self._index:
            return None
        return None if any(getattr(words, key) for key in self._awaited) else words.text

    def _add_chunk(self, chunk: Any) -> list[Delta]:
        if chunk is None or self.ended:
            return []
        if not isinstance(chunk, dict):
            self._skip(chunk)
            return []
        if holds_error(chunk):
            self._fault = self._judge(chunk)
            return []
        # The first chunk of some gateways carries blanks here.
        for key in [key for key in self._awaited if chunk.get(key)]:
            self._head[key] = chunk[key]
            self._awaited.remove(key)
        self._add_usage(chunk.get("usage"))
        if isinstance(groq := chunk.get("x_groq"), dict):
            self._add_usage(groq.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return []
        return [delta for choice in choices for delta in self._add_choice(choice)]

    def _skip(self, chunk: Any) -> None:
        """Pass over what is no chunk, unless it looks like what is left of one, or like a page."""
        self.skipped += 1
        if isinstance(chunk, str) and chunk.lstrip().startswith(("{", "[", "<")):
            self._fault = unreadable(self.skipped)

    def _add_usage(self, usage: Any) -> None:
        if usage and isinstance(usage, dict):
            self._usage = usage

    def _add_choice(self, choice: Any) -> list[Delta]:
        if not isinstance(choice, dict) or self.ended:
            return []
        followed = self._followed(choice.get("index"))
        if followed is None:
            return []
        is_ours = followed is self._ours
        if is_ours and holds_error(choice):
            self._fault = self._judge(choice)
            return []
        self._add_usage(choice.get("usage"))
        deltas = followed.add(choice)
        self._check_limits(followed)
        return deltas if is_ours else []

    def _check_limits(self, followed: "_Choice") -> None:
        if followed.message.calls_count > MAX_CALLS:
            self._fault = too_much(f"The streamed answer has more than {MAX_CALLS} calls.")
        elif self._budget.spent:
            most = f"{self._max_bytes} bytes or {MAX_VALUES} values"
            self._fault = too_much(f"The streamed answer says more than {most}.")

    def _followed(self, index: Any) -> "_Choice | None":
        """Return the choice of an index. The first that came is ours; of the others few count."""
        if self._index is None and isinstance(index, int):
            self._index = index
        if not isinstance(index, int) or index == self._index:
            self._ours = self._ours or _Choice(self._new())
            return self._ours
        if index not in self._others and len(self._others) < _MOST_OTHERS:
            self._others[index] = _Choice(self._new())
        return self._others.get(index)


class _Choice:
    """One choice: its message, and how it ended."""

    def __init__(self, message: StreamedMessage) -> None:
        self.message = message
        self._reasons: JSON = {"finish_reason": None}

    @property
    def ended(self) -> bool:
        """Whether a finish reason came."""
        return self._reasons["finish_reason"] is not None

    def add(self, choice: JSON) -> list[Delta]:
        """Take a choice of a chunk."""
        self._note_reasons(choice)
        delta, whole = choice.get("delta"), choice.get("message")
        deltas: list[Delta] = []
        if isinstance(delta, dict) and delta:
            deltas = self.message.add(delta)
        # Beside a delta that says nothing the message is what counts.
        if isinstance(whole, dict) and not _speaks(delta):
            deltas += self.message.add(whole, is_whole=True)
        return deltas

    def render(self, index: int) -> JSON:
        """Write the choice the way a plain answer has it."""
        return self._reasons | {"index": index, "message": self.message.render()}

    def _note_reasons(self, choice: JSON) -> None:
        for key in ("finish_reason", "native_finish_reason"):
            said = choice.get(key)
            # A reply that was cut off stays so, whatever a later chunk says.
            if said and isinstance(said, str) and not self._is_final(key):
                self._reasons[key] = said

    def _is_final(self, key: str) -> bool:
        return ending_of(self._reasons.get(key)) in UNFINISHED


def _speaks(delta: Any) -> bool:
    """Whether a delta says more than who speaks."""
    return isinstance(delta, dict) and any(delta[key] for key in delta if key != "role")


def _is_end_mark(data: str) -> bool:
    mark = data.strip()
    return len(mark) < _LONGEST_DONE and "".join(mark.split()).casefold() == _DONE


def _decoded(data: str) -> Any:
    """Read JSON; text that is none comes back as it is, since no chunk is a string."""
    try:
        return decode_json(data)
    except TooDeep:
        return data
    except ValueError:
        pass
    try:
        # Unlike the reader of plain bodies this keeps lone surrogates: the other half of a pair
        # may be in the next event.
        return finite(json.loads(data, strict=False))
    except ValueError:
        return data
