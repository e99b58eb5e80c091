"""Assembles streamed fragments into tool calls and reasoning details.

Providers should send `index` and `id` with the name, then pieces of the arguments under that
`index`. In practice they omit, share, shift, and reuse both, repeat names, and resend the arguments
with every piece. No piece is ever dropped. If two interpretations are possible, the code picks the
one that leads to malformed arguments, which never run, over the one that may run a wrong call.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from surecall.parsing.budget import StreamBudget
from surecall.values.nesting import encode_json
from surecall.values.text import join_surrogates
from surecall.values.types import JSON

_FUNCTION_KEYS = frozenset({"name", "arguments"})
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_CALL_KEYS = frozenset({"id", "index", "function"}) | _FUNCTION_KEYS
BLANK_VALUES = (None, "")
_MERGE_DEPTH = 3
_PADDING = "…"
_UNENCODABLE = "\ufffd"


class TextBuffer:
    """Text in pieces, which are joined only when the whole text is needed."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self._cumulative = False

    def append(self, piece: str) -> None:
        """Add a piece."""
        if piece:
            self.pieces.append(piece)
            self.length += len(piece)

    def full_text(self) -> str:
        """Return the whole text."""
        return "".join(self.pieces)

    def new_part(self, piece: str, is_replay: Callable[[], bool]) -> str:
        """Return the new part of a piece, which may repeat the whole text so far.

        A piece shorter than the whole is never compared. This keeps the work linear, and an ending
        that repeats itself (`100` and `00`) is not mistaken for a repetition.
        """
        if not 0 < self.length <= len(piece) or not piece.startswith(self.full_text()):
            return piece
        if len(piece) > self.length:
            self._cumulative = True
            return piece[self.length :]
        return "" if self._cumulative or is_replay() else piece


