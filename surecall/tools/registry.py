"""Tool definitions, the tool registry, and filtered views of it.

The tools that are sent to the model and the tools that are allowed to run are the same object. The
package itself has no tools.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Required, TypeAlias, TypedDict, overload

import msgspec

from surecall.parsing.coercion import Coercer, coercer
from surecall.parsing.names import bare_spellings, fold_name, is_legal_name, spellings
from surecall.tools.binding import Handler, argument_binder, context_parameter_name
from surecall.tools.context import Context
from surecall.tools.grounded import (
    GroundedDeclaration,
    Grounds,
    check_grounds,
    declared_grounds,
    validated_grounds,
)
from surecall.tools.integrations.recognition import is_third_party_tool, source_of
from surecall.tools.schema import portable_schema, schema_of
from surecall.tools.signatures import is_async_callable
from surecall.tools.sources import ThirdPartyTool
from surecall.tools.validation import Validation, compile_schema
from surecall.values.errors import ConfigError, ToolError
from surecall.values.family import unknown_name_message
from surecall.values.types import JSON, ToolSpec


class ToolDefinition:
    """One tool: its schema for the model, its validation, and its handler.

    `parameters` is a JSON Schema, or a class that has one: a pydantic model, dataclass, TypedDict,
    or Struct. The handler is called with keyword arguments. With a schema, these are the model's
    JSON, converted to the handler's annotated types. With a class, they are its fields as the class
    itself parses them: validated, converted, and with defaults filled in. A parameter annotated
    `Context` gets the run's context and is hidden from the model.

    `read_only`, `idempotent`, and `destructive` describe the effect of a call. When a run is
    resumed, a call with an unknown outcome runs again only if its tool is read-only or idempotent.
    `destructive` tools only run from native tool calls, never from calls in text. `repeatable`
    tools may be called repeatedly with the same arguments. Calls of `serial` tools in one reply run
    one at a time, even where calls run in parallel. `grounded` parameters only accept observed
    values: pass a list, or a mapping to the tools that return the values.
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
        grounded: GroundedDeclaration = (),
    ) -> None:
        if not is_legal_name(name):
            raise ConfigError(
                f"illegal tool name {name!r}: use 1 to 64 letters, digits, '_' or '-' "
                "(models handle snake_case best)"
            )
        if timeout_s is not None and not timeout_s > 0:
            raise ConfigError(f"tool {name!r}: timeout_s must be positive, not {timeout_s}")
        if handler is not None and not callable(handler):
            raise ConfigError(f"tool {name!r}: the handler must be callable, not {handler!r:.80}")
        if read_only and destructive:
            raise ConfigError(f"tool {name!r} cannot be both read-only and destructive")
        schema = portable_schema(schema_of({} if parameters is None else parameters))
        grounds = validated_grounds(grounded, schema, f"tool {name!r}")
        self.spec = ToolSpec(
            name, description, schema, repeatable, destructive, read_only, idempotent, grounds
        )
        self.handler = handler
        # Prepared here, so that an unusable handler raises ConfigError at definition.
        self.context = context_parameter_name(handler, schema, f"tool {name!r}")
        self.bind = dict if handler is None else argument_binder(parameters, handler, self.context)
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
        """The validation of arguments against the schema; compiled once."""
        try:
            return compile_schema(self.spec.parameters)
        except ConfigError as problem:
            raise ConfigError(f"tool {self.name!r}: {problem}") from problem

    @functools.cached_property
    def coerce(self) -> Coercer:
        """The lossless coercion of arguments to the schema; prepared once."""
        return coercer(self.spec.parameters)

    def openai_schema(self) -> JSON:
        """Return the tool in the format of OpenAI's API."""
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

        It takes a model's arguments, validates them as a run does, and calls the handler. Invalid
        arguments and tool errors are raised as `raises`: the exception whose message the other
        framework sends to its model. `context` is passed to a parameter annotated `Context`.
        """
        from surecall.tools.plain_functions import plain_function  # noqa: PLC0415 - few need it

        given = {} if self.context is None else {self.context: Context(context)}

        def prepare(arguments: JSON) -> JSON:
            fitted = self.coerce(arguments).value
            if errors := self.validate(fitted):
                raise ToolError("; ".join(errors))
            return self.bind(fitted) | given

        return plain_function(self.spec, self.handler, prepare, raises, is_async=self.is_async)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler directly."""
        if self.handler is None:
            raise TypeError(f"tool {self.name!r} has no handler")
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<ToolDefinition {self.name}>"


