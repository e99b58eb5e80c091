"""Builds JSON Schemas from signatures and type hints, and makes schemas portable.

    function ─┬─ describe_function ─► the schema that the model sees
              └─ function_binder ───► the model's JSON as values of the annotated types
    provider ─── schema_of ─► schema ─ portable_schema ─► schema, which `validation` compiles

Pydantic-style classes are recognized by their methods; pydantic itself is never imported.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any, is_typeddict

import msgspec

from surecall.tools.signatures import converter, parse_signature, with_date_format
from surecall.tools.validation import clip_middle, problem_line
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON

MAX_NODES = 10_000
_MAX_DEPTH = 64

_PROVIDER_METHODS = ("model_json_schema", "json_schema", "to_json_schema", "__json_schema__")
# `discriminator` belongs to OpenAPI, and its mapping would refer to removed definitions.
_DROPPED_KEYWORDS = {"$defs", "$id", "$ref", "$schema", "definitions", "discriminator", "title"}
_ANNOTATIONS = {"default", "deprecated", "description", "examples"}
_MAPS_OF_SCHEMAS = {"$defs", "definitions", "dependencies", "dependentSchemas"}
_MAPS_OF_SCHEMAS |= {"patternProperties", "properties"}
_LISTS_OF_SCHEMAS = {"allOf", "anyOf", "items", "oneOf", "prefixItems"}
_SINGLE_SCHEMAS = {
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
}
_SINGLE_SCHEMAS |= {
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
}


class FunctionSchema(msgspec.Struct, frozen=True):
    """A function as described to the model."""

    name: str
    description: str
    parameters: JSON
    grounded: dict[str, tuple[str, ...]] = {}


def describe_function(fn: Callable[..., Any]) -> FunctionSchema:
    """Describe a function by its signature, type hints, and docstring."""
    signature = parse_signature(fn)
    properties, definitions = {}, {}
    for one in signature.parameters:
        schema, definitions[one.name] = _hint_schema_parts(
            one.hint, f"#/$defs/{one.name}", f"{signature.name}(): parameter {one.name!r}"
        )
        described = {"description": one.description} if one.description else {}
        properties[one.name] = {**schema, **described, **one.default}
    root = {
        "properties": properties,
        "required": [one.name for one in signature.parameters if one.required],
        "additionalProperties": signature.accepts_extra,
        "$defs": definitions,
    }
    grounds = {one.name: one.grounds for one in signature.parameters if one.grounds is not None}
    return FunctionSchema(signature.name, signature.summary, portable_schema(root), grounds)


def function_binder(fn: Callable[..., Any]) -> Callable[[JSON], dict[str, Any]]:
    """Return a function that converts validated JSON arguments to keyword arguments of `fn`."""
    signature = parse_signature(fn)
    converters = {one.name: converter(one.hint) for one in signature.parameters}

    def bind(arguments: JSON) -> dict[str, Any]:
        bound = {}
        for name, value in arguments.items():
            if name not in converters and not signature.accepts_extra:
                raise ToolError(problem_line([name], "the tool has no such parameter"))
            convert = converters.get(name)
            bound[name] = value if convert is None else _convert_argument(name, convert, value)
        return bound

    return bind


def schema_of(source: object) -> JSON:
    """Return the schema that `source` is or provides."""
    if isinstance(source, Mapping):
        return dict(source)
    if (provided := provided_schema(source)) is not None:
        return provided
    if isinstance(source, type) and (
        is_dataclass(source) or is_typeddict(source) or issubclass(source, msgspec.Struct)
    ):
        return hint_schema(source, f"the schema provider {source!r}")
    known = "a mapping, a dataclass, TypedDict, Struct, or model class, or an object with one of"
    methods = ", ".join(_PROVIDER_METHODS)
    raise ConfigError(
        f"{clip_middle(repr(source))} is not a schema provider: pass {known} {methods}"
    )


def provided_schema(source: object) -> JSON | None:
    """Return the schema from a schema method of an object or class, or None without one."""
    for method in _PROVIDER_METHODS:
        if callable(ask := getattr(source, method, None)):
            return _require_provided_schema(ask, f"the schema provider {clip_middle(repr(source))}")
    return None


def portable_schema(schema: JSON) -> JSON:
    """Return a copy for strict providers: an object schema with references inlined."""
    root = inline_references(schema)
    kind = root.pop("type", "object")
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        raise ConfigError(f"the parameters of a tool must be an object, not {kind!r}")
    return {"type": "object", "properties": {}, **root}


def inline_references(schema: JSON) -> JSON:
    """Return a copy with all non-recursive references inlined and unneeded keywords removed."""
    return _SchemaRewriter(schema).rewrite()


def hint_schema(hint: Any, where: str) -> JSON:
    """Return the schema of a type hint; `where` starts the error message if it has none."""
    schema, definitions = _hint_schema_parts(hint, "#/$defs", where)
    return {**schema, "$defs": definitions}


def _hint_schema_parts(hint: Any, at: str, where: str) -> tuple[JSON, JSON]:
    """Return the schema of a hint, and its definitions, which belong at pointer `at`."""
    provided: JSON = {}

    def provide_schema(kind: type[Any]) -> JSON:
        """Return a reference to the schema of a type that msgspec does not know."""
        if kind is object:
            # msgspec treats an empty schema as none; `portable_schema` drops the title.
            return {"title": "any"}
        if not callable(getattr(kind, "model_json_schema", None)):
            raise NotImplementedError
        key = f"{_definition_name(kind.__name__)}.{len(provided)}"
        provided[key] = rebase_references(kind.model_json_schema(), f"{at}/{key}")
        return {"$ref": f"{at}/{key}"}

    try:
        (schema,), components = msgspec.json.schema_components(
            (with_date_format(hint),), schema_hook=provide_schema, ref_template=f"{at}/{{name}}"
        )
    except Exception as problem:
        reason = str(problem).strip().rpartition("\n")[2]
        raise ConfigError(f"{where} has no JSON Schema: {reason}") from problem
    return schema, {**components, **provided}


def _convert_argument(name: str, convert: Callable[[Any], Any], value: Any) -> Any:
    """Convert one argument; raise `ToolError` that names it."""
    try:
        return convert(value)
    except BaseException as problem:  # the application's code may raise anything
        # Only errors about values are meant for the model; others may leak internals.
        is_safe = isinstance(problem, ValueError | TypeError | ToolError)
        raise ToolError(
            problem_line([name], str(problem) if is_safe else "not acceptable")
        ) from problem


def _require_provided_schema(provide: Callable[[], object], label: str) -> JSON:
    """Return the schema that a function provides; raise if it fails."""
    try:
        answer = provide()
    except Exception as problem:
        raise ConfigError(f"{label} failed: {problem}") from problem
    if not isinstance(answer, Mapping):
        raise ConfigError(f"{label} returned {type(answer).__name__}, not a mapping")
    return dict(answer)


# Portable schemas


class _SchemaRewriter:
    """The state of one rewriting: recursive references and spent nodes."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._spent = 0
        self._seen: set[str] = set()
        self._loops: dict[str, str] = {}

    def rewrite(self) -> JSON:
        """Return the rewritten schema."""
        self._find_loops(self._root, frozenset({"#"}), 0)
        self._spent = 0
        root = _as_mapping(self._rewrite_node(self._root, 0, inline=True))
        loops = [(pointer, name) for pointer, name in self._loops.items() if pointer != "#"]
        definitions = {
            name: self._rewrite_node(self._resolve(pointer), 1) for pointer, name in loops
        }
        return {**root, "$defs": definitions} if definitions else root

    def _find_loops(self, node: Any, ancestors: frozenset[str], depth: int) -> None:
        """Record every recursive reference."""
        self._count_node(depth)
        if not isinstance(node, Mapping):
            return
        pointer = _reference_of(node)
        if pointer in ancestors - self._loops.keys():
            self._loops[pointer] = self._unused_name(pointer)
        elif pointer and pointer not in self._seen:
            self._seen.add(pointer)
            self._find_loops(self._resolve(pointer), ancestors | {pointer}, depth + 1)
        below = partial(self._find_loops, ancestors=ancestors, depth=depth + 1)
        _rebuild(_without_unneeded_keywords(node), below, lambda _: None)

    def _unused_name(self, pointer: str) -> str:
        """Return a name for a recursive definition that no other one has."""
        name = _definition_name(pointer.rpartition("/")[2])
        while name in self._loops.values():
            name += "_"
        return name

    def _rewrite_node(self, node: Any, depth: int, *, inline: bool = False) -> Any:
        """Rewrite a schema; with `inline`, a recursive reference, too."""
        if not isinstance(node, Mapping):
            return self._copy_data(node, depth)
        self._count_node(depth)
        write, copy = (
            partial(self._rewrite_node, depth=depth + 1),
            partial(self._copy_data, depth=depth + 1),
        )
        written = _with_enum_type(_rebuild(_without_unneeded_keywords(node), write, copy))
        pointer = _reference_of(node)
        if not pointer:
            return written
        if pointer in self._loops and not inline:
            name = self._loops[pointer]
            return {"$ref": pointer if pointer == "#" else f"#/$defs/{name}", **written}
        return _merge_siblings(
            self._rewrite_node(self._resolve(pointer), depth + 1, inline=inline), written
        )

    def _copy_data(self, data: Any, depth: int) -> Any:
        """Copy data that is no schema, such as a default value."""
        self._count_node(depth)
        if isinstance(data, Mapping):
            return {key: self._copy_data(value, depth + 1) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self._copy_data(value, depth + 1) for value in data]
        return data

    def _count_node(self, depth: int) -> None:
        """Count a node; raise if the schema is too large or nested too deeply."""
        self._spent += 1
        if self._spent > MAX_NODES:
            raise ConfigError(f"the schema has more than {MAX_NODES} nodes with references inlined")
        if depth > _MAX_DEPTH:
            raise ConfigError(f"the schema is nested deeper than {_MAX_DEPTH} levels")

    def _resolve(self, pointer: str) -> Any:
        """Return the schema that a reference names; raise if there is none."""
        node: Any = self._root
        try:
            outside, *segments = pointer.split("/")
            if outside != "#":
                raise KeyError
            for segment in map(_unescape_segment, segments):
                node = node[int(segment)] if isinstance(node, list | tuple) else node[segment]
        except (LookupError, TypeError, ValueError) as problem:
            raise ConfigError(
                f"the reference {pointer!r} cannot be resolved in the schema"
            ) from problem
        return node


