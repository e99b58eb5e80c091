"""Parameters that hold only what was seen: how they are declared, and whether that can work.

    order_id: Annotated[str, Grounded]                  the user or any tool has named it
    order_id: Annotated[str, Grounded("find_order")]    a result of that tool holds it

A tool whose values come from tools that themselves wait for it could never be called; that is the
caller's mistake, and found when the tools are registered.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from surecall.values.errors import ConfigError
from surecall.values.family import unknown
from surecall.values.types import JSON

# Parameters, each with the tools whose results may hold its value; none means any.
Grounds: TypeAlias = dict[str, tuple[str, ...]]
Declared: TypeAlias = Iterable[str] | Mapping[str, Any]
_FITTING = frozenset({"string", "integer", "number"})


class Grounded:
    """Marks a parameter: its value must have been seen, in a result of these tools or anywhere."""

    def __init__(self, *tools: str) -> None:
        self.tools = tools

    def __repr__(self) -> str:
        return f"Grounded({', '.join(map(repr, self.tools))})"


def grounds_in(hint: Any) -> tuple[str, ...] | None:
    """Return the tools that an annotation names as grounds; None if it asks for none."""
    for extra in getattr(hint, "__metadata__", ()):
        if extra is Grounded:
            return ()
        if isinstance(extra, Grounded):
            return extra.tools
    return None


def checked_grounds(grounded: Declared, schema: JSON, where: str) -> Grounds:
    """Return what was declared as grounded; a parameter that does not exist is an error."""
    given = grounds_of(grounded)
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    for name in given:
        if name not in known:
            raise ConfigError(f"{where}: {unknown('grounded parameter', str(name), known)}")
        if not _fits(known[name]):
            raise ConfigError(
                f"{where}: {name!r} cannot be grounded: only texts, numbers and lists of them can"
            )
    return {name: _tools(tools) for name, tools in given.items()}


def grounds_of(grounded: Declared) -> JSON:
    """Return grounded parameters as a mapping, whichever way they were given."""
    if isinstance(grounded, str) or not isinstance(grounded, Iterable):
        raise ConfigError("grounded must be a list of parameters, as in ['order_id']")
    return dict(grounded) if isinstance(grounded, Mapping) else dict.fromkeys(grounded, ())


def waits_of(grounded: Grounds) -> list[tuple[str, ...]]:
    """Return the tools that must be called before a tool: one of each group."""
    return [tools for tools in grounded.values() if tools]


def _tools(tools: Any) -> tuple[str, ...]:
    return (tools,) if isinstance(tools, str) else tuple(tools)


def _fits(schema: Any) -> bool:
    match schema:
        case {"type": "array", "items": items}:
            return _fits(items)
        case {"type": list(kinds)}:
            return bool(_FITTING.intersection(kinds))
        case {"type": kind}:
            return kind in _FITTING
        case {"anyOf": list(kinds)}:
            return any(map(_fits, kinds))
        case _:
            return False


def check_grounds(declared: Mapping[str, Grounds]) -> None:
    """Refuse grounds that nobody can give: tools that do not exist, or wait for each other."""
    for name, grounded in declared.items():
        for source in [tool for tools in grounded.values() for tool in tools]:
            if source not in declared:
                raise ConfigError(f"tool {name!r}: {unknown('grounding tool', source, declared)}")
    check_reach({name: waits_of(grounded) for name, grounded in declared.items()})


def check_reach(waits: Mapping[str, Sequence[Iterable[str]]], where: str = "tools") -> None:
    """Refuse tools that wait for each other.

    Each tool waits for groups of tools, of every group for one. A group of none waits for nothing.
    """
    reached: set[str] = set()
    while True:
        more = {
            name
            for name, groups in waits.items()
            if name not in reached and all(reached.intersection(group) for group in groups)
        }
        if not more:
            break
        reached |= more
    stuck = [name for name in waits if name not in reached]
    if stuck:
        raise ConfigError(
            f"{where}: {', '.join(stuck)} can never be called: the values that must have been seen "
            "come only from tools that cannot be called before"
        )