@overload
def tool(function: Handler | ThirdPartyTool, /) -> ToolDefinition: ...
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
    grounded: GroundedDeclaration = (),
) -> Callable[[Handler | ThirdPartyTool], ToolDefinition]: ...
def tool(  # noqa: PLR0913  # the settings of a tool, all by keyword
    function: Handler | ThirdPartyTool | None = None,
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
    grounded: GroundedDeclaration = (),
) -> ToolDefinition | Callable[[Handler | ThirdPartyTool], ToolDefinition]:
    """Define a tool from a function, by its signature, annotations, and docstring.

    Also accepts a tool of LangChain or pydantic-ai, as in `tool(read_only=True)(search)`.
    """

    def define(given: Handler | ThirdPartyTool) -> ToolDefinition:
        source = source_of(given)
        described = source.schema
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
            grounded=described.grounded | declared_grounds(grounded),
        )

    return define if function is None else define(function)


def definition_of(item: Any) -> ToolDefinition:
    """Convert a definition, a mapping (plain or in OpenAI's format), or an argument of `tool`."""
    match item:
        case ToolDefinition():
            return item
        case Mapping():
            return _parse_mapping(dict(item))
        case _ if callable(item) or is_third_party_tool(item):
            return tool(item)
        case _:
            raise ConfigError(
                f"a tool must be a definition, mapping, or function, not {item!r:.80}"
            )


class _ToolMapping(TypedDict, total=False):
    """The allowed keys of a tool mapping, and their types."""

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


def _parse_mapping(item: JSON) -> ToolDefinition:
    if (kind := item.pop("type", "function")) != "function":
        raise ConfigError(f"a tool definition must be of type 'function', not {kind!r:.80}")
    nested = item.pop("function", {})
    item |= nested if isinstance(nested, Mapping) else {"function": nested}
    given = {key: value for key, value in item.items() if key != "strict"}
    for key in given:
        if key not in _ToolMapping.__annotations__:
            raise ConfigError(
                unknown_name_message("tool definition key", str(key), _ToolMapping.__annotations__)
            )
    if given.get("description", "") is None:
        del given["description"]
    try:
        return ToolDefinition(**msgspec.convert(given, _ToolMapping))
    except msgspec.ValidationError as problem:
        name = given.get("name")
        raise ConfigError(f"invalid tool definition {name!r:.80}: {problem}") from None


class Toolbox(Protocol):
    """The interface of a registry, filtered or not."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model may see and call, in order."""

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Return the tool with this name in any spelling, if it may be called."""


def specs_of(toolbox: Toolbox) -> tuple[ToolSpec, ...]:
    """Return the specs of the exposed tools, in order."""
    return tuple(definition.spec for definition in toolbox.definitions)


class ToolRegistry:
    """An application's tools. Names must differ in more than case and `-`, `_`, `.`.

    `tools` is a function, a `ToolDefinition`, a mapping that describes one, another registry, or a
    list of these. If a registry is not `whole`, tools that others refer to may be missing.
    """

    def __init__(self, tools: Iterable[Any] | Handler = (), *, whole: bool = True) -> None:
        self._by_name: dict[str, ToolDefinition] = {}
        self._by_fold: dict[str, ToolDefinition] = {}
        for definition in _iter_definitions(tools):
            clash = self._by_fold.get(fold_name(definition.name))
            if clash is not None:
                raise ConfigError(
                    f"conflicting tool names: {clash.name!r} and {definition.name!r}; rename one"
                )
            self._by_name[definition.name] = definition
            self._by_fold[fold_name(definition.name)] = definition
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
        """Return the registered tool with this name in any spelling, exposed or not."""
        if asked in self._by_name:
            return self._by_name[asked]
        return self._find_by_spelling(spellings(asked)) or self._find_by_spelling(
            bare_spellings(asked)
        )

    def _find_by_spelling(self, candidates: tuple[str, ...]) -> ToolDefinition | None:
        exact = (self._by_name.get(spelling) for spelling in candidates)
        folded = (self._by_fold.get(fold_name(spelling)) for spelling in candidates)
        return next(filter(None, (*exact, *folded)), None)

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Return the exposed tool with this name in any spelling, or None."""
        found = self.find(asked)
        return found if found is not None and found.exposed_to_model else None