def _reference_of(schema: Mapping[str, Any]) -> str:
    """Return the reference of a schema; blank if it has none."""
    pointer = schema.get("$ref")
    return pointer if isinstance(pointer, str) else ""


def _without_unneeded_keywords(schema: Mapping[str, Any]) -> JSON:
    # Some providers reject `required: []`; omitting the key is equivalent.
    return {
        key: value
        for key, value in schema.items()
        if key not in _DROPPED_KEYWORDS and not (key == "required" and value in ([], ()))
    }


def _rebuild(schema: JSON, visit: Callable[[Any], Any], copy: Callable[[Any], Any]) -> JSON:
    """Rebuild one level: `visit` each schema, `copy` other data."""

    def rebuild(key: str, value: Any) -> Any:
        if key in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            return {name: visit(child) for name, child in value.items()}
        if key in _LISTS_OF_SCHEMAS and isinstance(value, list | tuple):
            return [visit(child) for child in value]
        return visit(value) if key in _SINGLE_SCHEMAS else copy(value)

    return {key: rebuild(key, value) for key, value in schema.items()}


def rebase_references(schema: Any, at: str) -> Any:
    """Adjust the references of a schema that is moved to pointer `at`."""
    if not isinstance(schema, Mapping):
        return schema
    rebuilt = _rebuild(dict(schema), lambda child: rebase_references(child, at), lambda data: data)
    pointer = _reference_of(schema)
    if pointer.startswith("#"):
        rebuilt["$ref"] = at + pointer[1:]
    return rebuilt


