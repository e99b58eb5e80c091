"""The assembler: deltas of a streamed chat completion become one body, as a plain answer has it.

    add(data) ─► what is new, to show progress
    finish()  ─► the body, or the `Fault` that the stream is

It only undoes what streaming did. Bent names, ids and arguments go into the body as they came,
because one normaliser reads streamed and plain answers alike. Nothing here raises, whatever a
provider sends, and every step costs time in proportion to the bytes it looks at.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from surecall.parsing.almost_json import mended
from surecall.parsing.budget import MAX_BYTES, MAX_CALLS, MAX_VALUES, Budget, holds_too_many
from surecall.parsing.call_fragments import (
    Arguments,
    Call,
    Calls,
    Text,
    merged,
    read_fragment,
)
from surecall.parsing.reasoning_details import Details
from surecall.values.errors import Fault
from surecall.values.types import JSON
from surecall.wire.content_parts import text_of
from surecall.wire.plain_json import finite
from surecall.wire.stream_faults import broken_off, holds_error, plain_fault, too_much, unreadable

_DONE = "[DONE]"
_HEAD_KEYS = ("id", "model", "provider", "created", "system_fingerprint", "service_tier")
_TEXT_KEYS = frozenset({"content", "reasoning_content", "reasoning", "refusal"})
_THOUGHT_LISTS = ("reasoning_details", "thinking_blocks")
_MESSAGE_KEYS = _TEXT_KEYS | {*_THOUGHT_LISTS, "role", "tool_calls", "function_call"}
# A reply that was cut off stays so, whatever a later chunk says.
_LASTING_REASONS = frozenset({"length", "content_filter", "error"})


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """More of the answer."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning"):
    """More of what the model thinks."""

    text: str


class CallDelta(msgspec.Struct, frozen=True, tag="call"):
    """A call that has grown. Its name may not be known yet; nothing may run from it."""

    position: int
    name: str
    arguments_so_far_bytes: int


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta
Judge: TypeAlias = Callable[[JSON], Fault]


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
        self._message = _Message(known_names, max_arguments_bytes, self._budget)
        self._head: JSON = {}
        self._usage: JSON | None = None
        self._choice: JSON | None = None
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
        if data.strip() == _DONE:
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
        reason = (self._choice or {}).get("finish_reason")
        if self._choice is None and self.skipped:
            return unreadable(self.skipped)
        # Some gateways add the end mark to a stream that broke off behind them.
        if reason is None and (self._message.is_open or not self._is_done):
            return broken_off(in_call=self._message.is_open)
        choices = []
        if self._choice is not None:
            choices = [self._choice | {"index": 0, "message": self._message.render()}]
        body = self._head | {"object": "chat.completion", "choices": choices}
        return body if self._usage is None else body | {"usage": self._usage}

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
        for key in _HEAD_KEYS:
            if chunk.get(key) and key not in self._head:
                self._head[key] = chunk[key]
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
        if not isinstance(choice, dict) or self.ended or not self._is_ours(choice.get("index")):
            return []
        if holds_error(choice):
            self._fault = self._judge(choice)
            return []
        self._add_usage(choice.get("usage"))
        self._note_reason(choice)
        delta, whole = choice.get("delta"), choice.get("message")
        deltas: list[Delta] = []
        if isinstance(delta, dict) and delta:
            deltas = self._message.add(delta)
        elif isinstance(whole, dict):
            deltas = self._message.add(whole, is_whole=True)
        if self._message.calls_count > MAX_CALLS:
            self._fault = too_much(f"The streamed answer has more than {MAX_CALLS} calls.")
        elif self._budget.spent:
            most = f"{self._max_bytes} bytes or {MAX_VALUES} values"
            self._fault = too_much(f"The streamed answer says more than {most}.")
        return deltas

    def _is_ours(self, index: Any) -> bool:
        """Whether a choice is the one we follow: the first that came."""
        if not isinstance(index, int):
            return True
        if self._index is None:
            self._index = index
        return index == self._index

    def _note_reason(self, choice: JSON) -> None:
        noted = self._choice = self._choice or {"finish_reason": None}
        reason, native = choice.get("finish_reason"), choice.get("native_finish_reason")
        if isinstance(reason, str) and reason and noted["finish_reason"] not in _LASTING_REASONS:
            noted["finish_reason"] = reason
        if native:
            noted["native_finish_reason"] = native