# A registry, a list of tools in any form, or one tool.
Tools: TypeAlias = ToolRegistry | Iterable[Any] | Handler


def _iter_definitions(tools: Any) -> Iterator[ToolDefinition]:
    """Yield the definition of each tool, including those in nested registries and lists."""
    for item in _as_iterable(tools):
        if isinstance(item, ToolRegistry):
            yield from item._by_name.values()  # noqa: SLF001 - same class
        elif isinstance(item, FilteredToolRegistry):
            yield from item.definitions
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
            yield from _iter_definitions(item)
        else:
            yield definition_of(item)


def _as_iterable(tools: Any) -> Iterable[Any]:
    """Return the tools as an iterable; a single tool or registry becomes a tuple of one."""
    is_one = callable(tools) or isinstance(tools, Mapping) or is_third_party_tool(tools)
    if is_one or isinstance(tools, ToolRegistry | FilteredToolRegistry):
        return (tools,)
    if isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise ConfigError(
            "tools must be a list of functions or tool definitions, as in [get_weather], "
            f"not {tools!r:.80}"
        )
    return tools


def registry_from_specs(specs: Iterable[ToolSpec]) -> ToolRegistry:
    """Return a registry of tools without handlers, from their specs.

    Hidden tools are missing, although others may refer to them.
    """
    definitions = (ToolDefinition(**msgspec.structs.asdict(spec)) for spec in specs)
    return ToolRegistry(definitions, whole=False)


class FilteredToolRegistry:
    """A view of a registry, filtered by an allow list and a deny list; deny wins.

    An empty allow list allows nothing. Unknown names raise `ConfigError`.
    """

    def __init__(
        self, registry: ToolRegistry, allow: Iterable[str] | None = None, deny: Iterable[str] = ()
    ) -> None:
        self._registry = registry
        self._allow = None if allow is None else _check_names(registry, allow)
        self._deny = _check_names(registry, deny)

    @functools.cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The exposed tools that the filter allows, in order of registration."""
        return tuple(filter(self._is_allowed, self._registry.definitions))

    def resolve(self, asked: str) -> ToolDefinition | None:
        """Return the exposed and allowed tool with this name in any spelling, or None."""
        # Resolves in the whole registry first, so a denied tool is denied under every spelling.
        found = self._registry.resolve(asked)
        return found if found is not None and self._is_allowed(found) else None

    def _is_allowed(self, definition: ToolDefinition) -> bool:
        allowed = self._allow is None or definition.name in self._allow
        return allowed and definition.name not in self._deny


def _check_names(registry: ToolRegistry, names: Iterable[str]) -> frozenset[str]:
    listed = frozenset(names)
    for name in sorted(listed):
        if name not in registry.names:
            raise ConfigError(unknown_name_message("tool in the filter", name, registry.names))
    return listed


def check_exposed_tools(
    toolbox: Toolbox, max_count: int, max_bytes: int, max_per_request: int | None = None
) -> None:
    """Check that the exposed tools have valid schemas and are within the limits of providers.

    If there are more than `max_per_request`, requests have only some of them, and no limit applies.
    """
    specs = specs_of(toolbox)
    are_searched = max_per_request is not None and len(specs) > max_per_request
    if len(specs) > max_count and not are_searched:
        raise ConfigError(
            f"{len(specs)} tools exceed max_tool_definitions_count={max_count}. Set "
            "max_tools_per_request to send the most relevant ones and let the model find the others"
        )
    size = 0 if are_searched else len(msgspec.json.encode(specs))
    if size > max_bytes:
        raise ConfigError(
            f"{size} bytes of tools exceed max_tool_definitions_bytes={max_bytes}: expose fewer "
            "tools, or shorten their descriptions"
        )
    # Compiles each schema here instead of during the first run.
    _ = [definition.validate for definition in toolbox.definitions]