def _merge_siblings(target: Any, beside: JSON) -> Any:
    """Merge a definition with the siblings of the reference to it."""
    if not beside:
        return target
    target = _as_mapping(target)
    if all(
        key in _ANNOTATIONS or (key, value) == ("type", target.get("type"))
        for key, value in beside.items()
    ):
        return {**target, **beside}
    return {**beside, "allOf": [target, *beside.get("allOf", ())]}


def _as_mapping(schema: Any) -> JSON:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        raise ConfigError(f"a schema must be an object, not {clip_middle(repr(schema))}")
    return schema


def _with_enum_type(schema: JSON) -> JSON:
    """Add the type to an enum of strings, which some providers require."""
    options = schema.get("enum")
    texts = isinstance(options, list) and all(isinstance(option, str) for option in options)
    return {"type": "string", **schema} if texts and options else schema


def _unescape_segment(segment: str) -> str:
    head, *tails = segment.split("%")
    octets = head.encode() + b"".join(bytes.fromhex(t[:2]) + t[2:].encode() for t in tails)
    return octets.decode().replace("~1", "/").replace("~0", "~")


def _definition_name(name: str) -> str:
    """Return a name with letters, digits, `_`, and `-` only."""
    return "".join(char if char.isalnum() or char in "_-" else "_" for char in name)
