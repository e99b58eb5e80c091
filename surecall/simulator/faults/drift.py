"""What a drift is, and how one is written: a small function that bends a clean reply.

    @drift("arguments", "D23", cures=("code_fence",))     family, sources, what must fire
    @on_text                                              which part of the reply it bends
    def arguments_fenced(text, scene): ...                its name is the id, its docstring the help

A drift that does not apply to a reply returns it as it came. Nothing is ever mutated.
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
# The name of a tool that nobody offered; models that know it put several calls into one of it.
PARALLEL = "multi_tool_use.parallel"


class Drift(msgspec.Struct, frozen=True):
    """One way in which replies are bent, and what must become of it.

    `outcome` is `cured` (the reply reads as the clean one), `retried` (asked again), a code (the
    model is told, or the request fails), or `opt_in:<preset>` (cured by that preset alone).
    `cures` are the steps that leave their names in `Reply.fired`.
    """

    id: str
    sources: tuple[str, ...]
    family: str
    summary: str
    outcome: str = "cured"
    cures: tuple[str, ...] = ()


class Scene(msgspec.Struct, frozen=True):
    """What else a drift may look at: a number to vary by, and the tools of the request."""

    seed: int = 0
    tools: tuple[JSON, ...] = ()
    schema: JSON = {}

    def pick(self, options: Options) -> Any:
        """Choose one of several spellings, by the seed."""
        return options[self.seed % len(options)]

    def about(self, name: object) -> "Scene":
        """Return the scene with the schema of one tool, empty when it is not known."""
        for tool in self.tools:
            match tool:
                case {"function": {"name": known, "parameters": dict(schema)}} if known == name:
                    return msgspec.structs.replace(self, schema=schema)
        return self


Bend: TypeAlias = Callable[[Any, Scene], Any]

DRIFTS: dict[str, Drift] = {}
_BENDS: dict[str, Bend] = {}


def bend(drift_id: str, body: JSON, seed: int = 0, tools: Sequence[JSON] = ()) -> JSON:
    """Bend a clean chat completion; the very same object when the drift does not apply to it.

    `tools` are the definitions of the request, for the few drifts that depend on a schema.
    """
    bent: JSON = _BENDS[drift_id](body, Scene(seed, tuple(tools)))
    return bent


def drift(
    family: str, *sources: str, outcome: str = "cured", cures: tuple[str, ...] = ()
) -> Callable[[Bend], Bend]:
    """Register a function from body to body under its own name."""

    def register(function: Bend) -> Bend:
        name = function.__name__
        summary = (function.__doc__ or "").strip()
        DRIFTS[name] = Drift(name, sources, family, summary, outcome, cures)
        _BENDS[name] = function
        return function

    return register


# Which part of a reply is bent. Each returns a function from body to body.


def on_choice(function: Bend) -> Bend:
    """Bend the one choice."""

    @functools.wraps(function)
    def bent(body: JSON, scene: Scene) -> JSON:
        match body:
            case {"choices": [dict(choice), *_]}:
                changed = function(choice, scene)
                return body if changed is choice else body | {"choices": [changed]}
            case _:
                return body

    return bent


def on_message(function: Bend) -> Bend:
    """Bend the message in the choice."""

    @on_choice
    @functools.wraps(function)
    def bent(choice: JSON, scene: Scene) -> JSON:
        message = choice.get("message")
        if not isinstance(message, dict):
            return choice
        changed = function(message, scene)
        return choice if changed is message else choice | {"message": changed}

    return bent


def on_calls(function: Bend) -> Bend:
    """Bend the list of calls, where there is one that is not empty."""

    @on_message
    @functools.wraps(function)
    def bent(message: JSON, scene: Scene) -> JSON:
        calls = message.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            return message
        changed = function(calls, scene)
        return message if changed is calls else message | {"tool_calls": changed}

    return bent


def on_call(function: Bend) -> Bend:
    """Bend each call that a model meant; what another drift put between them stays."""

    @on_calls
    @functools.wraps(function)
    def bent(calls: list[Any], scene: Scene) -> list[Any]:
        changed = [function(call, scene) if _is_meant(call) else call for call in calls]
        pairs = zip(changed, calls, strict=True)
        return calls if all(after is before for after, before in pairs) else changed

    return bent


def on_function(function: Bend) -> Bend:
    """Bend the name and arguments of each call, as one object."""

    @on_call
    @functools.wraps(function)
    def bent(call: JSON, scene: Scene) -> JSON:
        inner = call.get("function")
        changed = function(inner, scene) if isinstance(inner, dict) else inner
        return call if changed is inner else call | {"function": changed}

    return bent


def on_text(function: Bend) -> Bend:
    """Bend the arguments of each call as text."""

    @on_function
    @functools.wraps(function)
    def bent(inner: JSON, scene: Scene) -> JSON:
        text = inner.get("arguments")
        if not isinstance(text, str):
            return inner
        changed = function(text, scene)
        return inner if changed is text or changed == text else inner | {"arguments": changed}

    return bent


def on_values(function: Bend) -> Bend:
    """Bend the arguments of each call as an object; text stays text."""

    @on_function
    @functools.wraps(function)
    def bent(inner: JSON, scene: Scene) -> JSON:
        values = decoded(inner.get("arguments"))
        if values is None:
            return inner
        changed = function(values, scene.about(inner.get("name")))
        if changed is values:
            return inner
        as_text = isinstance(inner["arguments"], str)
        return inner | {"arguments": written(changed) if as_text else changed}

    return bent


def decoded(arguments: object) -> JSON | None:
    """Read arguments that are clean so far; None for what another drift has bent already."""
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