class _JsonScan:
    """Tracks whether JSON in pieces is complete. Every piece is scanned only once."""

    def __init__(self) -> None:
        self._seen = self._depth = 0
        self._quoted = self._escaped = self.has_begun = False

    def is_open(self, pieces: list[str]) -> bool:
        """Whether an object, list, or string has not ended yet."""
        for piece in pieces[self._seen :]:
            for char in piece:
                self._step(char)
        self._seen = len(pieces)
        return self._quoted or self._depth > 0

    def _step(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif self._quoted:
            self._escaped = char == "\\"
            self._quoted = char != '"'
        elif char == '"':
            self._quoted = self.has_begun = True
        elif char in "{[":
            self._depth += 1
            self.has_begun = True
        elif char in "}]":
            self._depth -= 1


class ArgumentsBuffer:
    """The arguments of one call so far: text in pieces, or an object that is sent whole.

    Beyond `limit` bytes nothing is stored, and `size` stays at `limit + 1`. Stored data is spent
    from the `budget`.
    """

    def __init__(self, limit: int | None = None, budget: StreamBudget | None = None) -> None:
        self._limit = limit
        self._budget = budget or StreamBudget()
        self._text = TextBuffer()
        self._scan = _JsonScan()
        self._object: JSON | None = None
        self.size = 0

    def add(self, value: Any) -> None:
        """Add a text fragment, or replace the arguments by an object."""
        match value:
            case str():
                self._add_text(value)
            case dict() if value:
                self._object = value
                self._budget.spend(value)
                self.size = len(encode_or_placeholder(value).encode())
            # An empty object only announces that arguments will follow.
            case None | dict():
                pass
            case _:
                self._add_text(encode_or_placeholder(value))

    def _add_text(self, text: str) -> None:
        if self._object is not None:
            if not text.strip():
                return
            # The parser rejects two objects in a row unless they are equal.
            self._text, self._scan, self.size = TextBuffer(), _JsonScan(), 0
            earlier, self._object = encode_or_placeholder(self._object), None
            self._append(earlier)
        self._append(self._text.new_part(text, lambda: self.is_closed))

    def _append(self, text: str) -> None:
        self._budget.spend_text("" if self.is_too_large else text)
        data = text.encode("utf-8", "replace")
        if self._limit is None or self.size + len(data) <= self._limit:
            self._text.append(text)
            self.size += len(data)
        else:
            self._text.append(data[: self._limit + 1 - self.size].decode("utf-8", "ignore"))
            self.size = self._limit + 1

    @property
    def is_too_large(self) -> bool:
        """Whether the arguments exceed the limit."""
        return self._limit is not None and self.size > self._limit

    @property
    def is_open(self) -> bool:
        """Whether the text stops inside an object, a list, or a string."""
        return self._object is None and self._scan.is_open(self._text.pieces)

    @property
    def is_closed(self) -> bool:
        """Whether the text holds complete JSON."""
        return not self.is_open and (self._object is not None or self._scan.has_begun)

    def is_restart(self, value: Any) -> bool:
        """Whether a fragment starts other arguments, after these have ended."""
        if isinstance(value, dict):
            return self._object is not None and not _is_extension(self._object, value)
        if not isinstance(value, str) or not _begins_object(value) or not self.is_closed:
            return False
        known = self._text
        return known.length > len(value) or not value.startswith(known.full_text())

    def is_continuation(self, value: Any) -> bool:
        """Whether a fragment, such as blank text, may be in the middle of these arguments."""
        return isinstance(value, str) and not value.lstrip().startswith("{") and self.is_open

    def value(self) -> Any:
        """Return the object or the text; oversized text is cut but still too large to pass."""
        if self._object is not None:
            return self._object
        text = join_surrogates(self._text.full_text())
        # Outer blanks do not count toward the size, so a cut text must have none.
        return (
            text if not self.is_too_large else text.lstrip().ljust(self.size, _PADDING) + _PADDING
        )


def _begins_object(text: str) -> bool:
    """Whether a fragment begins an object, possibly one that is encoded as a string."""
    text = text.lstrip()
    return text.startswith(("{", '"{', '"\\"{')) or text.rstrip() == '"'


class CallFragment(msgspec.Struct, frozen=True):
    """One item of a `tool_calls` delta; absent fields are blank."""

    index: int | None
    id: str
    name: str
    arguments: Any
    extra: JSON

    @property
    def is_blank(self) -> bool:
        """Whether the fragment has no content."""
        return not (self.id or self.name or self.arguments or self.extra.keys() - {"type"})


def parse_fragment(raw: JSON) -> CallFragment:
    """Parse an item, with or without its `function` wrapper."""
    index, given = raw.get("index"), raw.get("id")
    extra = _extra_fields(raw, _CALL_KEYS)
    function = raw.get("function")
    if not isinstance(function, dict):
        function = raw
    elif inner := _extra_fields(function, _FUNCTION_KEYS):
        extra["function"] = inner
    name = function.get("name")
    if isinstance(index, str) and index.isascii() and index.isdigit():
        index = int(index[:9])
    return CallFragment(
        index if isinstance(index, int) else None,
        str(given).strip() if isinstance(given, str | int) else "",
        name if isinstance(name, str) and name.strip() else "",
        function.get("arguments"),
        extra,
    )


def _extra_fields(mapping: JSON, known: frozenset[str]) -> JSON:
    return {
        key: item for key, item in mapping.items() if key not in known and item not in BLANK_VALUES
    }


class CallBuffer:
    """The part of one call that has arrived so far."""

    def __init__(
        self, position: int, arguments: ArgumentsBuffer, twin: "CallBuffer | None" = None
    ) -> None:
        self.position = position
        self.id = ""
        self.name: str = "" if twin is None else twin.name
        self.arguments = arguments
        self.extra: JSON = {"type": "function"}
        self.is_name_repeated = False
        self._twin = twin

    @property
    def is_echo(self) -> bool:
        """Whether the call only repeats the previous call, piece by piece."""
        return self._twin is not None and self.arguments.value() == self._twin.arguments.value()

    def render(self) -> JSON:
        """Return the call in the form of a non-streamed reply, without an id if none arrived."""
        function = {"name": self.name, "arguments": self.arguments.value()}
        call = self.extra | {"function": self.extra.get("function", {}) | function}
        return call | {"id": self.id} if self.id else call


class CallAssembler:
    """Assigns fragments to the calls of one reply, in the order in which the calls started."""

    def __init__(self, known_names: Iterable[str], limit: int | None, budget: StreamBudget) -> None:
        self._names = frozenset(known_names)
        self._limit = limit
        self._budget = budget
        self._by_index: dict[int, CallBuffer] = {}
        self._by_id: dict[str, CallBuffer] = {}
        self._active: CallBuffer | None = None
        self.calls: list[CallBuffer] = []

    def add(self, fragment: CallFragment, position: int = 0, siblings: int = 1) -> CallBuffer:
        """Add a fragment, item `position` of its chunk, to its call; return the call."""
        call = self._find_call(fragment, position, siblings)
        if call is None or self._starts_new_call(call, fragment):
            twin = (
                call if call is not None and call.is_name_repeated and not fragment.name else None
            )
            call = CallBuffer(len(self.calls), ArgumentsBuffer(self._limit, self._budget), twin)
            self.calls.append(call)
        elif fragment.name == call.name != "" and self._may_be_twin(call, fragment):
            call.is_name_repeated = True
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        if fragment.id:
            self._by_id[fragment.id] = call
            call.id = call.id or fragment.id
        self._budget.spend_text(fragment.id + fragment.name)
        call.name = self.extend_name(call.name, fragment.name)
        call.arguments.add(fragment.arguments)
        if fragment.extra:
            self._budget.spend(fragment.extra if fragment.extra.keys() - {"type"} else None)
            call.extra = merge_extra(call.extra, fragment.extra)
        self._active = call
        return call

    def extend_name(self, name: str, piece: str) -> str:
        """Append a piece that completes a known name; any other piece replaces the name."""
        if not piece or piece == name:
            return name
        return name + piece if self._is_name_prefix(name + piece) else piece

    def _is_name_prefix(self, start: str) -> bool:
        return any(name.startswith(start) for name in self._names)

    def _find_call(self, fragment: CallFragment, position: int, siblings: int) -> CallBuffer | None:
        """Return the call that a fragment refers to: by index, then id, then position."""
        by_id = self._by_id.get(fragment.id)
        if fragment.index is None:
            if by_id is not None or siblings == 1:
                return by_id or self._active
            return self.calls[position] if position < len(self.calls) else None
        by_index = self._by_index.get(fragment.index)
        if by_index is not None:
            return by_index if by_index.id == fragment.id else by_id or by_index
        return by_id or (self._active if self._is_index_shifted(fragment) else None)

    def _is_index_shifted(self, fragment: CallFragment) -> bool:
        """Whether a fragment has the last call's missing arguments, under a new index."""
        if fragment.id or fragment.name or self._active is None:
            return False
        return not (fragment.arguments and self._active.arguments.size)

    def _starts_new_call(self, call: CallBuffer, fragment: CallFragment) -> bool:
        """Whether a fragment that refers to this call starts another one."""
        if fragment.index is not None and not (fragment.id or fragment.name):
            return call.is_name_repeated and call.arguments.is_restart(fragment.arguments)
        is_own_id = fragment.id in {"", call.id} or self._by_id.get(fragment.id) is call
        is_other_id = call.id != "" and not is_own_id
        is_own_index = fragment.index is None or self._by_index.get(fragment.index) is call
        is_renamed = fragment.name != "" and not self._is_name_of(call, fragment.name)
        if fragment.id and is_own_id and is_own_index:
            return is_renamed and call.arguments.is_closed
        if is_other_id and fragment.name == call.name != "":
            return not call.arguments.is_continuation(fragment.arguments)
        return is_renamed or call.arguments.is_restart(fragment.arguments)

    def _may_be_twin(self, call: CallBuffer, fragment: CallFragment) -> bool:
        """Whether a repeated name without arguments may start another call of the same tool."""
        is_moved = fragment.index is not None and self._by_index.get(fragment.index) is not call
        is_alone = not fragment.arguments and call.arguments.is_closed
        return is_alone and (is_moved or not fragment.id)

    def _is_name_of(self, call: CallBuffer, name: str) -> bool:
        """Whether a name repeats, completes, or extends the name of the call."""
        if name == call.name:
            return True
        both_known = {name, call.name} <= self._names
        is_longer = name.startswith(call.name) and not both_known
        return is_longer or self._is_name_prefix(call.name + name)


def merge_extra(old: Any, new: Any, depth: int = _MERGE_DEPTH) -> Any:
    """Merge undocumented fields into `old`; null never overwrites."""
    if not (depth and isinstance(old, dict) and isinstance(new, dict)):
        return old if new is None else new
    for key, value in new.items():
        old[key] = merge_extra(old.get(key), value, depth - 1)
    return old


def encode_or_placeholder(value: Any) -> str:
    """Encode JSON; return text that is never valid arguments if the value cannot be encoded."""
    try:
        # Not `msgspec`, which encodes NaN as null: the parser must see NaN to reject it.
        return join_surrogates(encode_json(value, _COMPACT.encode))
    except ValueError:
        return _UNENCODABLE


def _is_extension(old: JSON, new: JSON) -> bool:
    """Whether an object may be a later state of another: no key is lost, no value restarts."""
    return all(
        key in new and (isinstance(value, dict | list) or str(new[key]).startswith(str(value)))
        for key, value in old.items()
    )


# Reasoning that is streamed as lists: `reasoning_details` of routers, `thinking_blocks` of gateways
# to Anthropic's models, and content parts that are neither text nor calls.

_TEXT_KEYS = ("text", "summary", "thinking")
_IDENTITY_KEYS = ("type", "index", "id", "signature", "data")


class DetailAssembler:
    """Assembles reasoning details. Texts grow; signatures and encrypted data stay unchanged."""

    def __init__(self, budget: StreamBudget) -> None:
        self._budget = budget
        self._all: list[_DetailBuffer] = []
        # By type and index; the key None holds the most recent one.
        self._latest: dict[tuple[str, int] | None, _DetailBuffer] = {}

    def add(self, raw: Any) -> str:
        """Add one detail of a delta; return the text it added."""
        if not isinstance(raw, dict):
            return ""
        kind, index = raw.get("type"), raw.get("index")
        key = (kind, index) if isinstance(kind, str) and isinstance(index, int) else None
        detail = self._latest.get(key)
        if detail is None or not detail.accepts(raw):
            detail = _DetailBuffer(self._budget)
            self._all.append(detail)
        self._latest[None] = self._latest[key] = detail
        return detail.add(raw)

    def render(self) -> list[JSON]:
        """Return the details in the order in which they started, which must not change."""
        return [detail.render() for detail in self._all]


class _DetailBuffer:
    """The part of one reasoning detail that has arrived so far."""

    def __init__(self, budget: StreamBudget) -> None:
        self._budget = budget
        self._fields: JSON = {}
        self._texts: dict[str, TextBuffer] = {}
        self._lists: dict[str, list[Any]] = {}

    def accepts(self, raw: JSON) -> bool:
        """Whether `raw` continues this detail: no key conflicts, and no signed text grows."""
        for key in _IDENTITY_KEYS:
            value = raw.get(key)
            if isinstance(value, str | int) and self._fields.get(key, value) != value:
                return False
        for key in _TEXT_KEYS:
            held: Any = self._texts if isinstance(raw.get(key), list) else self._lists
            if raw.get(key) is not None and key in held:
                return False  # earlier pieces had another form
        is_signed = "signature" in self._fields and not raw.get("signature")
        return not (is_signed and any(raw.get(key) for key in _TEXT_KEYS))

    def add(self, raw: JSON) -> str:
        added = ""
        for key, value in raw.items():
            if key in _TEXT_KEYS and isinstance(value, str):
                self._texts.setdefault(key, TextBuffer()).append(value)
                self._budget.spend_text(value)
                added += value
            elif key in _TEXT_KEYS and isinstance(value, list):
                self._lists.setdefault(key, []).extend(value)
                self._budget.spend(value)
            elif value not in BLANK_VALUES and self._fields.get(key) != value:
                self._fields[key] = value
                self._budget.spend([key, value])
        return join_surrogates(added)

    def render(self) -> JSON:
        texts = {key: join_surrogates(text.full_text()) for key, text in self._texts.items()}
        return self._fields | self._lists | texts
