"""The tools an application offers: definitions, the registry, and the mask over it.

What is sent to the model and what may run are the same object. The package itself ships no tools.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, overload

import msgspec

from surecall.errors import ConfigError
from surecall.family import unknown
from surecall.names import fold, is_legal, spellings
from surecall.schema import bind_function, compile_schema, describe_function, portable, schema_of
from surecall.types import JSON, ToolSpec

Handler: TypeAlias = Callable[..., Any]
_MAPPING_KEYS = {
    "name",
    "description",
    "parameters",
    "handler",
    "exposed_to_model",
    "timeout_s",
    "repeatable",
}


class ToolDefinition:
    """One tool: what the model sees, how arguments are checked, and what runs."""

    def __init__(  # noqa: PLR0913  # the settings of a tool, all but two by keyword
        self,
        name: str,
        description: str = "",
        *,
        parameters: Any = None,
        handler: Handler | None = None,
        exposed_to_model: bool = True,
        timeout_s: float | None = None,
        repeatable: bool = False,
    ) -> None:
        if not is_legal(name):
            raise ConfigError(
                f"illegal tool name {name!r}: use 1 to 64 letters, digits, '_' or '-' "
                "(snake_case is understood best)"
            )
        if timeout_s is not None and timeout_s <= 0:
            raise ConfigError(f"tool {name!r}: timeout_s must be positive")
        schema = portable(schema_of({} if parameters is None else parameters))
        self.spec = ToolSpec(name, description, schema, repeatable)
        self.handler = handler
        self.exposed_to_model = exposed_to_model
        self.timeout_s = timeout_s

    @property
    def name(self) -> str:
        """The registered name."""
        return self.spec.name

    @functools.cached_property
    def validate(self) -> Callable[[JSON], tuple[str, ...]]:
        """Check arguments against the schema; compiled once."""
        return compile_schema(self.spec.parameters)

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether the handler is awaited; others run in a thread."""
        return self.handler is not None and is_async_callable(self.handler)

    @functools.cached_property
    def bind(self) -> Callable[[JSON], dict[str, Any]]:
        """Turn checked arguments into what the handler's signature asks for; prepared once."""
        return bind_function(self.handler) if self.handler else dict

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler directly, as if it had never been made a tool."""
        if self.handler is None:
            raise TypeError(f"tool {self.name!r} has no handler")
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<ToolDefinition {self.name}>"


@overload
def tool(function: Handler, /) -> ToolDefinition: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    exposed_to_model: bool = True,
    timeout_s: float | None = None,
    repeatable: bool = False,
) -> Callable[[Handler], ToolDefinition]: ...
def tool(
    function: Handler | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **settings: Any,
) -> ToolDefinition | Callable[[Handler], ToolDefinition]:
    """Make a tool of a plain function: its signature, annotations and docstring say it all."""

    def define(handler: Handler) -> ToolDefinition:
        described = describe_function(handler)
        return ToolDefinition(
            name or described.name,
            described.description if description is None else description,
            parameters=described.parameters,
            handler=handler,
            **settings,
        )

    return define if function is None else define(function)


def definition_of(item: Any) -> ToolDefinition:
    """Accept a definition, a mapping with its fields, OpenAI's form of it, or a function."""
    match item:
        case ToolDefinition():
            return item
        case Mapping():
            return _from_mapping(dict(item))
        case _ if callable(item):
            return tool(item)
        case _:
            raise ConfigError(f"a tool must be a definition, mapping or function, not {item!r:.80}")


def _from_mapping(item: JSON) -> ToolDefinition:
    if item.get("type") == "function" and isinstance(item.get("function"), Mapping):
        item = {key: value for key, value in item["function"].items() if key != "strict"}
    for key in item:
        if key not in _MAPPING_KEYS:
            raise ConfigError(unknown("tool definition key", str(key), _MAPPING_KEYS))
    if not isinstance(item.get("name"), str):
        raise ConfigError("a tool definition needs a name")
    exposed = item.get("exposed_to_model", True)
    if not isinstance(exposed, bool):
        raise ConfigError("exposed_to_model must be true or false")
    return ToolDefinition(**item)


class Toolbox(Protocol):
    """What the rest of the program needs of a registry, masked or not."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model may see and call, in order."""

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Find the one tool that a model means, if it may be called."""


class ToolRegistry:
    """An application's tools. Names are unique, also when case and `-`, `_`, `.` are folded."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._by_name: dict[str, ToolDefinition] = {}
        self._by_fold: dict[str, ToolDefinition] = {}
        for item in tools:
            definition = definition_of(item)
            clash = self._by_fold.get(fold(definition.name))
            if clash is not None:
                raise ConfigError(
                    f"two tools would answer to one name: {clash.name!r} and {definition.name!r}"
                )
            self._by_name[definition.name] = definition
            self._by_fold[fold(definition.name)] = definition

    @functools.cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools that are exposed to the model, in order of registration."""
        return tuple(item for item in self._by_name.values() if item.exposed_to_model)

    @property
    def names(self) -> tuple[str, ...]:
        """Every registered name, exposed or not."""
        return tuple(self._by_name)

    def find(self, asked: str) -> ToolDefinition | None:
        """Resolve a name to one registered tool, whether it may be called or not."""
        candidates = spellings(asked)
        for spelling in candidates:
            if spelling in self._by_name:
                return self._by_name[spelling]
        for spelling in candidates:
            if (found := self._by_fold.get(fold(spelling))) is not None:
                return found
        return None

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Find the one tool that a model means, if it may be called."""
        found = self.find(asked)
        return found if found is not None and found.exposed_to_model else None


class FilteredToolRegistry:
    """A view of a registry through an allow list and a deny list; deny wins.

    An allow list of nothing allows nothing. A name that the registry does not know is an error: a
    misspelt deny list must not open a door.
    """

    def __init__(
        self, registry: ToolRegistry, allow: Iterable[str] | None = None, deny: Iterable[str] = ()
    ) -> None:
        self._registry = registry
        self._allow = None if allow is None else _known(registry, allow)
        self._deny = _known(registry, deny)

    @functools.cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The exposed tools that the mask lets through, in order of registration."""
        return tuple(filter(self._lets_through, self._registry.definitions))

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Find the one tool that a model means, if the mask lets it be called."""
        # The name is resolved in the whole registry first: a denied tool stays denied under
        # every spelling, instead of falling through to a neighbour.
        found = self._registry.resolve(asked)
        return found if found is not None and self._lets_through(found) else None

    def _lets_through(self, definition: ToolDefinition) -> bool:
        allowed = self._allow is None or definition.name in self._allow
        return allowed and definition.name not in self._deny


def _known(registry: ToolRegistry, names: Iterable[str]) -> frozenset[str]:
    listed = frozenset(names)
    for name in sorted(listed):
        if name not in registry.names:
            raise ConfigError(unknown("tool in the mask", name, registry.names))
    return listed


def check_surface(toolbox: Toolbox, max_count: int, max_bytes: int) -> tuple[ToolSpec, ...]:
    """Return what is offered to the model, within the limits that providers set."""
    specs = tuple(definition.spec for definition in toolbox.definitions)
    if len(specs) > max_count:
        raise ConfigError(f"{len(specs)} tools exceed max_tool_definitions_count={max_count}")
    size = len(msgspec.json.encode(specs))
    if size > max_bytes:
        raise ConfigError(f"{size} bytes of tools exceed max_tool_definitions_bytes={max_bytes}")
    return specs


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Whether calling a function gives a coroutine, also through partials and objects."""
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  # it is the method that is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
