"""Fragments of tool calls: which call each one belongs to, and what of it is new.

A provider should send `index` and `id` with the name, then pieces of the arguments under that
`index`. Real ones leave out, share, shift and reuse both, repeat names, and send the arguments
anew with every piece. The rules here never drop a piece; where two readings are possible they
take the one that ends in unreadable arguments, which never runs, rather than in a wrong call.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from surecall.parsing.almost_json import mended
from surecall.parsing.budget import Budget
from surecall.values.nesting import encode_json
from surecall.values.types import JSON

_FUNCTION_KEYS = frozenset({"name", "arguments"})
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_CALL_KEYS = frozenset({"id", "index", "function"}) | _FUNCTION_KEYS
VOID = (None, "")
_MERGE_DEPTH = 3
_PAD = "…"
_UNWRITABLE = "\ufffd"


class Text:
    """Text in pieces. They are joined only when the whole is needed."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self._cumulative = False

    def append(self, piece: str) -> None:
        """Add a piece."""
        if piece:
            self.pieces.append(piece)
            self.length += len(piece)

    def joined(self) -> str:
        """Return the whole."""
        return "".join(self.pieces)

    def fresh(self, piece: str, is_replay: Callable[[], bool]) -> str:
        """Return what of a piece is new: all of it, or what follows the whole that it repeats.

        A piece shorter than the whole is never compared, so this is linear, and an ending that
        repeats itself (`100` and `00`) is not mistaken for a repetition.
        """
        if not 0 < self.length <= len(piece) or not piece.startswith(self.joined()):
            return piece
        if len(piece) > self.length:
            self._cumulative = True
            return piece[self.length :]
        return "" if self._cumulative or is_replay() else piece


class _Scan:
    """Where in JSON a text ends. Every piece is read once, however often this is asked."""

    def __init__(self) -> None:
        self._seen = self._depth = 0
        self._quoted = self._escaped = self.has_begun = False

    def is_open(self, pieces: list[str]) -> bool:
        """Whether an object, list or string has not ended yet."""
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


class Arguments:
    """The arguments of one call so far: text in pieces, or an object that is sent whole.

    Beyond `limit` bytes nothing more is stored, and `size` stays one above it. What is stored is
    spent from the `budget`.
    """

    def __init__(self, limit: int | None = None, budget: Budget | None = None) -> None:
        self._limit = limit
        self._budget = budget or Budget()
        self._text = Text()
        self._scan = _Scan()
        self._object: JSON | None = None
        self.size = 0

    def add(self, value: Any) -> None:
        """Take a fragment, or an object that replaces what was there."""
        match value:
            case str():
                self._add_text(value)
            case dict() if value:
                self._object = value
                self._budget.spend(value)
                self.size = len(written(value).encode())
            # An empty object only announces that the arguments begin.
            case None | dict():
                pass
            case _:
                self._add_text(written(value))

    def _add_text(self, text: str) -> None:
        if self._object is not None:
            if not text.strip():
                return
            # Two objects in a row are refused by the reader, or read once if they are equal.
            self._text, self._scan, self.size = Text(), _Scan(), 0
            earlier, self._object = written(self._object), None
            self._append(earlier)
        self._append(self._text.fresh(text, lambda: self.closed))

    def _append(self, text: str) -> None:
        self._budget.spend_text("" if self.too_large else text)
        data = text.encode("utf-8", "replace")
        if self._limit is None or self.size + len(data) <= self._limit:
            self._text.append(text)
            self.size += len(data)
        else:
            self._text.append(data[: self._limit + 1 - self.size].decode("utf-8", "ignore"))
            self.size = self._limit + 1

    @property
    def too_large(self) -> bool:
        """Whether there was more than may be kept."""
        return self._limit is not None and self.size > self._limit

    @property
    def open(self) -> bool:
        """Whether the text stops inside an object, a list or a string."""
        return self._object is None and self._scan.is_open(self._text.pieces)

    @property
    def closed(self) -> bool:
        """Whether there is JSON, and nothing in it is left open."""
        return not self.open and (self._object is not None or self._scan.has_begun)

    def restarts(self, value: Any) -> bool:
        """Whether a fragment is the beginning of other arguments, after these have ended."""
        if isinstance(value, dict):
            return self._object is not None and not _extends(self._object, value)
        if not isinstance(value, str) or not value.lstrip().startswith("{") or not self.closed:
            return False
        known = self._text
        return known.length > len(value) or not value.startswith(known.joined())

    def continues(self, value: Any) -> bool:
        """Whether a fragment may be the middle of these arguments, as blank text may."""
        return isinstance(value, str) and not value.lstrip().startswith("{") and self.open

    def value(self) -> Any:
        """Return the object, or the text; of what was too large, enough to be refused."""
        if self._object is not None:
            return self._object
        text = mended(self._text.joined())
        # Blanks at the edges do not count towards the size, so a cut text must have none.
        return text if not self.too_large else text.lstrip().ljust(self.size, _PAD) + _PAD


