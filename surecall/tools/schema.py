"""JSON Schema on the caller's side: written from signatures, made portable.

    function ─┬─ describe_function ─► what the model is told
              └─ bind_function ─────► the model's JSON as values of the annotated types
    provider ─── schema_of ─► schema ─ portable ─► schema, which `validation` compiles

Classes of pydantic's shape are known by their methods; pydantic itself is never imported.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any, is_typeddict

import msgspec

from surecall.tools.signatures import converter, dated, read_signature
from surecall.tools.validation import clipped, line
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON

_MAX_NODES = 10_000
_MAX_DEPTH = 64

_PROVIDER_METHODS = ("model_json_schema", "json_schema", "to_json_schema", "__json_schema__")
# `discriminator` is OpenAPI's, and its mapping would point at definitions that are gone.
_DROPPED = {"$defs", "$id", "$ref", "$schema", "definitions", "discriminator", "title"}
_ANNOTATIONS = {"default", "deprecated", "description", "examples"}
_MAPS_OF_SCHEMAS = {"$defs", "definitions", "dependencies", "dependentSchemas"}
_MAPS_OF_SCHEMAS |= {"patternProperties", "properties"}
_LISTS_OF_SCHEMAS = {"allOf", "anyOf", "items", "oneOf", "prefixItems"}
_SCHEMAS = {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"}
_SCHEMAS |= {"items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}


class FunctionSchema(msgspec.Struct, frozen=True):
    """A function as the model is told of it."""

    name: str
    description: str
    parameters: JSON
    grounded: dict[str, tuple[str, ...]] = {}


def describe_function(fn: Callable[..., Any]) -> FunctionSchema:
    """Describe a function by its signature, type hints and docstring."""
    signature = read_signature(fn)
    properties, definitions = {}, {}
    for one in signature.parameters:
        schema, definitions[one.name] = _written(
            one.hint, f"#/$defs/{one.name}", f"{signature.name}(): parameter {one.name!r}"
        )
        described = {"description": one.text} if one.text else {}
        properties[one.name] = {**schema, **described, **one.default}
    root = {
        "properties": properties,
        "required": [one.name for one in signature.parameters if one.required],
        "additionalProperties": signature.takes_more,
        "$defs": definitions,
    }
    grounds = {one.name: one.grounds for one in signature.parameters if one.grounds is not None}
    return FunctionSchema(signature.name, signature.summary, portable(root), grounds)


def bind_function(fn: Callable[..., Any]) -> Callable[[JSON], dict[str, Any]]:
    """Return the conversion of validated JSON arguments into `fn`'s keyword arguments."""
    signature = read_signature(fn)
    converters = {one.name: converter(one.hint) for one in signature.parameters}

    def bind(arguments: JSON) -> dict[str, Any]:
        bound = {}
        for name, value in arguments.items():
            if name not in converters and not signature.takes_more:
                raise ToolError(line([name], "the tool has no such parameter"))
            convert = converters.get(name)
            bound[name] = value if convert is None else _converted(name, convert, value)
        return bound

    return bind


def schema_of(source: object) -> JSON:
    """Return the schema that `source` is, or provides."""
    if isinstance(source, Mapping):
        return dict(source)
    if (provided := provided_schema(source)) is not None:
        return provided
    if isinstance(source, type) and (
        is_dataclass(source) or is_typeddict(source) or issubclass(source, msgspec.Struct)
    ):
        return written(source, f"The schema provider {source!r}")
    known = "a mapping, a dataclass, TypedDict, Struct or model class, or an object that has one of"
    methods = ", ".join(_PROVIDER_METHODS)
    raise ConfigError(f"{clipped(repr(source))} is no schema provider: pass {known} {methods}.")


def provided_schema(source: object) -> JSON | None:
    """Return the schema that an object, or a class of pydantic's shape, has a method for."""
    for method in _PROVIDER_METHODS:
        if callable(ask := getattr(source, method, None)):
            return _asked(ask, f"The schema provider {clipped(repr(source))}")
    return None


