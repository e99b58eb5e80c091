"""The tools of a server as tools of ours: which are taken, under which names, with which hints.

    what the server lists ─ selected ─► named ─► hinted ─► ToolDefinition

What a server says is foreign. Its schemas are rewritten within limits, as those of an application
are, and never fetched from elsewhere. Its names are kept; what no provider accepts in a name
becomes `_`, and the server is still called by its own one. Of its hints only what makes a tool
stricter is believed, unless the application says that the server is trusted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypedDict

import msgspec

from surecall.parsing.names import MAX_LENGTH, fold, is_legal
from surecall.tools.binding import Handler
from surecall.tools.registry import ToolDefinition
from surecall.tools.validation import clipped
from surecall.values.errors import ConfigError
from surecall.values.family import unknown
from surecall.values.types import JSON

_SHOWN = 80
# MCP's words for what ours say.
_HINTS = {
    "readOnlyHint": "read_only",
    "idempotentHint": "idempotent",
    "destructiveHint": "destructive",
}


class Hints(TypedDict, total=False):
    """What a call does to the world, as far as it is known."""

    read_only: bool
    idempotent: bool
    destructive: bool


class ServerTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it. Of the hints it has those that the server gave."""

    name: str
    description: str
    parameters: JSON
    hints: Hints


class Selection(msgspec.Struct, frozen=True):
    """What the application wants of a server's tools; names are the server's own."""

    prefix: str = ""
    allow: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()
    trust_hints: bool = False
    hints: dict[str, Hints] = {}
    timeout_s: float | None = None

    def takes(self, name: str) -> bool:
        """Whether a tool is wanted; what is denied is not, even if it is allowed."""
        return (self.allow is None or name in self.allow) and name not in self.deny

    def believed(self, tool: ServerTool) -> Hints:
        """Return the hints that count: the application's own, then what the server may say.

        A tool that is read-only or idempotent may run twice, so a server that is not trusted cannot
        make it that. Every server may say that a tool is destructive. What MCP takes for granted
        where nothing is said (a tool is destructive) is no word of the server's.
        """
        own = self.hints.get(tool.name, Hints())
        said = tool.hints
        if not self.trust_hints:
            said = Hints(destructive=said.get("destructive", False))
        # One who says both of a tool is taken at the stricter word.
        if said.get("destructive"):
            said = said | Hints(read_only=False)
        if own.get("read_only"):
            said = said | Hints(destructive=False)
        return said | own


def selection_of(
    prefix: str,
    allow: Iterable[str] | None,
    deny: Iterable[str],
    hints: Mapping[str, Hints] | None,
    *,
    trust_hints: bool,
    timeout_s: float | None,
) -> Selection:
    """Check what the application wants, as far as that is possible without its server."""
    if prefix and not is_legal(prefix):
        raise ConfigError(f"prefix {prefix!r:.80} must be letters, digits, '_' or '-', at most 64")
    for word, names in (("allow", allow), ("deny", deny)):
        if isinstance(names, str):
            raise ConfigError(f"{word} must be a list of names, as in [{names!r:.80}]")
    known = Hints.__annotations__
    for name, given in (hints or {}).items():
        for hint in given:
            if hint not in known:
                raise ConfigError(f"hints of {name!r:.80}: {unknown('hint', str(hint), known)}")
    return Selection(
        prefix,
        None if allow is None else frozenset(allow),
        frozenset(deny),
        trust_hints,
        dict(hints or {}),
        timeout_s,
    )


def check_names(selection: Selection, listed: Collection[str]) -> None:
    """Refuse names that the server does not know: a mistyped `deny` would let a tool through."""
    for word, names in (
        ("allow", selection.allow or ()),
        ("deny", selection.deny),
        ("hints", selection.hints),
    ):
        for name in sorted(names):
            if name not in listed:
                raise ConfigError(unknown(f"tool in {word}", name, listed))


def read_tool(listed: JSON) -> ServerTool:
    """Read one tool of a server's list."""
    annotations = listed.get("annotations") or {}
    hints = {ours: annotations.get(theirs) for theirs, ours in _HINTS.items()}
    given: Any = {name: value for name, value in hints.items() if isinstance(value, bool)}
    title = listed.get("title") or annotations.get("title") or ""
    return ServerTool(
        listed["name"], listed.get("description") or title, listed.get("inputSchema") or {}, given
    )


def define(
    tools: Iterable[ServerTool],
    selection: Selection,
    handler_of: Callable[[ServerTool], Handler],
) -> dict[str, ToolDefinition]:
    """Make definitions of the tools that are wanted, each under its server's name.

    What cannot be offered to a model is refused, in a sentence that says what to do about it.
    """
    made: dict[str, ToolDefinition] = {}
    taken: dict[str, str] = {}
    for tool in filter(lambda tool: selection.takes(tool.name), tools):
        name = _name(tool.name, selection.prefix)
        other = taken.setdefault(fold(name), tool.name)
        if tool.name in made or other != tool.name:
            raise ConfigError(
                f"the tools {clipped(repr(other), _SHOWN)} and {clipped(repr(tool.name), _SHOWN)} "
                f"would both be called {name!r}: {_leave_out(tool.name)}"
            )
        made[tool.name] = _definition(name, tool, selection, handler_of(tool))
    return made


def _name(name: str, prefix: str) -> str:
    """Return the name under which the model knows a tool."""
    full = prefix + "".join(mark if is_legal(mark) else "_" for mark in name)
    if not name:
        raise ConfigError(f"a tool has no name: {_leave_out(name)}")
    if len(full) > MAX_LENGTH:
        shorter = " or shorten the prefix" if prefix and len(name) < MAX_LENGTH else ""
        raise ConfigError(
            f"the tool {clipped(repr(name), _SHOWN)} has a name of {len(full)} characters, and "
            f"providers take {MAX_LENGTH} at most: {_leave_out(name)}{shorter}"
        )
    return full


def _definition(
    name: str, tool: ServerTool, selection: Selection, handler: Handler
) -> ToolDefinition:
    try:
        made = ToolDefinition(
            name,
            tool.description,
            parameters=tool.parameters,
            handler=handler,
            timeout_s=selection.timeout_s,
            **selection.believed(tool),
        )
        _ = made.validate  # compiled here, so that a bad schema is found now
    except ConfigError as problem:
        shown = clipped(repr(tool.name), _SHOWN)
        raise ConfigError(
            f"the tool {shown} cannot be offered: {clipped(str(problem))} ({_leave_out(tool.name)})"
        ) from None
    return made


def _leave_out(name: str) -> str:
    return f"leave it out with deny=[{clipped(repr(name), _SHOWN)}]"
