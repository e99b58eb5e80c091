"""What a fault of shape is, and how one is written: a small function that spoils a clean reply.

    @shape_fault("arguments", "D23", cures=("code_fence",))    family, sources, what must fire
    @on_text                                                   which part of the reply it changes
    def arguments_fenced(text, sample): ...                    name: the id; docstring: the help

A fault that does not apply to a reply returns the same object. Nothing is ever mutated.
"""

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from surecall.values.types import JSON

Options: TypeAlias = Sequence[Any]

# From the outside of a reply to its inside, and then to the run as a whole.
FAMILIES = ("envelope", "message", "ids", "names", "arguments", "loop")
# A tool that was never offered; models that know the name put several calls into one of it.
PARALLEL = "multi_tool_use.parallel"


class ShapeFault(msgspec.Struct, frozen=True):
    """One way in which the shape of a reply can be wrong, and what must happen then.

    `outcome` is `cured` (the reply reads as the clean one), `retried` (asked again), a code (the
    model is told, or the request fails), or `opt_in:<preset>` (cured by that preset alone).
    `cures` are the steps that leave their names in `Reply.fired`. A fault that is `only_first` is
    not shown any more when a tool was called.
    """

    id: str
    sources: tuple[str, ...]
    family: str
    summary: str
    outcome: str = "cured"
    cures: tuple[str, ...] = ()
    only_first: bool = False


class Sample(msgspec.Struct, frozen=True):
    """What else a fault may look at: a number to vary by, and the tools of the request."""

    seed: int = 0
    tools: tuple[JSON, ...] = ()
    schema: JSON = {}

    def pick(self, options: Options) -> Any:
        """Choose one of several spellings, by the seed."""
        return options[self.seed % len(options)]

    def about(self, name: object) -> "Sample":
        """Return the sample with the schema of one tool; the same sample if the tool is unknown."""
        for tool in self.tools:
            match tool:
                case {"function": {"name": known, "parameters": dict(schema)}} if known == name:
                    return msgspec.structs.replace(self, schema=schema)
        return self


Change: TypeAlias = Callable[[Any, Sample], Any]

SHAPE_FAULTS: dict[str, ShapeFault] = {}
_CHANGES: dict[str, Change] = {}


def apply_fault(fault_id: str, body: JSON, seed: int = 0, tools: Sequence[JSON] = ()) -> JSON:
    """Apply a fault to a clean chat completion; the same object (`is`) if it does not apply.

    `tools` are the definitions of the request, for the few faults that depend on a schema.
    """
    faulty: JSON = _CHANGES[fault_id](body, Sample(seed, tuple(tools)))
    return faulty


def shape_fault(
    family: str,
    *sources: str,
    outcome: str = "cured",
    cures: tuple[str, ...] = (),
    only_first: bool = False,
) -> Callable[[Change], Change]:
    """Register a function from body to body under its own name."""

    def register(function: Change) -> Change:
        name = function.__name__
        summary = (function.__doc__ or "").strip()
        SHAPE_FAULTS[name] = ShapeFault(name, sources, family, summary, outcome, cures, only_first)
        _CHANGES[name] = function
        return function

    return register


# Which part of a reply is changed. Each returns a function from body to body.


def on_choice(function: Change) -> Change:
    """Change the one choice."""

    @functools.wraps(function)
    def wrapped(body: JSON, sample: Sample) -> JSON:
        match body:
            case {"choices": [dict(choice), *others]}:
                changed = function(choice, sample)
                return body if changed is choice else body | {"choices": [changed, *others]}
            case _:
                return body

    return wrapped


def on_message(function: Change) -> Change:
    """Change the message in the choice."""

    @on_choice
    @functools.wraps(function)
    def wrapped(choice: JSON, sample: Sample) -> JSON:
        message = choice.get("message")
        if not isinstance(message, dict):
            return choice
        changed = function(message, sample)
        return choice if changed is message else choice | {"message": changed}

    return wrapped


def on_calls(function: Change) -> Change:
    """Change the list of calls, if there is one and it is not empty."""

    @on_message
    @functools.wraps(function)
    def wrapped(message: JSON, sample: Sample) -> JSON:
        calls = message.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            return message
        changed = function(calls, sample)
        return message if changed is calls else message | {"tool_calls": changed}

    return wrapped


def on_call(function: Change) -> Change:
    """Change each call that the model meant; what another fault put between them stays."""

    @on_calls
    @functools.wraps(function)
    def wrapped(calls: list[Any], sample: Sample) -> list[Any]:
        changed = [function(call, sample) if _is_meant(call) else call for call in calls]
        pairs = zip(changed, calls, strict=True)
        return calls if all(after is before for after, before in pairs) else changed

    return wrapped


def on_function(function: Change) -> Change:
    """Change the name and arguments of each call, as one object."""

    @on_call
    @functools.wraps(function)
    def wrapped(call: JSON, sample: Sample) -> JSON:
        inner = call.get("function")
        changed = function(inner, sample) if isinstance(inner, dict) else inner
        return call if changed is inner else call | {"function": changed}

    return wrapped


def on_text(function: Change) -> Change:
    """Change the arguments of each call as text."""

    @on_function
    @functools.wraps(function)
    def wrapped(inner: JSON, sample: Sample) -> JSON:
        text = inner.get("arguments")
        if not isinstance(text, str):
            return inner
        changed = function(text, sample)
        return inner if changed is text or changed == text else inner | {"arguments": changed}

    return wrapped


def on_values(function: Change) -> Change:
    """Change the arguments of each call as an object; text stays text."""

    @on_function
    @functools.wraps(function)
    def wrapped(inner: JSON, sample: Sample) -> JSON:
        values = decoded(inner.get("arguments"))
        if values is None:
            return inner
        changed = function(values, sample.about(inner.get("name")))
        if changed is values:
            return inner
        as_text = isinstance(inner["arguments"], str)
        return inner | {"arguments": written(changed) if as_text else changed}

    return wrapped


def decoded(arguments: object) -> JSON | None:
    """Read arguments that are still clean; None if another fault has spoilt them already."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def written(value: object) -> str:
    """Write JSON the way models do: compact, and in plain characters."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate can be sent as an escape only.
    return text if _encodable(text) else json.dumps(value)


def _is_meant(call: object) -> bool:
    """Whether this is a call of a tool, not a blank, a wrapper or a name with tags in it."""
    if not isinstance(call, dict):
        return False
    name = call.get("function", call).get("name")
    return isinstance(name, str) and name not in {"", PARALLEL} and "<arg_key>" not in name


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
