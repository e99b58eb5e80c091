"""Converts the tools of a server to tool definitions: selects, names, and hints them.

    the server's list ─ selected ─► named ─► hinted ─► ToolDefinition

Servers are untrusted. Schemas are rewritten within limits, and references are never fetched.
Characters that providers do not accept in a name become `_`; calls to the server use its own name.
Only hints that make a tool stricter are applied, unless the application trusts the server.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypedDict

import msgspec

from surecall.parsing.names import MAX_NAME_LENGTH, fold_name, is_legal_name
from surecall.tools.binding import Handler
from surecall.tools.registry import ToolDefinition
from surecall.tools.validation import clip_middle
from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message
from surecall.values.types import JSON

_SHOWN = 80
# Names of hints in MCP, and in this package.
_HINTS = {
    "readOnlyHint": "read_only",
    "idempotentHint": "idempotent",
    "destructiveHint": "destructive",
}


class Hints(TypedDict, total=False):
    """The side effects of a tool."""

    read_only: bool
    idempotent: bool
    destructive: bool


class ServerTool(msgspec.Struct, frozen=True):
    """A tool as described by its server; `hints` has only those that the server set."""

    name: str
    description: str
    parameters: JSON
    hints: Hints


class ToolSelection(msgspec.Struct, frozen=True):
    """The application's selection of a server's tools, by the server's names."""

    prefix: str = ""
    allow: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()
    trust_hints: bool = False
    hints: dict[str, Hints] = {}
    timeout_s: float | None = None

    def includes(self, name: str) -> bool:
        """Whether a tool is selected; `deny` takes precedence over `allow`."""
        return (self.allow is None or name in self.allow) and name not in self.deny

    def effective_hints(self, tool: ServerTool) -> Hints:
        """Return the effective hints: the application's, then those accepted from the server.

        Read-only and idempotent tools may run twice, so these hints need a trusted server. The hint
        `destructive` is always accepted. MCP's default (destructive) is not applied.
        """
        own = self.hints.get(tool.name, Hints())
        server_hints = tool.hints
        if not self.trust_hints:
            server_hints = Hints(destructive=server_hints.get("destructive", False))
        # Of contradictory hints, the stricter one applies.
        if server_hints.get("destructive"):
            server_hints = server_hints | Hints(read_only=False)
        if own.get("read_only"):
            server_hints = server_hints | Hints(destructive=False)
        return server_hints | own


def build_selection(
    prefix: str,
    allow: Iterable[str] | None,
    deny: Iterable[str],
    hints: Mapping[str, Hints] | None,
    *,
    trust_hints: bool,
    timeout_s: float | None,
) -> ToolSelection:
    """Return the application's selection; raise for mistakes detectable without the server."""
    if prefix and not is_legal_name(prefix):
        raise ConfigError(f"prefix {prefix!r:.80} must be letters, digits, '_' or '-', at most 64")
    for word, names in (("allow", allow), ("deny", deny)):
        if isinstance(names, str):
            raise ConfigError(f"{word} must be a list of names, as in [{names!r:.80}]")
    known = Hints.__annotations__
    for name, given in (hints or {}).items():
        for hint in given:
            if hint not in known:
                raise ConfigError(
                    f"hints of {name!r:.80}: {unknown_name_message('hint', str(hint), known)}"
                )
    return ToolSelection(
        prefix,
        None if allow is None else frozenset(allow),
        frozenset(deny),
        trust_hints,
        dict(hints or {}),
        timeout_s,
    )


def check_names(selection: ToolSelection, listed: Collection[str]) -> None:
    """Raise for names that the server does not have; a mistyped `deny` would allow a tool."""
    for word, names in (
        ("allow", selection.allow or ()),
        ("deny", selection.deny),
        ("hints", selection.hints),
    ):
        for name in sorted(names):
            if name not in listed:
                raise ConfigError(unknown_name_message(f"tool in {word}", name, listed))


def parse_tool(listed: JSON) -> ServerTool:
    """Parse one tool of a server's list."""
    annotations = listed.get("annotations") or {}
    hints = {ours: annotations.get(theirs) for theirs, ours in _HINTS.items()}
    valid_hints: Any = {name: value for name, value in hints.items() if isinstance(value, bool)}
    title = listed.get("title") or annotations.get("title") or ""
    return ServerTool(
        listed["name"],
        listed.get("description") or title,
        listed.get("inputSchema") or {},
        valid_hints,
    )


def define_tools(
    tools: Iterable[ServerTool],
    selection: ToolSelection,
    handler_of: Callable[[ServerTool], Handler],
) -> dict[str, ToolDefinition]:
    """Return the definitions of the selected tools, by the server's names.

    Raises `ConfigError` with the remedy for tools that providers would reject.
    """
    definitions: dict[str, ToolDefinition] = {}
    taken: dict[str, str] = {}
    for tool in filter(lambda tool: selection.includes(tool.name), tools):
        name = _tool_name(tool.name, selection.prefix)
        other = taken.setdefault(fold_name(name), tool.name)
        if tool.name in definitions or other != tool.name:
            raise ConfigError(
                f"the tools {clip_middle(repr(other), _SHOWN)} and "
                f"{clip_middle(repr(tool.name), _SHOWN)} "
                f"would both be called {name!r}: {_advice_to_deny(tool.name)}"
            )
        definitions[tool.name] = _define_tool(name, tool, selection, handler_of(tool))
    return definitions


def _tool_name(name: str, prefix: str) -> str:
    """Return the name of a tool for the model."""
    full = prefix + "".join(mark if is_legal_name(mark) else "_" for mark in name)
    if not name:
        raise ConfigError(f"a tool has no name: {_advice_to_deny(name)}")
    if len(full) > MAX_NAME_LENGTH:
        shorter = " or shorten the prefix" if prefix and len(name) < MAX_NAME_LENGTH else ""
        raise ConfigError(
            f"the tool {clip_middle(repr(name), _SHOWN)} has a name of {len(full)} characters, and "
            f"providers accept at most {MAX_NAME_LENGTH}: {_advice_to_deny(name)}{shorter}"
        )
    return full


def _define_tool(
    name: str, tool: ServerTool, selection: ToolSelection, handler: Handler
) -> ToolDefinition:
    try:
        definition = ToolDefinition(
            name,
            tool.description,
            parameters=tool.parameters,
            handler=handler,
            timeout_s=selection.timeout_s,
            **selection.effective_hints(tool),
        )
        _ = definition.validate  # compiled here to detect an invalid schema early
    except ConfigError as problem:
        shown = clip_middle(repr(tool.name), _SHOWN)
        raise ConfigError(
            f"the tool {shown} cannot be used: {clip_middle(str(problem))} "
            f"({_advice_to_deny(tool.name)})"
        ) from None
    return definition


def _advice_to_deny(name: str) -> str:
    return f"leave it out with deny=[{clip_middle(repr(name), _SHOWN)}]"
