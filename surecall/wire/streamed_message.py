"""A streamed message: its deltas put together, and what each of them adds.

Texts grow, calls come in fragments, and everything beside the documented keys is kept. A message
that comes whole may repeat what its deltas have said. Nothing here raises.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from surecall.parsing.almost_json import mended
from surecall.parsing.budget import Budget
from surecall.parsing.call_fragments import (
    Arguments,
    Call,
    Calls,
    Text,
    merged,
    read_fragment,
)
from surecall.parsing.reasoning_details import Details
from surecall.values.types import JSON
from surecall.wire.calls_in_content import calls_in, parts_of
from surecall.wire.content_parts import is_opaque, text_of, thoughts_in

_CONTENT = "content"
_TEXT_KEYS = frozenset({_CONTENT, "reasoning_content", "reasoning", "refusal"})
_THOUGHT_LISTS = ("reasoning_details", "thinking_blocks")
# Where the model's thoughts may be; a provider that uses several says the same in each.
_THOUGHTS = ("reasoning_content", "reasoning", *_THOUGHT_LISTS)
_MESSAGE_KEYS = _TEXT_KEYS | {*_THOUGHT_LISTS, "role", "tool_calls", "function_call"}


# What many deltas have: more of a call, and nothing else.
_ONLY_CALLS = {"tool_calls"}


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """More of the answer."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning"):
    """More of what the model thinks; `field` is what the provider calls it."""

    text: str
    field: str = "reasoning_content"


class CallDelta(msgspec.Struct, frozen=True, tag="call"):
    """A call that has grown. Its name may not be known yet; nothing may run from it."""

    position: int
    name: str
    arguments_so_far_bytes: int


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta


class StreamedMessage:
    """The assistant message, as far as it has arrived."""

    def __init__(self, known_names: Iterable[str], limit: int | None, budget: Budget) -> None:
        self._names, self._limit = tuple(known_names), limit
        self._budget = budget
        self._calls = Calls(self._names, limit, budget)
        self._has_streamed_calls = False
        self._legacy = Call(0, Arguments(limit, budget))
        # Calls that are parts of the content; they stay there.
        self._parts = Calls(self._names, limit, budget)
        # Calls that come as JSON text; who reads the body also reads them.
        self._spelt = Arguments(None, budget)
        self._texts: dict[str, Text] = {}
        self._streamed: set[str] = set()
        self._halves: dict[str, str] = {}
        # Under `content`, the parts of it that are neither text nor calls.
        self._details: dict[str, Details] = {}
        self._opaque: dict[str, Text] = {}
        self._extra: JSON = {}

    @property
    def calls_count(self) -> int:
        """How many calls have begun."""
        return len(self._calls.all) + len(self._parts.all)

    @property
    def is_open(self) -> bool:
        """Whether a call stops before its arguments, or in the middle of them."""
        arguments = [call.arguments for call in (*self._calls.all, *self._parts.all, self._legacy)]
        is_cut = any(each.open and not each.too_large for each in (*arguments, self._spelt))
        return is_cut or any(not call.arguments.size for call in self._calls.all)

    def add(self, message: JSON, *, is_whole: bool = False) -> list[Delta]:
        """Take a delta, or a message that may repeat what deltas have said (`is_whole`)."""
        if message.keys() == _ONLY_CALLS:
            return self._add_calls(message, is_whole=is_whole)
        news = {
            key: self._grow(key, text, is_whole=is_whole) for key, text in _texts(message).items()
        }
        lists = [
            self._add_details(key, message.get(key), is_whole=is_whole) for key in _THOUGHT_LISTS
        ]
        self._add_extra(message, is_whole=is_whole)
        thoughts = (news.get("reasoning_content"), news.get("reasoning"), *lists)
        told = [(field, text) for field, text in zip(_THOUGHTS, thoughts, strict=True) if text]
        deltas: list[Delta] = [ReasoningDelta(text, field) for field, text in told[:1]]
        if text := news.get("content"):
            deltas.append(TextDelta(text))
        self._add_parts(message.get("content"), is_whole=is_whole)
        return deltas + self._add_calls(message, is_whole=is_whole)

    def add_words(self, words: str) -> list[Delta]:
        """Take a delta that is nothing but words."""
        shown = self._grow(_CONTENT, words, is_whole=False)
        return [TextDelta(shown)] if shown else []

    def render(self) -> JSON:
        """Write the message the way a plain answer has it."""
        message: JSON = {"role": "assistant", "content": None} | self._extra
        for key, text in (self._opaque | self._texts).items():
            message[key] = mended(text.joined())
        for key, details in self._details.items():
            if key != _CONTENT:
                message[key] = details.render()
        if self._parts.all or _CONTENT in self._details:
            message["content"] = self._content(message["content"])
        if self._calls.all:
            calls = [call.render() for call in self._calls.all if not call.is_echo]
            message["tool_calls"] = calls
        elif self._spelt.size:
            message["tool_calls"] = self._spelt.value()
        if self._legacy.name or self._legacy.arguments.size:
            message["function_call"] = self._legacy.render()["function"]
        return message

    def _content(self, said: str | None) -> list[JSON]:
        """Write content that did not come as text alone."""
        kept = self._details[_CONTENT].render() if _CONTENT in self._details else []
        words = [{"type": "text", "text": said}] if said else []
        return [*kept, *words, *(call.render() | {"type": "tool_call"} for call in self._parts.all)]

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

    def _add_details(self, key: str, raw: Any, *, is_whole: bool) -> str:
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

    def _add_parts(self, content: Any, *, is_whole: bool) -> None:
        """Take parts of the content that are no text; calls are announced when all is there."""
        if opaque := [part for part in parts_of(content) if is_opaque(part)]:
            self._add_details(_CONTENT, opaque, is_whole=is_whole)
        found = calls_in(content)
        if is_whole and self._parts.all and found:
            return  # it says them once more
        fragments = [read_fragment(call) for call in found]
        for position, fragment in enumerate(fragments):
            self._parts.add(fragment, position, len(fragments))

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
    if parts := parts_of(content):
        texts["content"] = text_of(content)
        if thought := thoughts_in(parts):
            texts["reasoning_content"] = texts.get("reasoning_content", "") + thought
    return texts
