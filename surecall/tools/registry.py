"""The tools an application offers: definitions, the registry, and the mask over it.

What is sent to the model and what may run are the same object. The package itself ships no tools.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Required, TypeAlias, TypedDict, overload

import msgspec

from surecall.parsing.coercion import Coerced, coercer
from surecall.parsing.names import bare_spellings, fold, is_legal, spellings
from surecall.tools.binding import Handler, binding, context_of
from surecall.tools.context import Context
from surecall.tools.grounded import Declared, Grounds, check_grounds, checked_grounds, grounds_of
from surecall.tools.schema import portable, schema_of
from surecall.tools.signatures import is_async_callable
from surecall.tools.sources import ForeignTool, is_foreign, source_of
from surecall.tools.validation import Validation, compile_schema
from surecall.values.errors import ConfigError, ToolError
from surecall.values.family import unknown
from surecall.values.types import JSON, ToolSpec


class ToolDefinition:
    """One tool: what the model sees, how arguments are checked, and what runs.

    `parameters` is a JSON Schema, or a class that has one: a pydantic model, dataclass, TypedDict
    or Struct. The handler is called with keyword arguments. With a schema they are the model's
    JSON, converted to what the handler's own annotations ask for. With a class they are its
    fields, as the class itself reads them: validated, converted, with its defaults filled in.
    A parameter annotated `Context` gets the run's context; the model does not know of it.

    `read_only`, `idempotent` and `destructive` say what a call does to the world, as far as is
    known. A tool that is read-only or idempotent runs again when a run is resumed and nobody knows
    whether its call took effect; any other does not. `destructive` tools are never called from
    text, only by a call that has the form of one.
    `repeatable` tools may be called again and again with the same arguments. Calls of `serial`
    tools in one reply run one after the other, even where calls run in parallel. `grounded`
    parameters hold only values that were seen: a list, or a mapping to the tools that return them.
    """

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
        read_only: bool = False,
        idempotent: bool = False,
        destructive: bool = False,
        serial: bool = False,
        grounded: Declared = (),
    ) -> None:
        if not is_legal(name):
            raise ConfigError(
                f"illegal tool name {name!r}: use 1 to 64 letters, digits, '_' or '-' "
                "(snake_case is understood best)"
            )
        if timeout_s is not None and not timeout_s > 0:
            raise ConfigError(f"tool {name!r}: timeout_s must be positive")
        if handler is not None and not callable(handler):
            raise ConfigError(f"tool {name!r}: the handler must be callable, not {handler!r:.80}")
        if read_only and destructive:
            raise ConfigError(f"tool {name!r} cannot be both read-only and destructive")
        schema = portable(schema_of({} if parameters is None else parameters))
        grounds = checked_grounds(grounded, schema, f"tool {name!r}")
        self.spec = ToolSpec(
            name, description, schema, repeatable, destructive, read_only, idempotent, grounds
        )
        self.handler = handler
        # Prepared here, so that a handler that no model could call is the caller's error.
        self.context = context_of(handler, schema, f"tool {name!r}")
        self.bind = dict if handler is None else binding(parameters, handler, self.context)
        self.is_async = handler is not None and is_async_callable(handler)
        self.exposed_to_model = exposed_to_model
        self.timeout_s = timeout_s
        self.serial = serial

    @property
    def name(self) -> str:
        """The registered name."""
        return self.spec.name

    @functools.cached_property
    def validate(self) -> Validation:
        """Check arguments against the schema; compiled once."""
        try:
            return compile_schema(self.spec.parameters)
        except ConfigError as problem:
            raise ConfigError(f"tool {self.name!r}: {problem}") from problem

    @functools.cached_property
    def coerce(self) -> Callable[[JSON], Coerced]:
        """Fit arguments to the schema, without loss; prepared once."""
        return coercer(self.spec.parameters)

    def openai_schema(self) -> JSON:
        """Return the tool as OpenAI's API is told of it."""
        spec = self.spec
        about = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        return {"type": "function", "function": about}

    def as_function(
        self,
        *,
        context: Mapping[str, Any] | None = None,
        raises: Callable[[str], Exception] = ToolError,
    ) -> Handler:
        """Return a plain function for other frameworks, with a signature and a docstring.

        It takes what a model would give, checks it as a run does, and calls the handler. What is
        wrong with the arguments, and what the tool says went wrong, is raised as `raises`: the
        exception whose words the other framework tells its model. `context` is what a parameter
        annotated `Context` gets.
        """
        from surecall.tools.plain_functions import plain_function  # noqa: PLC0415 - few need it

        return plain_function(self, Context(context), raises)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler itself."""
        if self.handler is None:
            raise TypeError(f"tool {self.name!r} has no handler")
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<ToolDefinition {self.name}>"


@overload
def tool(function: Handler | ForeignTool, /) -> ToolDefinition: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    exposed_to_model: bool = True,
    timeout_s: float | None = None,
    repeatable: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    serial: bool = False,
    grounded: Declared = (),
) -> Callable[[Handler | ForeignTool], ToolDefinition]: ...
def tool(  # noqa: PLR0913  # the settings of a tool, all by keyword
    function: Handler | ForeignTool | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    exposed_to_model: bool = True,
    timeout_s: float | None = None,
    repeatable: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    serial: bool = False,
    grounded: Declared = (),
) -> ToolDefinition | Callable[[Handler | ForeignTool], ToolDefinition]:
    """Make a tool of a plain function: its signature, annotations and docstring say it all.

    A tool of LangChain or pydantic-ai may stand in its place, as in `tool(read_only=True)(search)`.
    """

    def define(given: Handler | ForeignTool) -> ToolDefinition:
        source = source_of(given)
        described = source.described
        return ToolDefinition(
            name or described.name,
            described.description if description is None else description,
            parameters=described.parameters,
            handler=source.handler,
            exposed_to_model=exposed_to_model,
            timeout_s=source.timeout_s if timeout_s is None else timeout_s,
            repeatable=repeatable,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive,
            serial=serial or source.serial,
            grounded=described.grounded | grounds_of(grounded),
        )

    return define if function is None else define(function)


def definition_of(item: Any) -> ToolDefinition:
    """Accept a definition, a mapping with its fields, OpenAI's form of it, or what `tool` takes."""
    match item:
        case ToolDefinition():
            return item
        case Mapping():
            return _from_mapping(dict(item))
        case _ if callable(item) or is_foreign(item):
            return tool(item)
        case _:
            raise ConfigError(f"a tool must be a definition, mapping or function, not {item!r:.80}")