class Fragment(msgspec.Struct, frozen=True):
    """One item of a `tool_calls` delta, with absent and blank made equal."""

    index: int | None
    id: str
    name: str
    arguments: Any
    extra: JSON

    @property
    def blank(self) -> bool:
        """Whether it says nothing."""
        return not (self.id or self.name or self.arguments or self.extra.keys() - {"type"})


def read_fragment(raw: JSON) -> Fragment:
    """Read an item, with or without its `function` wrapper."""
    index, given = raw.get("index"), raw.get("id")
    extra = _beside(raw, _CALL_KEYS)
    function = raw.get("function")
    if not isinstance(function, dict):
        function = raw
    elif inner := _beside(function, _FUNCTION_KEYS):
        extra["function"] = inner
    name = function.get("name")
    if isinstance(index, str) and index.isascii() and index.isdigit():
        index = int(index[:9])
    return Fragment(
        index if isinstance(index, int) else None,
        str(given).strip() if isinstance(given, str | int) else "",
        name if isinstance(name, str) and name.strip() else "",
        function.get("arguments"),
        extra,
    )


def _beside(mapping: JSON, known: frozenset[str]) -> JSON:
    return {key: item for key, item in mapping.items() if key not in known and item not in VOID}


class Call:
    """One call, as far as it has arrived."""

    def __init__(self, position: int, arguments: Arguments, twin: "Call | None" = None) -> None:
        self.position = position
        self.id = ""
        self.name: str = "" if twin is None else twin.name
        self.arguments = arguments
        self.extra: JSON = {"type": "function"}
        self.named_again = False
        self._twin = twin

    @property
    def is_echo(self) -> bool:
        """Whether it only repeats the call before it, piece by piece."""
        return self._twin is not None and self.arguments.value() == self._twin.arguments.value()

    def render(self) -> JSON:
        """Write the call the way a plain answer has it; without an id if none came."""
        function = {"name": self.name, "arguments": self.arguments.value()}
        call = self.extra | {"function": self.extra.get("function", {}) | function}
        return call | {"id": self.id} if self.id else call


