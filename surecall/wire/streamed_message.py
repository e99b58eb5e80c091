"""Assembles one streamed message from its deltas and reports what each delta adds.

Text and calls arrive in fragments; undocumented fields are kept. A complete message may repeat what
its deltas contained. Nothing here raises.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from surecall.parsing.budget import StreamBudget
from surecall.parsing.call_fragments import (
    ArgumentsBuffer,
    CallAssembler,
    CallBuffer,
    DetailAssembler,
    TextBuffer,
    merge_extra,
    parse_fragment,
)
from surecall.values.text import join_surrogates
from surecall.values.types import JSON
from surecall.wire.content_parts import calls_in, is_provider_state, parts_of, reasoning_in, text_of

_CONTENT = "content"
_TEXT_KEYS = frozenset({_CONTENT, "reasoning_content", "reasoning", "refusal"})
_REASONING_LISTS = ("reasoning_details", "thinking_blocks")
# Fields that may hold reasoning; a provider that uses several repeats it in each.
_REASONING_FIELDS = ("reasoning_content", "reasoning", *_REASONING_LISTS)
_MESSAGE_KEYS = _TEXT_KEYS | {*_REASONING_LISTS, "role", "tool_calls", "function_call"}


# The only keys of many deltas.
_CALLS_ONLY_KEYS = {"tool_calls"}


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """A fragment of the answer text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning"):
    """A fragment of the model's reasoning; `field` is the provider's name for it."""

    text: str
    field: str = "reasoning_content"


class CallDelta(msgspec.Struct, frozen=True, tag="call"):
    """Progress of a call, which may lack its name. Never run a call from a delta."""

    position: int
    name: str
    arguments_so_far_bytes: int


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta


