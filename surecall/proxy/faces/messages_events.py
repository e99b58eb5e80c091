"""A chat completion that is still coming, as the events of the Messages API.

    message_start, then block by block, one open at a time:
        content_block_start, content_block_delta …, content_block_stop
    message_delta, message_stop                                     or, at any point: error

A thinking block must be signed before it closes, and what the signature should hold is known only
at the end. So a block that closes early is signed with what was thought so far. If that was not
all, a second block brings the whole before the calls. No such block follows a text that is the
answer: Claude Code prints the last block, and if that is not a text, nothing.
"""

from collections import defaultdict
from typing import Final

from surecall.proxy.faces.face import Asked, Failure, event
from surecall.proxy.faces.messages_answer import (
    answer_text,
    arguments_of,
    call_block,
    ending,
    error_of,
    head_of,
    redacted_block,
    said_in,
    usage_of,
)
from surecall.proxy.faces.messages_state import seal, state_of, streamed_state, thought_of
from surecall.values.types import JSON, is_blank
from surecall.wire.messages import raw_calls

_TEXT: Final = "text"
_THINKING: Final = "thinking"
_EMPTY: Final[JSON] = {
    _TEXT: {"type": _TEXT, "text": ""},
    _THINKING: {"type": _THINKING, "thinking": "", "signature": ""},
}


class MessageEvents:
    """The events of one message, written while it comes."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._index = 0
        self._open = ""
        self._sent = 0  # characters of the text
        self._held = ""
        self._thought = ""
        self._thoughts: dict[str, str] = defaultdict(str)
        self._sealed: JSON = {}

    def begin(self, head: JSON) -> bytes:
        """Write the message with nothing in it yet."""
        return _event("message_start", message=head_of(self._asked, head))

    def text(self, text: str) -> bytes:
        """Write more of the answer. Blanks before it wait until there is one."""
        self._held += text
        if not self._held or (not self._sent and is_blank(self._held)):
            return b""
        ready, self._held = self._held, ""
        self._sent += len(ready)
        return self._more(_TEXT, ready)

    def thought(self, text: str, field: str) -> bytes:
        """Write more of what the model thinks."""
        if not text:
            return b""
        self._thoughts[field] += text
        self._thought += text
        return self._more(_THINKING, text)

    def finish(self, body: JSON) -> bytes:
        """Write what was not sent yet of a chat completion, and the end."""
        message = said_in(body)
        calls = raw_calls(message)
        state = state_of(message)
        written = b"" if self._sent else self._bring(message, state)
        written += self._rest(answer_text(message))
        if calls:
            written += self._bring(message, state)
        written += b"".join(map(self._call, calls))
        if self._is_bare():
            written += self._more(_TEXT, answer_text(message))
        written += self._close(state)
        delta = ending(self._asked, body)
        return (
            written
            + _event("message_delta", delta=delta, usage=usage_of(body))
            + _event("message_stop")
        )

    def fail(self, failure: Failure) -> bytes:
        """Write that there will be no answer."""
        return event(error_of(failure), "error")

    def _is_bare(self) -> bool:
        return not self._index and not self._open

    def _bring(self, message: JSON, state: JSON) -> bytes:
        """Write the thoughts that were not sent, and the state if no block has brought it yet."""
        thought = thought_of(message)
        rest = thought.removeprefix(self._thought) if thought.startswith(self._thought) else ""
        self._thought += rest
        written = self._more(_THINKING, rest) if rest else b""
        if self._open == _THINKING:
            return written + self._close(state)
        if self._sealed == state:
            return written
        self._sealed = state
        return self._close(state) + self._whole(redacted_block(state))

    def _rest(self, whole: str) -> bytes:
        rest, self._held = whole[self._sent :], ""
        if not rest or (not self._sent and is_blank(rest)):
            return b""
        self._sent += len(rest)
        return self._more(_TEXT, rest)

    def _call(self, call: JSON) -> bytes:
        delta = {"type": "input_json_delta", "partial_json": arguments_of(call)}
        return self._close() + self._whole(call_block(call) | {"input": {}}, delta)

    def _more(self, kind: str, text: str) -> bytes:
        begun = b"" if self._open == kind else self._close() + self._start(_EMPTY[kind])
        self._open = kind
        return begun + self._delta({"type": f"{kind}_delta", kind: text})

    def _whole(self, block: JSON, delta: JSON | None = None) -> bytes:
        written = self._start(block) + (self._delta(delta) if delta else b"")
        return written + self._stop()

    def _close(self, state: JSON | None = None) -> bytes:
        """Close the block that is open; thoughts are signed with a state, or with what is known."""
        if not self._open:
            return b""
        signed = b""
        if self._open == _THINKING:
            self._sealed = streamed_state(self._thoughts) if state is None else state
            signed = self._delta({"type": "signature_delta", "signature": seal(self._sealed)})
        self._open = ""
        return signed + self._stop()

    def _start(self, block: JSON) -> bytes:
        return _event("content_block_start", index=self._index, content_block=block)

    def _delta(self, delta: JSON) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)

    def _stop(self) -> bytes:
        written = _event("content_block_stop", index=self._index)
        self._index += 1
        return written


def _event(kind: str, **fields: object) -> bytes:
    return event({"type": kind} | fields, kind)