class _Message:
    """The assistant message, as far as it has arrived."""

    def __init__(self, known_names: Iterable[str], limit: int | None, budget: Budget) -> None:
        self._names, self._limit = tuple(known_names), limit
        self._budget = budget
        self._calls = Calls(self._names, limit, budget)
        self._has_streamed_calls = False
        self._legacy = Call(0, Arguments(limit, budget))
        # Calls that come as JSON text; who reads the body also reads them.
        self._spelt = Arguments(None, budget)
        self._texts: dict[str, Text] = {}
        self._streamed: set[str] = set()
        self._halves: dict[str, str] = {}
        self._details: dict[str, Details] = {}
        self._opaque: dict[str, Text] = {}
        self._extra: JSON = {}

    @property
    def calls_count(self) -> int:
        return len(self._calls.all)

    @property
    def is_open(self) -> bool:
        """Whether a call stops before its arguments, or in the middle of them."""
        arguments = [call.arguments for call in (*self._calls.all, self._legacy)]
        is_cut = any(each.open and not each.too_large for each in (*arguments, self._spelt))
        return is_cut or any(not call.arguments.size for call in self._calls.all)

    def add(self, message: JSON, *, is_whole: bool = False) -> list[Delta]:
        """Take a delta, or a message that may repeat what deltas have said (`is_whole`)."""
        news = {
            key: self._grow(key, text, is_whole=is_whole) for key, text in _texts(message).items()
        }
        lists = [self._add_details(message, key, is_whole=is_whole) for key in _THOUGHT_LISTS]
        self._add_extra(message, is_whole=is_whole)
        thoughts = (news.get("reasoning_content"), news.get("reasoning"), *lists)
        thought = next(filter(None, thoughts), "")
        deltas: list[Delta] = [ReasoningDelta(thought)] if thought else []
        if text := news.get("content"):
            deltas.append(TextDelta(text))
        return deltas + self._add_calls(message, is_whole=is_whole)

    def render(self) -> JSON:
        """Write the message the way a plain answer has it."""
        message: JSON = {"role": "assistant", "content": None} | self._extra
        for key, text in (self._opaque | self._texts).items():
            message[key] = mended(text.joined())
        for key, details in self._details.items():
            message[key] = details.render()
        if self._calls.all:
            calls = [call.render() for call in self._calls.all if not call.is_echo]
            message["tool_calls"] = calls
        elif self._spelt.size:
            message["tool_calls"] = self._spelt.value()
        if self._legacy.name or self._legacy.arguments.size:
            message["function_call"] = self._legacy.render()["function"]
        return message

    def _grow(self, key: str, piece: str, *, is_whole: bool) -> str:
        """Add to a text; return what may be shown of it."""
        text = self._texts.setdefault(key, Text())
        if is_whole:
            is_repeated = key in self._streamed
            fresh = text.fresh(piece, lambda: is_repeated)
            piece = "" if is_repeated and len(fresh) == len(piece) else fresh
        elif piece:
            self._streamed.add(key)
        text.append(piece)
        self._budget.spend_text(piece)
        shown = self._halves.pop(key, "") + piece
        # One half of a surrogate pair cannot be shown; the other comes with the next piece.
        if "\ud800" <= shown[-1:] <= "\udbff":
            self._halves[key], shown = shown[-1], shown[:-1]
        return mended(shown)

    def _add_details(self, message: JSON, key: str, *, is_whole: bool) -> str:
        raw = message.get(key)
        if not isinstance(raw, list) or (is_whole and key in self._details):
            return ""
        details = self._details.setdefault(key, Details(self._budget))
        return "".join(details.add(item) for item in raw)

    def _add_extra(self, message: JSON, *, is_whole: bool) -> None:
        for key, value in message.items():
            if key in _MESSAGE_KEYS or value is None:
                continue
            if isinstance(value, str):
                self._add_opaque(key, value, is_whole=is_whole)
                continue
            old = self._extra.get(key)
            self._budget.spend(value if isinstance(value, list) or value != old else None)
            if isinstance(value, list) and isinstance(old, list):
                old.extend([] if is_whole else value)
            else:
                self._extra[key] = list(value) if isinstance(value, list) else merged(old, value)

    def _add_opaque(self, key: str, piece: str, *, is_whole: bool) -> None:
        """Add to a text that nobody knows; one that says all there is once more adds nothing."""
        text = self._opaque.setdefault(key, Text())
        is_same = text.length == len(piece) and text.joined() == piece
        if not is_same and not (is_whole and text.length):
            text.append(piece)
            self._budget.spend_text(piece)

    def _add_calls(self, message: JSON, *, is_whole: bool) -> list[Delta]:
        raw = message.get("tool_calls")
        if is_whole and self._has_streamed_calls and raw:
            # It says the calls once more; only if they did not come through does it matter.
            if not self.is_open:
                return []
            self._calls = Calls(self._names, self._limit, self._budget)
        self._has_streamed_calls = self._has_streamed_calls or bool(raw and not is_whole)
        if isinstance(raw, str):
            self._spelt.add(raw)
        items = [raw] if isinstance(raw, dict) else raw if isinstance(raw, list) else []
        fragments = [read_fragment(item) for item in items if isinstance(item, dict)]
        touched = [
            self._calls.add(fragment, position, len(fragments))
            for position, fragment in enumerate(fragments)
            if not fragment.blank
        ]
        legacy = message.get("function_call")
        if isinstance(legacy, dict):
            fragment = read_fragment(legacy)
            self._legacy.name = self._calls.joined_name(self._legacy.name, fragment.name)
            self._legacy.arguments.add(fragment.arguments)
            touched.append(self._legacy)
        return [CallDelta(call.position, call.name, call.arguments.size) for call in touched]


def _texts(message: JSON) -> dict[str, str]:
    """Return the texts of a message by their keys; parts of the content go where they belong."""
    texts = {
        key: text for key, text in message.items() if key in _TEXT_KEYS and isinstance(text, str)
    }
    content = message.get("content")
    if isinstance(content, list | dict):
        texts["content"] = text_of(content)
        parts = content if isinstance(content, list) else [content]
        if thought := "".join(map(_thinking, parts)):
            texts["reasoning_content"] = texts.get("reasoning_content", "") + thought
    return texts


def _thinking(part: Any) -> str:
    match part:
        case {"type": "thinking", "thinking": thought}:
            return text_of(thought)
        case _:
            return ""


def _decoded(data: str) -> Any:
    """Read JSON; text that is none comes back as it is, since no chunk is a string."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        # Unlike the reader of plain bodies this keeps lone surrogates: the other half of a pair
        # may be in the next event.
        return finite(json.loads(data, strict=False))
    except (ValueError, RecursionError):
        return data
