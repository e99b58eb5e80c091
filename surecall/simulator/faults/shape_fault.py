"""Define shape faults: small functions that make a clean reply malformed.

    @shape_fault(on_text, "arguments", "D23", repairs=("code_fence",))
    def arguments_fenced(text, sample): ...

The level is the part of the reply that the fault changes, followed by its family, its sources, and
the repairs that must undo it. The function's name is the fault's id, its docstring the summary.

A fault that does not apply to a reply returns the same object. Faults never mutate their input.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from surecall.values.types import JSON

Options: TypeAlias = Sequence[Any]

# From the outside of a reply to its inside, then the run as a whole.
FAMILIES = ("envelope", "message", "ids", "names", "arguments", "loop")
# Not an exposed tool: some models wrap several calls in one call of this name.
PARALLEL_WRAPPER = "multi_tool_use.parallel"


class ShapeFault(msgspec.Struct, frozen=True):
    """A malformed shape of a reply, and its expected outcome.

    `outcome` is `repaired` (to the clean reply), `retried` (re-prompted), an error code (sent back
    to the model, or the request fails), or `opt_in:<preset>` (repaired only with that preset).
    `repairs` are the names expected in `Reply.fired`. With `only_first`, the fault stops after
    the first tool call.
    """

    id: str
    sources: tuple[str, ...]
    family: str
    summary: str
    outcome: str = "repaired"
    repairs: tuple[str, ...] = ()
    only_first: bool = False


class Sample(msgspec.Struct, frozen=True):
    """The context of a fault: a seed that selects a variant, and the tools of the request."""

    seed: int = 0
    tools: tuple[JSON, ...] = ()
    schema: JSON = {}

    def pick(self, options: Options) -> Any:
        """Return the variant that the seed selects."""
        return options[self.seed % len(options)]

    def for_tool(self, name: object) -> "Sample":
        """Return the sample with the schema of a tool, or itself if the tool is unknown."""
        for tool in self.tools:
            match tool:
                case {"function": {"name": known, "parameters": dict(schema)}} if known == name:
                    return msgspec.structs.replace(self, schema=schema)
        return self


ShapeChange: TypeAlias = Callable[[Any, Sample], Any]
ShapeLevel: TypeAlias = Callable[[ShapeChange], ShapeChange]

SHAPE_FAULTS: dict[str, ShapeFault] = {}
_CHANGES: dict[str, ShapeChange] = {}


def apply_fault(fault_id: str, body: JSON, seed: int = 0, tools: Sequence[JSON] = ()) -> JSON:
    """Apply a fault to a clean chat completion; return the same object (`is`) if it does not apply.

    Some faults depend on the schemas in `tools`, the tool definitions of the request.
    """
    faulty: JSON = _CHANGES[fault_id](body, Sample(seed, tuple(tools)))
    return faulty


def shape_fault(
    level: ShapeLevel,
    family: str,
    *sources: str,
    outcome: str = "repaired",
    repairs: tuple[str, ...] = (),
    only_first: bool = False,
) -> Callable[[ShapeChange], ShapeChange]:
    """Register a function as a fault; `level` is the part of the body that it changes."""

    def register(function: ShapeChange) -> ShapeChange:
        name = function.__name__
        summary = (function.__doc__ or "").strip()
        SHAPE_FAULTS[name] = ShapeFault(
            name, sources, family, summary, outcome, repairs, only_first
        )
        _CHANGES[name] = level(function)
        return function

    return register


# The levels. Each returns a function that maps a body to a body.


def on_body(function: ShapeChange) -> ShapeChange:
    """Change the whole body."""
    return function


def on_choice(function: ShapeChange) -> ShapeChange:
    """Change the first choice."""

    def change_body(body: JSON, sample: Sample) -> JSON:
        match body:
            case {"choices": [dict(choice), *others]}:
                changed = function(choice, sample)
                return body if changed is choice else body | {"choices": [changed, *others]}
            case _:
                return body

    return change_body


def _level_inside(outer: ShapeLevel, key: str, kind: type) -> ShapeLevel:
    """Return a level that changes the values of type `kind` under a key of the outer level."""

    def level(function: ShapeChange) -> ShapeChange:
        def change_holder(holder: JSON, sample: Sample) -> JSON:
            inner = holder.get(key)
            if not isinstance(inner, kind) or inner == []:
                return holder
            changed = function(inner, sample)
            same = changed is inner or (kind is str and changed == inner)
            return holder if same else holder | {key: changed}

        return outer(change_holder)

    return level


on_message: Final = _level_inside(on_choice, "message", dict)
on_calls: Final = _level_inside(on_message, "tool_calls", list)


def on_call(function: ShapeChange) -> ShapeChange:
    """Change each real call, but not the values that another fault put between them."""

    def change_calls(calls: list[Any], sample: Sample) -> list[Any]:
        changed = [function(call, sample) if _is_real_call(call) else call for call in calls]
        pairs = zip(changed, calls, strict=True)
        return calls if all(after is before for after, before in pairs) else changed

    return on_calls(change_calls)


on_function: Final = _level_inside(on_call, "function", dict)
on_text: Final = _level_inside(on_function, "arguments", str)


def on_values(function: ShapeChange) -> ShapeChange:
    """Change the decoded arguments of each call; arguments in a string stay in a string."""

    def change_arguments(inner: JSON, sample: Sample) -> JSON:
        values = decode_arguments(inner.get("arguments"))
        changed = None if values is None else function(values, sample.for_tool(inner.get("name")))
        return inner if changed is values else with_arguments(inner, changed)

    return on_function(change_arguments)


def with_arguments(function: JSON, values: Any) -> JSON:
    """Return a function with other arguments, encoded if the old ones were."""
    as_text = isinstance(function["arguments"], str)
    return function | {"arguments": encode_json(values) if as_text else values}


def decode_arguments(arguments: object) -> JSON | None:
    """Decode clean arguments; return None if another fault already changed them."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def encode_json(value: object) -> str:
    """Encode JSON as models do: compact and unescaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate must be escaped
        return json.dumps(value)
    return text


def _is_real_call(call: object) -> bool:
    """Return whether this calls a tool: no blank name, no wrapper, no tags in the name."""
    if not isinstance(call, dict):
        return False
    name = call.get("function", call).get("name")
    return isinstance(name, str) and name not in {"", PARALLEL_WRAPPER} and "<arg_key>" not in name