class _Given(TypedDict, total=False):
    """The keys that a mapping may have, and their types."""

    name: Required[str]
    description: str
    parameters: Any
    handler: Any
    exposed_to_model: bool
    timeout_s: float | None
    repeatable: bool
    read_only: bool
    idempotent: bool
    destructive: bool
    serial: bool
    grounded: list[str] | dict[str, Any]


def _from_mapping(item: JSON) -> ToolDefinition:
    if item.pop("type", "function") != "function":
        raise ConfigError("a tool definition must be of type 'function'")
    nested = item.pop("function", {})
    item |= nested if isinstance(nested, Mapping) else {"function": nested}
    given = {key: value for key, value in item.items() if key != "strict"}
    for key in given:
        if key not in _Given.__annotations__:
            raise ConfigError(unknown("tool definition key", str(key), _Given.__annotations__))
    if given.get("description", "") is None:
        del given["description"]
    try:
        return ToolDefinition(**msgspec.convert(given, _Given))
    except msgspec.ValidationError as problem:
        raise ConfigError(f"bad tool definition {given.get('name')!r:.80}: {problem}") from None


class Toolbox(Protocol):
    """What the rest of the program needs of a registry, masked or not."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model may see and call, in order."""

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Find the one tool that a model means, if it may be called."""


class ToolRegistry:
    """An application's tools. Names are unique, also when case and `-`, `_`, `.` are folded.

    Each is a function, a `ToolDefinition`, a mapping that describes one, or a registry of several;
    lists of these are accepted as well.
    A single tool needs no list around it. Of a registry that is not `whole`, tools may be missing
    that others name.
    """

    def __init__(self, tools: Iterable[Any] | Handler = (), *, whole: bool = True) -> None:
        self._by_name: dict[str, ToolDefinition] = {}
        self._by_fold: dict[str, ToolDefinition] = {}
        for definition in _definitions(tools):
            clash = self._by_fold.get(fold(definition.name))
            if clash is not None:
                raise ConfigError(
                    f"two tools would answer to one name: {clash.name!r} and {definition.name!r}"
                )
            self._by_name[definition.name] = definition
            self._by_fold[fold(definition.name)] = definition
        if whole:
            check_grounds({name: one.spec.grounded for name, one in self._by_name.items()})

    @functools.cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools that are exposed to the model, in order of registration."""
        return tuple(item for item in self._by_name.values() if item.exposed_to_model)

    @property
    def names(self) -> tuple[str, ...]:
        """Every registered name, exposed or not."""
        return tuple(self._by_name)

    def grounds(self, name: str) -> Grounds:
        """Return the grounded parameters of a tool."""
        return self._by_name[name].spec.grounded

    def find(self, asked: str) -> ToolDefinition | None:
        """Resolve a name to one registered tool, whether it may be called or not."""
        if asked in self._by_name:
            return self._by_name[asked]
        return self._spelled(spellings(asked)) or self._spelled(bare_spellings(asked))

    def _spelled(self, candidates: tuple[str, ...]) -> ToolDefinition | None:
        exact = (self._by_name.get(spelling) for spelling in candidates)
        folded = (self._by_fold.get(fold(spelling)) for spelling in candidates)
        return next(filter(None, (*exact, *folded)), None)

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Find the one tool that a model means, if it may be called."""
        found = self.find(asked)
        return found if found is not None and found.exposed_to_model else None


# A registry, a list of tools in any of their forms, or one tool.
Tools: TypeAlias = ToolRegistry | Iterable[Any] | Handler


def _definitions(tools: Any) -> Iterator[ToolDefinition]:
    """Define each tool; a registry or a list among them stands for its own."""
    for item in _listed(tools):
        if isinstance(item, ToolRegistry):
            yield from item._by_name.values()  # noqa: SLF001 - one of its own kind
        elif isinstance(item, FilteredToolRegistry):
            yield from item.definitions
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
            yield from _definitions(item)
        else:
            yield definition_of(item)


def _listed(tools: Any) -> Iterable[Any]:
    """Return the tools as a list; a single tool or registry becomes a list of one."""
    is_one = callable(tools) or isinstance(tools, Mapping) or is_foreign(tools)
    if is_one or isinstance(tools, ToolRegistry | FilteredToolRegistry):
        return (tools,)
    if isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise ConfigError(
            "tools must be a list of functions or tool definitions, as in [get_weather], "
            f"not {tools!r:.80}"
        )
    return tools


def registry_of(specs: Iterable[ToolSpec]) -> ToolRegistry:
    """Return tools as a model sees them, without what runs them.

    Tools that are not exposed are not among them, though others may name them.
    """
    definitions = (
        ToolDefinition(
            spec.name,
            spec.description,
            parameters=spec.parameters,
            repeatable=spec.repeatable,
            destructive=spec.destructive,
            read_only=spec.read_only,
            idempotent=spec.idempotent,
            grounded=spec.grounded,
        )
        for spec in specs
    )
    return ToolRegistry(definitions, whole=False)


class FilteredToolRegistry:
    """A view of a registry through an allow list and a deny list; deny wins.

    An allow list of nothing allows nothing. A name that the registry does not know is an error.
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
        # In the whole registry first: a denied tool stays denied under every spelling.
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


def check_surface(toolbox: Toolbox, max_count: int, max_bytes: int) -> None:
    """Check what is offered to the model: sound schemas, within the limits that providers set."""
    specs = tuple(definition.spec for definition in toolbox.definitions)
    if len(specs) > max_count:
        raise ConfigError(f"{len(specs)} tools exceed max_tool_definitions_count={max_count}")
    size = len(msgspec.json.encode(specs))
    if size > max_bytes:
        raise ConfigError(f"{size} bytes of tools exceed max_tool_definitions_bytes={max_bytes}")
    # Compiled here, once for each definition: else a run would be the first to do it.
    _ = [definition.validate for definition in toolbox.definitions]
