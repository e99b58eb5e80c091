"""Grounded parameters, which only accept observed values.

    order_id: Annotated[str, Grounded]                  named by the user or by any tool
    order_id: Annotated[str, Grounded("find_order")]    found in a result of that tool

Tools that depend on each other's results could never be called. Such cycles raise `ConfigError`
when the tools are registered.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message
from surecall.values.types import JSON, object_or_empty

# Maps parameters to the tools whose results may hold their values; an empty tuple means any tool.
Grounds: TypeAlias = dict[str, tuple[str, ...]]
GroundedDeclaration: TypeAlias = Iterable[str] | Mapping[str, Any]
_GROUNDABLE_TYPES = frozenset({"string", "integer", "number"})


class Grounded:
    """Marks a parameter whose value must have been observed, in results of `tools` or anywhere."""

    def __init__(self, *tools: str) -> None:
        self.tools = tools

    def __repr__(self) -> str:
        return f"Grounded({', '.join(map(repr, self.tools))})"


def grounds_in(hint: Any) -> tuple[str, ...] | None:
    """Return the grounding tools of an annotation, or None if it is not grounded."""
    for extra in getattr(hint, "__metadata__", ()):
        if extra is Grounded:
            return ()
        if isinstance(extra, Grounded):
            return extra.tools
    return None


def validated_grounds(grounded: GroundedDeclaration, schema: JSON, where: str) -> Grounds:
    """Return the declared grounds; raise `ConfigError` for unknown or unsuitable parameters."""
    given = declared_grounds(grounded)
    known = object_or_empty(schema.get("properties"))
    for name in given:
        if name not in known:
            raise ConfigError(
                f"{where}: {unknown_name_message('grounded parameter', str(name), known)}"
            )
        if not _is_groundable(known[name]):
            raise ConfigError(
                f"{where}: {name!r} cannot be grounded: only strings, numbers, or lists of them can"
            )
    return {name: _as_tuple(tools) for name, tools in given.items()}


def declared_grounds(grounded: GroundedDeclaration) -> JSON:
    """Return declared grounds as a mapping."""
    if isinstance(grounded, str) or not isinstance(grounded, Iterable):
        raise ConfigError("grounded must be a list of parameters, as in ['order_id']")
    return dict(grounded) if isinstance(grounded, Mapping) else dict.fromkeys(grounded, ())


def prerequisite_groups(grounded: Grounds) -> list[tuple[str, ...]]:
    """Return the groups of tools of which one each must be called first."""
    return [tools for tools in grounded.values() if tools]


def _as_tuple(tools: Any) -> tuple[str, ...]:
    return (tools,) if isinstance(tools, str) else tuple(tools)


def _is_groundable(schema: Any) -> bool:
    match schema:
        case {"type": "array", "items": items}:
            return _is_groundable(items)
        case {"type": list(kinds)}:
            return bool(_GROUNDABLE_TYPES.intersection(kinds))
        case {"type": kind}:
            return kind in _GROUNDABLE_TYPES
        case {"anyOf": list(kinds)}:
            return any(map(_is_groundable, kinds))
        case _:
            return False


def check_grounds(declared: Mapping[str, Grounds]) -> None:
    """Reject grounds that cannot be met: unknown tools, and tools that depend on each other."""
    for name, grounded in declared.items():
        for source in [tool for tools in grounded.values() for tool in tools]:
            if source not in declared:
                raise ConfigError(
                    f"tool {name!r}: {unknown_name_message('grounding tool', source, declared)}"
                )
    check_reachable({name: prerequisite_groups(grounded) for name, grounded in declared.items()})


def check_reachable(waits: Mapping[str, Sequence[Iterable[str]]], where: str = "tools") -> None:
    """Reject tools that depend on each other.

    `waits` maps each tool to groups of tools; it can be called after one tool of every group.
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
            f"{where}: {', '.join(stuck)} can never be called: the required values only come from "
            "tools that cannot be called first"
        )