def portable(schema: JSON) -> JSON:
    """Return a copy that picky providers accept: an object, references inlined, no clutter."""
    root = inlined(schema)
    kind = root.pop("type", "object")
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        raise ConfigError(f"The parameters of a tool are an object, not {kind!r}.")
    return {"type": "object", "properties": {}, **root}


def inlined(schema: JSON) -> JSON:
    """Return a copy with references inlined, as far as they can be, and without clutter."""
    return _Portable(schema).document()


def written(hint: Any, where: str) -> JSON:
    """Write the schema of a type hint; `where` begins the sentence that says that it has none."""
    schema, definitions = _written(hint, "#/$defs", where)
    return {**schema, "$defs": definitions}


def _written(hint: Any, at: str, where: str) -> tuple[JSON, JSON]:
    """Return the hint's schema and the definitions it refers to, which belong at pointer `at`."""
    provided: JSON = {}

    def provide(kind: type[Any]) -> JSON:
        if kind is object:
            # msgspec takes an empty answer for none; `portable` drops the title.
            return {"title": "any"}
        if not callable(getattr(kind, "model_json_schema", None)):
            raise NotImplementedError
        key = f"{_plain_name(kind.__name__)}.{len(provided)}"
        provided[key] = _rebased(kind.model_json_schema(), f"{at}/{key}")
        return {"$ref": f"{at}/{key}"}

    try:
        (schema,), components = msgspec.json.schema_components(
            (dated(hint),), schema_hook=provide, ref_template=f"{at}/{{name}}"
        )
    except Exception as problem:
        reason = str(problem).strip().rpartition("\n")[2]
        raise ConfigError(f"{where} has no JSON Schema: {reason}.") from problem
    return schema, {**components, **provided}


