"""Assembles a streamed chat completion into one body and reports progress as it arrives.

    add(data) ─► the new text, reasoning, and calls
    finish()  ─► the body, or a `Fault`

Malformed names, ids, and arguments are left unchanged: the inbound normalizer handles streamed and
plain responses alike. Nothing here raises, and every step takes time linear in its input.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from surecall.parsing.budget import (
    MAX_BYTES,
    MAX_CALLS,
    MAX_VALUES,
    StreamBudget,
    has_too_many_values,
)
from surecall.parsing.call_fragments import encode_or_placeholder
from surecall.values.errors import ErrorCode, Fault
from surecall.values.nesting import TooDeep, decode_json
from surecall.values.text import join_surrogates
from surecall.values.types import JSON
from surecall.wire.chat_format import replace_non_finite
from surecall.wire.finish_reasons import UNFINISHED, finish_kind
from surecall.wire.streamed_message import (
    CallDelta,
    Delta,
    ReasoningDelta,
    StreamedMessage,
    TextDelta,
)

# Fast path for chunks that contain only answer text, as most do.
#
# They are decoded in one step. A chunk with any unlisted key takes the general path.


class _ContentDelta(msgspec.Struct, forbid_unknown_fields=True):
    """A delta that has only text."""

    content: str


class _TextChoice(msgspec.Struct, forbid_unknown_fields=True):
    """A choice that has only a text delta."""

    delta: _ContentDelta
    index: int
    finish_reason: None = None
    native_finish_reason: None = None
    logprobs: None = None


class TextChunk(msgspec.Struct, forbid_unknown_fields=True):
    """A chunk with only the text delta of one choice."""

    choices: tuple[_TextChoice]
    object: Literal["chat.completion.chunk"]
    id: str | None = None
    model: str | None = None
    provider: str | None = None
    created: int | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage: None = None
    obfuscation: str | None = None

    @property
    def index(self) -> int:
        """The index of the choice."""
        return self.choices[0].index

    @property
    def text(self) -> str:
        """The text of the delta."""
        return self.choices[0].delta.content


_TEXT_CHUNK_DECODER: Final = msgspec.json.Decoder(TextChunk)


def parse_text_chunk(data: str) -> TextChunk | None:
    """Return a chunk that has only the text of one choice; None for any other chunk."""
    try:
        return _TEXT_CHUNK_DECODER.decode(data)
    except ValueError:
        return None


# Faults of a stream: errors it reports and errors of the stream itself.

MAX_EXCERPT = 2_000
_ERROR_STATUSES = frozenset(map(str, range(400, 600)))


def generic_fault(holder: JSON) -> Fault:
    """Return the fault for an error object, without provider-specific rules."""
    inner = holder.get("error")
    error = inner if isinstance(inner, dict) else holder
    words = error.get("message") or inner
    code = str(error.get("code"))
    status = int(code) if code in _ERROR_STATUSES else None
    match status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            kind, retryable = ErrorCode.RATE_LIMIT, True
        case int() if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind, retryable = ErrorCode.UPSTREAM_5XX, True
        case _:
            kind = ErrorCode.PROVIDER_ERROR
            retryable = status is None or status == HTTPStatus.REQUEST_TIMEOUT
    unknown = "The provider reported an error in the stream."
    message = join_surrogates(words) if isinstance(words, str) else unknown
    body = encode_or_placeholder(holder)[:MAX_EXCERPT]
    return Fault(kind, message[:MAX_EXCERPT], status, retryable=retryable, body=body)


def holds_error(holder: JSON) -> bool:
    """Whether a chunk or a choice reports an error."""
    # Some servers send `"error": null`, `""`, `{}`, or `false` in a valid chunk.
    error = holder.get("error")
    return "error" in (holder.get("object"), holder.get("type")) or (
        bool(error) and (isinstance(error, dict | list | str) or not holder.get("choices"))
    )


def stream_limit_fault(message: str) -> Fault:
    """Return the fault for a stream that exceeds a limit."""
    return Fault(ErrorCode.RESPONSE_TOO_LARGE, message)


def undecodable_fault(count: int) -> Fault:
    """Return the fault for a stream with `count` undecodable events."""
    message = f"The stream cannot be read: {count} of its events are not JSON objects."
    return Fault(ErrorCode.DECODE_ERROR, message, retryable=True)


def interrupted_fault(*, in_call: bool) -> Fault:
    """Return the fault for a stream that ended too early."""
    place = "inside the arguments of a call" if in_call else "before the answer was complete"
    return Fault(
        ErrorCode.CONNECTION_ERROR,
        f"The stream broke off {place}.",
        hint="Try again; if the error persists, check the server's log.",
        retryable=True,
    )


__all__ = ["Assembler", "CallDelta", "Delta", "ReasoningDelta", "TextDelta"]

# Some servers write it in lower case or with blanks.
_DONE_MARK = "[done]"
_MAX_DONE_MARK = 16
_HEADER_KEYS = ("id", "model", "provider", "created", "system_fingerprint", "service_tier")
# Only one choice is requested; at most this many others are assembled.
_MAX_OTHER_CHOICES = 8


class Assembler:
    """Builds the body of one streamed response.

    `known_names` are the exposed tools: a name that arrives in two pieces is joined only if a tool
    name begins that way. Arguments beyond `max_arguments_bytes` are cut where the parser still
    rejects them. `error_parser` turns an error object into a fault. A stream that would need more
    than `max_bytes` of memory is also a fault.
    """

    def __init__(
        self,
        known_names: Iterable[str] = (),
        max_arguments_bytes: int | None = None,
        error_parser: Callable[[JSON], Fault] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._error_parser = error_parser or generic_fault
        self._max_bytes = max_bytes
        self._budget = StreamBudget(max_bytes)
        names = tuple(known_names)
        self._new_message = partial(StreamedMessage, names, max_arguments_bytes, self._budget)
        self._header: JSON = {}
        self._missing_header_keys = list(_HEADER_KEYS)
        self._usage: JSON | None = None
        self._main_choice: _StreamedChoice | None = None
        self._other_choices: dict[int, _StreamedChoice] = {}
        self._main_index: int | None = None
        self._fault: Fault | None = None
        self._is_done = False
        self.skipped = 0

    @property
    def is_finished(self) -> bool:
        """Whether further events cannot change the outcome."""
        return self._is_done or self._fault is not None

    def add(self, data: str, event: str = "message") -> list[Delta]:
        """Add the data of one event and return its deltas."""
        if self.is_finished:
            return []
        if (
            self._main_choice is not None
            and event == "message"
            and (words := self._text_chunk_text(data))
        ):
            deltas = self._main_choice.message.add_text(words)
            self._check_limits(self._main_choice)
            return deltas
        if _is_end_mark(data):
            self._is_done = True
            return []
        if len(data) > MAX_VALUES and has_too_many_values(data.encode(), MAX_VALUES):
            self._fault = stream_limit_fault(f"A stream event has more than {MAX_VALUES} values.")
            return []
        payload = _decode_event(data)
        if event == "error":
            self._fault = self._error_parser(
                payload if isinstance(payload, dict) else {"error": data}
            )
            return []
        chunks = payload if isinstance(payload, list) else [payload]
        return [delta for chunk in chunks for delta in self._add_chunk(chunk)]

    def finish(self) -> JSON | Fault:
        """Return the complete body, or a fault."""
        if self._fault is not None:
            return self._fault
        if self._main_choice is None and self.skipped:
            return undecodable_fault(self.skipped)
        # Other choices matter only if they have calls, which may belong to this turn.
        followed = [other for other in self._other_choices.values() if other.message.call_count]
        followed = followed if self._main_choice is None else [self._main_choice, *followed]
        # Some gateways append the end mark to a stream that the upstream cut off.
        is_open = any(choice.message.is_open for choice in followed)
        if not any(choice.has_finish_reason for choice in followed) and (
            is_open or not self._is_done
        ):
            return interrupted_fault(in_call=is_open)
        choices = [choice.render(index) for index, choice in enumerate(followed)]
        body = self._header | {"object": "chat.completion", "choices": choices}
        return body if self._usage is None else body | {"usage": self._usage}

    def _text_chunk_text(self, data: str) -> str | None:
        """Return the text of a chunk that has only text for the main choice."""
        words = parse_text_chunk(data)
        if words is None or words.index != self._main_index:
            return None
        return None if any(getattr(words, key) for key in self._missing_header_keys) else words.text

    def _add_chunk(self, chunk: Any) -> list[Delta]:
        if chunk is None or self.is_finished:
            return []
        if not isinstance(chunk, dict):
            self._skip_chunk(chunk)
            return []
        if holds_error(chunk):
            self._fault = self._error_parser(chunk)
            return []
        # Some gateways send empty values in the first chunk.
        for key in [key for key in self._missing_header_keys if chunk.get(key)]:
            self._header[key] = chunk[key]
            self._missing_header_keys.remove(key)
        self._add_usage(chunk.get("usage"))
        if isinstance(groq := chunk.get("x_groq"), dict):
            self._add_usage(groq.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return []
        return [delta for choice in choices for delta in self._add_choice(choice)]

    def _skip_chunk(self, chunk: Any) -> None:
        """Skip data that is not a chunk; a truncated chunk or an HTML page is a fault."""
        self.skipped += 1
        if isinstance(chunk, str) and chunk.lstrip().startswith(("{", "[", "<")):
            self._fault = undecodable_fault(self.skipped)

    def _add_usage(self, usage: Any) -> None:
        if usage and isinstance(usage, dict):
            self._usage = usage

    def _add_choice(self, choice: Any) -> list[Delta]:
        if not isinstance(choice, dict) or self.is_finished:
            return []
        followed = self._choice_at(choice.get("index"))
        if followed is None:
            return []
        is_ours = followed is self._main_choice
        if is_ours and holds_error(choice):
            self._fault = self._error_parser(choice)
            return []
        self._add_usage(choice.get("usage"))
        deltas = followed.add(choice)
        self._check_limits(followed)
        return deltas if is_ours else []

    def _check_limits(self, followed: "_StreamedChoice") -> None:
        if followed.message.call_count > MAX_CALLS:
            self._fault = stream_limit_fault(
                f"The streamed response has more than {MAX_CALLS} calls."
            )
        elif self._budget.is_exhausted:
            most = f"{self._max_bytes} bytes or {MAX_VALUES} values"
            self._fault = stream_limit_fault(f"The streamed response has more than {most}.")

    def _choice_at(self, index: Any) -> "_StreamedChoice | None":
        """Return the choice with an index. The first to arrive is the main choice."""
        if self._main_index is None and isinstance(index, int):
            self._main_index = index
        if not isinstance(index, int) or index == self._main_index:
            self._main_choice = self._main_choice or _StreamedChoice(self._new_message())
            return self._main_choice
        if index not in self._other_choices and len(self._other_choices) < _MAX_OTHER_CHOICES:
            self._other_choices[index] = _StreamedChoice(self._new_message())
        return self._other_choices.get(index)


class _StreamedChoice:
    """One choice: its message and its finish reasons."""

    def __init__(self, message: StreamedMessage) -> None:
        self.message = message
        self._reasons: JSON = {"finish_reason": None}

    @property
    def has_finish_reason(self) -> bool:
        """Whether a finish reason has arrived."""
        return self._reasons["finish_reason"] is not None

    def add(self, choice: JSON) -> list[Delta]:
        """Add the choice of a chunk and return its deltas."""
        self._update_reasons(choice)
        delta, whole = choice.get("delta"), choice.get("message")
        deltas: list[Delta] = []
        if isinstance(delta, dict) and delta:
            deltas = self.message.add(delta)
        # Beside an empty delta, the message counts.
        if isinstance(whole, dict) and not _has_content(delta):
            deltas += self.message.add(whole, is_whole=True)
        return deltas

    def render(self, index: int) -> JSON:
        """Return the choice in non-streaming form."""
        return self._reasons | {"index": index, "message": self.message.render()}

    def _update_reasons(self, choice: JSON) -> None:
        for key in ("finish_reason", "native_finish_reason"):
            reason = choice.get(key)
            # A later chunk cannot undo that a reply was cut off.
            if reason and isinstance(reason, str) and not self._is_final(key):
                self._reasons[key] = reason

    def _is_final(self, key: str) -> bool:
        """Whether the reason under a key says that the reply is unfinished."""
        return finish_kind(self._reasons.get(key)) in UNFINISHED


def _has_content(delta: Any) -> bool:
    """Whether a delta has more than a role."""
    return isinstance(delta, dict) and any(delta[key] for key in delta if key != "role")


def _is_end_mark(data: str) -> bool:
    mark = data.strip()
    return len(mark) < _MAX_DONE_MARK and "".join(mark.split()).casefold() == _DONE_MARK


def _decode_event(data: str) -> Any:
    """Decode JSON; return other text unchanged, since no chunk is a string."""
    try:
        return decode_json(data)
    except TooDeep:
        return data
    except ValueError:
        pass
    try:
        # Lone surrogates are kept: the other half of a pair may be in the next event.
        return replace_non_finite(json.loads(data, strict=False))
    except ValueError:
        return data