class Calls:
    """The calls of one reply, in the order in which they began."""

    def __init__(self, known_names: Iterable[str], limit: int | None, budget: Budget) -> None:
        self._names = frozenset(known_names)
        self._limit = limit
        self._budget = budget
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._active: Call | None = None
        self.all: list[Call] = []

    def add(self, fragment: Fragment, position: int = 0, siblings: int = 1) -> Call:
        """Give a fragment to the call it belongs to; it was number `position` of its chunk."""
        call = self._candidate(fragment, position, siblings)
        if call is None or self._opens(call, fragment):
            twin = call if call is not None and call.named_again and not fragment.name else None
            call = Call(len(self.all), Arguments(self._limit, self._budget), twin)
            self.all.append(call)
        elif fragment.name == call.name != "" and self._may_be_twin(call, fragment):
            call.named_again = True
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        if fragment.id:
            self._by_id[fragment.id] = call
            call.id = call.id or fragment.id
        self._budget.spend_text(fragment.id + fragment.name)
        call.name = self.joined_name(call.name, fragment.name)
        call.arguments.add(fragment.arguments)
        if fragment.extra:
            self._budget.spend(fragment.extra if fragment.extra.keys() - {"type"} else None)
            call.extra = merged(call.extra, fragment.extra)
        self._active = call
        return call

    def joined_name(self, name: str, piece: str) -> str:
        """Append what completes a known name; anything else is the name once more."""
        if not piece or piece == name:
            return name
        return name + piece if self._is_known_start(name + piece) else piece

    def _is_known_start(self, start: str) -> bool:
        return any(name.startswith(start) for name in self._names)

    def _candidate(self, fragment: Fragment, position: int, siblings: int) -> Call | None:
        """Return the call that a fragment points to: by index, then id, then place."""
        by_id = self._by_id.get(fragment.id)
        if fragment.index is None:
            if by_id is not None or siblings == 1:
                return by_id or self._active
            return self.all[position] if position < len(self.all) else None
        by_index = self._by_index.get(fragment.index)
        if by_index is not None:
            return by_index if by_index.id == fragment.id else by_id or by_index
        return by_id or (self._active if self._is_shifted(fragment) else None)

    def _is_shifted(self, fragment: Fragment) -> bool:
        """Whether bare arguments under a new index are those the last call still waits for."""
        if fragment.id or fragment.name or self._active is None:
            return False
        return not (fragment.arguments and self._active.arguments.size)

    def _opens(self, call: Call, fragment: Fragment) -> bool:
        """Whether a fragment starts another call, although it points to this one."""
        if fragment.index is not None and not (fragment.id or fragment.name):
            return call.named_again and call.arguments.restarts(fragment.arguments)
        is_own_id = fragment.id in {"", call.id} or self._by_id.get(fragment.id) is call
        is_other_id = call.id != "" and not is_own_id
        is_own_index = fragment.index is None or self._by_index.get(fragment.index) is call
        is_renamed = fragment.name != "" and not self._is_name_of(call, fragment.name)
        if fragment.id and is_own_id and is_own_index:
            return is_renamed and call.arguments.closed
        if is_other_id and fragment.name == call.name != "":
            return not call.arguments.continues(fragment.arguments)
        return is_renamed or call.arguments.restarts(fragment.arguments)

    def _may_be_twin(self, call: Call, fragment: Fragment) -> bool:
        """Whether a name that comes again, alone, may announce another call of the same tool."""
        is_moved = fragment.index is not None and self._by_index.get(fragment.index) is not call
        is_alone = not fragment.arguments and call.arguments.closed
        return is_alone and (is_moved or not fragment.id)

    def _is_name_of(self, call: Call, name: str) -> bool:
        """Whether a name is the call's own: again, the rest of it, or a longer start of it."""
        if name == call.name:
            return True
        both_known = {name, call.name} <= self._names
        is_longer = name.startswith(call.name) and not both_known
        return is_longer or self._is_known_start(call.name + name)


def merged(old: Any, new: Any, depth: int = _MERGE_DEPTH) -> Any:
    """Merge into `old` what is beside the documented keys; null never overwrites."""
    if not (depth and isinstance(old, dict) and isinstance(new, dict)):
        return old if new is None else new
    for key, value in new.items():
        old[key] = merged(old.get(key), value, depth - 1)
    return old


def written(value: Any) -> str:
    """Write JSON; what cannot be written becomes text that no reader takes for arguments."""
    try:
        # Not `msgspec`, which writes NaN as null: the reader must see it to refuse it.
        return mended(encode_json(value, _COMPACT.encode))
    except ValueError:
        return _UNWRITABLE


def _extends(old: JSON, new: JSON) -> bool:
    """Whether an object may be a later state of another: no key lost, no value begun anew."""
    return all(
        key in new and (isinstance(value, dict | list) or str(new[key]).startswith(str(value)))
        for key, value in old.items()
    )
