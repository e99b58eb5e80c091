"""The tools of a request: what a call of the model is judged by, and what the upstream is sent.

A tool that cannot be judged (its schema is odd, or it is no function) is sent as it is, and a call
of it is not checked. A name that many endpoints refuse, such as one with a dot, is sent in letters
that all of them take, and comes back to the client as it was. What follows from a list of tools is
kept: an agent sends the same list with every request.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from surecall.parsing.names import is_legal, legal
from surecall.tools.registry import Toolbox, ToolDefinition, ToolRegistry
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, ToolSpec
from surecall.wire.messages import encode

_MOST_KEPT: Final = 256
_LARGE: Final = 512 * 1024


class Offer:
    """The tools of one request. `renamed` maps the names of the client to those that are sent."""

    def __init__(self, tools: Sequence[Any]) -> None:
        self.renamed = _renamed(tools)
        self.given = {sent: name for name, sent in self.renamed.items()}
        named = [tool for tool in tools if name_of(tool)]
        definitions = [_definition(tool, self.renamed) for tool in named]
        self.toolbox: Toolbox = _toolbox(definitions)
        self.specs: tuple[ToolSpec, ...] = tuple(each.spec for each in self.toolbox.definitions)
        self.sent = [self._sent(tool) for tool in tools] if self.renamed else list(tools)

    def _sent(self, tool: Any) -> Any:
        name = name_of(tool)
        if name not in self.renamed:
            return tool
        return tool | {"function": tool["function"] | {"name": self.renamed[name]}}


def offer_of(tools: Sequence[Any]) -> Offer:
    """Return what follows from a list of tools; known, if it was sent before."""
    data = encode(tools)
    return Offer(tools) if len(data) > _LARGE else _known(data)


@lru_cache(maxsize=_MOST_KEPT)
def _known(data: bytes) -> Offer:
    return Offer(msgspec.json.decode(data))


def name_of(tool: Any) -> str:
    """Return the name of a function; blank for any other tool."""
    match tool:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case _:
            return ""


def _renamed(tools: Iterable[Any]) -> dict[str, str]:
    names = [name for tool in tools if (name := name_of(tool))]
    taken = {name for name in names if is_legal(name)}
    renamed: dict[str, str] = {}
    for name in names:
        if name in taken or name in renamed:
            continue
        sent = plain = legal(name)
        number = 2
        while sent in taken:
            sent = f"{plain[:60]}_{number}"
            number += 1
        taken.add(sent)
        renamed[name] = sent
    return renamed


def _definition(tool: JSON, renamed: Mapping[str, str]) -> ToolDefinition:
    function = tool["function"]
    name = renamed.get(function["name"], function["name"])
    description = function.get("description")
    text = description if isinstance(description, str) else ""
    try:
        definition = ToolDefinition(name, text, parameters=function.get("parameters"))
        definition.validate({})  # compiles the schema
    except ConfigError:
        return ToolDefinition(name, text)
    return definition


class _Exactly:
    """Tools whose names are too much alike: only an exact name means one of them."""

    def __init__(self, definitions: Sequence[ToolDefinition]) -> None:
        self._by_name = {each.name: each for each in definitions}

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(self._by_name.values())

    def resolve(self, asked: str) -> ToolDefinition | None:
        return self._by_name.get(asked)


def _toolbox(definitions: Sequence[ToolDefinition]) -> Toolbox:
    try:
        return ToolRegistry(definitions, whole=False)
    except ConfigError:
        return _Exactly(definitions)