class StreamedMessage:
    """The assistant message received so far."""

    def __init__(self, known_names: Iterable[str], limit: int | None, budget: StreamBudget) -> None:
        self._names, self._limit = tuple(known_names), limit
        self._budget = budget
        self._calls = CallAssembler(self._names, limit, budget)
        self._has_streamed_calls = False
        self._function_call = CallBuffer(0, ArgumentsBuffer(limit, budget))
        # Calls among the content parts; they stay there.
        self._content_calls = CallAssembler(self._names, limit, budget)
        # `tool_calls` sent as JSON text; parsed together with the body.
        self._json_text_calls = ArgumentsBuffer(None, budget)
        self._texts: dict[str, TextBuffer] = {}
        self._streamed: set[str] = set()
        self._half_surrogates: dict[str, str] = {}
        # Under `content`: its parts that are neither text nor calls.
        self._details: dict[str, DetailAssembler] = {}
        self._extra_texts: dict[str, TextBuffer] = {}
        self._extra: JSON = {}

    @property
    def call_count(self) -> int:
        """The number of calls that have begun."""
        return len(self._calls.calls) + len(self._content_calls.calls)

    @property
    def is_open(self) -> bool:
        """Whether the arguments of a call are missing or incomplete."""
        arguments = [
            call.arguments
            for call in (*self._calls.calls, *self._content_calls.calls, self._function_call)
        ]
        is_cut = any(
            each.is_open and not each.is_too_large for each in (*arguments, self._json_text_calls)
        )
        return is_cut or any(not call.arguments.size for call in self._calls.calls)

    def add(self, message: JSON, *, is_whole: bool = False) -> list[Delta]:
        """Add a delta, or a complete message that may repeat the deltas (`is_whole`)."""
        if message.keys() == _CALLS_ONLY_KEYS:
            return self._add_calls(message, is_whole=is_whole)
        news = {
            key: self._append_text(key, text, is_whole=is_whole)
            for key, text in _text_fields(message).items()
        }
        lists = [
            self._add_details(key, message.get(key), is_whole=is_whole) for key in _REASONING_LISTS
        ]
        self._add_extra(message, is_whole=is_whole)
        thoughts = (news.get("reasoning_content"), news.get("reasoning"), *lists)
        found = [
            (field, text) for field, text in zip(_REASONING_FIELDS, thoughts, strict=True) if text
        ]
        deltas: list[Delta] = [ReasoningDelta(text, field) for field, text in found[:1]]
        if text := news.get("content"):
            deltas.append(TextDelta(text))
        self._add_parts(message.get("content"), is_whole=is_whole)
        return deltas + self._add_calls(message, is_whole=is_whole)

    def add_text(self, text: str) -> list[Delta]:
        """Add a delta that has only text."""
        visible = self._append_text(_CONTENT, text, is_whole=False)
        return [TextDelta(visible)] if visible else []

    def render(self) -> JSON:
        """Return the message in non-streaming form."""
        message: JSON = {"role": "assistant", "content": None} | self._extra
        for key, text in (self._extra_texts | self._texts).items():
            message[key] = join_surrogates(text.full_text())
        for key, details in self._details.items():
            if key != _CONTENT:
                message[key] = details.render()
        if self._content_calls.calls or _CONTENT in self._details:
            message["content"] = self._render_content(message["content"])
        if self._calls.calls:
            calls = [call.render() for call in self._calls.calls if not call.is_echo]
            message["tool_calls"] = calls
        elif self._json_text_calls.size:
            message["tool_calls"] = self._json_text_calls.value()
        if self._function_call.name or self._function_call.arguments.size:
            message["function_call"] = self._function_call.render()["function"]
        return message

    def _render_content(self, text: str | None) -> list[JSON]:
        """Return content that has parts other than text."""
        kept = self._details[_CONTENT].render() if _CONTENT in self._details else []
        texts = [{"type": "text", "text": text}] if text else []
        return [
            *kept,
            *texts,
            *(call.render() | {"type": "tool_call"} for call in self._content_calls.calls),
        ]

    def _append_text(self, key: str, piece: str, *, is_whole: bool) -> str:
        """Append to a text field; return the new text that can be shown."""
        text = self._texts.setdefault(key, TextBuffer())
        if is_whole:
            is_repeated = key in self._streamed
            fresh = text.new_part(piece, lambda: is_repeated)
            piece = "" if is_repeated and len(fresh) == len(piece) else fresh
        elif piece:
            self._streamed.add(key)
        text.append(piece)
        self._budget.spend_text(piece)
        visible = self._half_surrogates.pop(key, "") + piece
        # Half of a surrogate pair cannot be shown; the rest comes with the next piece.
        if "\ud800" <= visible[-1:] <= "\udbff":
            self._half_surrogates[key], visible = visible[-1], visible[:-1]
        return join_surrogates(visible)

    def _add_details(self, key: str, raw: Any, *, is_whole: bool) -> str:
        """Add reasoning details; return the text that they add."""
        if not isinstance(raw, list) or (is_whole and key in self._details):
            return ""
        details = self._details.setdefault(key, DetailAssembler(self._budget))
        return "".join(details.add(item) for item in raw)

    def _add_extra(self, message: JSON, *, is_whole: bool) -> None:
        """Add undocumented fields."""
        for key, value in message.items():
            if key in _MESSAGE_KEYS or value is None:
                continue
            if isinstance(value, str):
                self._add_extra_text(key, value, is_whole=is_whole)
                continue
            old = self._extra.get(key)
            self._budget.spend(value if isinstance(value, list) or value != old else None)
            if isinstance(value, list) and isinstance(old, list):
                old.extend([] if is_whole else value)
            else:
                self._extra[key] = (
                    list(value) if isinstance(value, list) else merge_extra(old, value)
                )

    def _add_extra_text(self, key: str, piece: str, *, is_whole: bool) -> None:
        """Append to an undocumented text field, unless `piece` repeats it."""
        text = self._extra_texts.setdefault(key, TextBuffer())
        is_same = text.length == len(piece) and text.full_text() == piece
        if not is_same and not (is_whole and text.length):
            text.append(piece)
            self._budget.spend_text(piece)

    def _add_parts(self, content: Any, *, is_whole: bool) -> None:
        """Add the non-text parts of the content; their calls are reported with the body."""
        if opaque := [part for part in parts_of(content) if is_provider_state(part)]:
            self._add_details(_CONTENT, opaque, is_whole=is_whole)
        found = calls_in(content)
        if is_whole and self._content_calls.calls and found:
            return  # repeats them
        fragments = [parse_fragment(call) for call in found]
        for position, fragment in enumerate(fragments):
            self._content_calls.add(fragment, position, len(fragments))

    def _add_calls(self, message: JSON, *, is_whole: bool) -> list[Delta]:
        raw = message.get("tool_calls")
        if is_whole and self._has_streamed_calls and raw:
            # It repeats the calls, which matters only if the streamed ones are incomplete.
            if not self.is_open:
                return []
            self._calls = CallAssembler(self._names, self._limit, self._budget)
        self._has_streamed_calls = self._has_streamed_calls or bool(raw and not is_whole)
        if isinstance(raw, str):
            self._json_text_calls.add(raw)
        items = [raw] if isinstance(raw, dict) else raw if isinstance(raw, list) else []
        fragments = [parse_fragment(item) for item in items if isinstance(item, dict)]
        touched = [
            self._calls.add(fragment, position, len(fragments))
            for position, fragment in enumerate(fragments)
            if not fragment.is_blank
        ]
        legacy = message.get("function_call")
        if isinstance(legacy, dict):
            fragment = parse_fragment(legacy)
            self._function_call.name = self._calls.extend_name(
                self._function_call.name, fragment.name
            )
            self._function_call.arguments.add(fragment.arguments)
            touched.append(self._function_call)
        return [CallDelta(call.position, call.name, call.arguments.size) for call in touched]


def _text_fields(message: JSON) -> dict[str, str]:
    """Return the text fields of a message, assigning content parts to their fields."""
    texts = {
        key: text for key, text in message.items() if key in _TEXT_KEYS and isinstance(text, str)
    }
    content = message.get("content")
    if parts := parts_of(content):
        texts["content"] = text_of(content)
        if thought := reasoning_in(parts):
            texts["reasoning_content"] = texts.get("reasoning_content", "") + thought
    return texts