def _converted(name: str, convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except BaseException as problem:  # a class of the application's is foreign code
        # Only errors about values are meant for the model; others may tell of our insides.
        told = isinstance(problem, ValueError | TypeError | ToolError)
        raise ToolError(line([name], str(problem) if told else "not acceptable")) from problem


def _asked(ask: Callable[[], object], provider: str) -> JSON:
    try:
        answer = ask()
    except Exception as problem:
        raise ConfigError(f"{provider} failed: {problem}.") from problem
    if not isinstance(answer, Mapping):
        raise ConfigError(f"{provider} returned {type(answer).__name__}, not a mapping.")
    return dict(answer)


# Portable schemas


class _Portable:
    """One rewriting: which references loop, and how much of the budget is spent."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._spent = 0
        self._seen: set[str] = set()
        self._loops: dict[str, str] = {}

    def document(self) -> JSON:
        """Write the whole schema."""
        self._trace(self._root, frozenset({"#"}), 0)
        self._spent = 0
        root = _as_mapping(self._write(self._root, 0, inline=True))
        loops = [(pointer, name) for pointer, name in self._loops.items() if pointer != "#"]
        definitions = {name: self._write(self._resolve(pointer), 1) for pointer, name in loops}
        return {**root, "$defs": definitions} if definitions else root

    def _trace(self, node: Any, ancestors: frozenset[str], depth: int) -> None:
        """Note every reference that leads back to itself."""
        self._spend(depth)
        if not isinstance(node, Mapping):
            return
        pointer = _pointer(node)
        if pointer in ancestors - self._loops.keys():
            self._loops[pointer] = self._fresh_name(pointer)
        elif pointer and pointer not in self._seen:
            self._seen.add(pointer)
            self._trace(self._resolve(pointer), ancestors | {pointer}, depth + 1)
        below = partial(self._trace, ancestors=ancestors, depth=depth + 1)
        _rebuilt(_kept(node), below, lambda _: None)

    def _fresh_name(self, pointer: str) -> str:
        name = _plain_name(pointer.rpartition("/")[2])
        while name in self._loops.values():
            name += "_"
        return name

    def _write(self, node: Any, depth: int, *, inline: bool = False) -> Any:
        if not isinstance(node, Mapping):
            return self._copy(node, depth)
        self._spend(depth)
        write, copy = partial(self._write, depth=depth + 1), partial(self._copy, depth=depth + 1)
        written = _typed(_rebuilt(_kept(node), write, copy))
        pointer = _pointer(node)
        if not pointer:
            return written
        if pointer in self._loops and not inline:
            name = self._loops[pointer]
            return {"$ref": pointer if pointer == "#" else f"#/$defs/{name}", **written}
        return _merged(self._write(self._resolve(pointer), depth + 1, inline=inline), written)

    def _copy(self, data: Any, depth: int) -> Any:
        self._spend(depth)
        if isinstance(data, Mapping):
            return {key: self._copy(value, depth + 1) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self._copy(value, depth + 1) for value in data]
        return data

    def _spend(self, depth: int) -> None:
        self._spent += 1
        if self._spent > _MAX_NODES:
            raise ConfigError(f"The schema has more than {_MAX_NODES} nodes, references inlined.")
        if depth > _MAX_DEPTH:
            raise ConfigError(f"The schema is nested deeper than {_MAX_DEPTH} levels.")

    def _resolve(self, pointer: str) -> Any:
        node: Any = self._root
        try:
            outside, *segments = pointer.split("/")
            if outside != "#":
                raise KeyError
            for segment in map(_unescaped, segments):
                node = node[int(segment)] if isinstance(node, list | tuple) else node[segment]
        except (LookupError, TypeError, ValueError) as problem:
            raise ConfigError(f"{pointer!r} refers to nothing in the schema.") from problem
        return node


def _pointer(schema: Mapping[str, Any]) -> str:
    pointer = schema.get("$ref")
    return pointer if isinstance(pointer, str) else ""


def _kept(schema: Mapping[str, Any]) -> JSON:
    # Some providers reject `required: []`; leaving the key out means the same.
    return {
        key: value
        for key, value in schema.items()
        if key not in _DROPPED and not (key == "required" and value in ([], ()))
    }


def _rebuilt(schema: JSON, visit: Callable[[Any], Any], copy: Callable[[Any], Any]) -> JSON:
    """Rebuild one level: `visit` what is a schema, `copy` what is mere data."""

    def rebuild(key: str, value: Any) -> Any:
        if key in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            return {name: visit(child) for name, child in value.items()}
        if key in _LISTS_OF_SCHEMAS and isinstance(value, list | tuple):
            return [visit(child) for child in value]
        return visit(value) if key in _SCHEMAS else copy(value)

    return {key: rebuild(key, value) for key, value in schema.items()}


def _rebased(schema: Any, at: str) -> Any:
    """Make the references of a schema hold when it is put at pointer `at`."""
    if not isinstance(schema, Mapping):
        return schema
    rebuilt = _rebuilt(dict(schema), lambda child: _rebased(child, at), lambda data: data)
    pointer = _pointer(schema)
    if pointer.startswith("#"):
        rebuilt["$ref"] = at + pointer[1:]
    return rebuilt


def _merged(target: Any, beside: JSON) -> Any:
    """Join a definition with what stood beside the reference to it."""
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
        raise ConfigError(f"A schema is an object, not {clipped(repr(schema))}.")
    return schema


def _typed(schema: JSON) -> JSON:
    """Give an enumeration of texts its type, which some providers insist on."""
    options = schema.get("enum")
    texts = isinstance(options, list) and all(isinstance(option, str) for option in options)
    return {"type": "string", **schema} if texts and options else schema


def _unescaped(segment: str) -> str:
    head, *tails = segment.split("%")
    octets = head.encode() + b"".join(bytes.fromhex(t[:2]) + t[2:].encode() for t in tails)
    return octets.decode().replace("~1", "/").replace("~0", "~")


def _plain_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "_-" else "_" for char in name)
