"""The keyword arguments of a run, and the validation of a runner's arguments.

Mistakes raise a `ConfigError` with the remedy before anything is sent. User content may be a list
of parts; text and images are checked, and other types are passed on unchanged:

    [{"type": "text", "text": "…"}, {"type": "image_url", "image_url": {"url": "data:…"}}]
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypedDict, TypeVar, cast, get_args

from surecall.core.outcome import RunFailed, RunResult
from surecall.core.state import Run
from surecall.runtime.hooks import (
    AcceptFinal,
    AnyToolPolicy,
    Executor,
    Observer,
    accepts_tool,
    executor_context_parameter,
)
from surecall.runtime.transport import Client, OpenAICompatible
from surecall.settings.capabilities import provider_for_url
from surecall.settings.config import ToolCallingConfig, check_options, mark_resolved
from surecall.settings.contract import Contract, Need
from surecall.settings.overlay import deep_merge, overlay
from surecall.settings.presets import resolve
from surecall.tools.context import Context
from surecall.tools.grounded import check_reachable, prerequisite_groups
from surecall.tools.registry import ToolRegistry
from surecall.tools.signatures import is_async_callable
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message
from surecall.values.types import JSON, Message, System, User, sha256
from surecall.wire.chat_format import parse_message, roundtrip_json

# The keyword arguments of a new run, of a turn of a conversation, and of a resumed run.

F = TypeVar("F", bound=Callable[..., Any])


class WatchOptions(TypedDict, total=False):
    """Keyword arguments of every method that runs or resumes a run."""

    on_event: Observer | None
    context: Mapping[str, Any] | None


class _DecisionOptions(TypedDict, total=False):
    decisions: Mapping[str, Decision] | None


class ResumeOptions(_DecisionOptions, WatchOptions, total=False):
    """Keyword arguments of `resume` and its other forms."""


class TurnOptions(WatchOptions, total=False):
    """Keyword arguments of every method that sends user text.

    `system` replaces the runner's instructions for this run; a blank string means none.
    `temperature`, `max_tokens` and `options` take precedence over the runner's. `on_event` receives
    every event. `context` is passed to the tool policy and to tools with a parameter annotated
    `Context`; the model never sees it.
    """

    system: str | None
    max_turns: int | None
    temperature: float | None
    max_tokens: int | None
    options: Mapping[str, Any] | None


class RunOptions(TurnOptions, total=False):
    """Keyword arguments of `run`, `stream` and their blocking forms; `history` comes first."""

    history: Iterable[Any] | RunResult | None


def check_keywords(keywords: Mapping[str, object], accepted: type[WatchOptions]) -> None:
    """Raise `TypeError` for keyword arguments that a method does not have, as Python does."""
    for name in keywords:
        if name not in (names := accepted.__annotations__):
            raise TypeError(unknown_name_message("keyword argument", name, names))


def expand_keywords(method: F) -> F:
    """Make `help()` show each key of `**options: Unpack[…]` as a keyword argument."""
    signature = inspect.signature(method)
    *others, options = signature.parameters.values()
    (kind,) = get_args(options.annotation)
    keywords = [
        options.replace(name=name, kind=options.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in kind.__annotations__.items()
    ]
    expanded = signature.replace(parameters=[*others, *keywords])
    method.__signature__ = expanded  # type: ignore[attr-defined]  # as `inspect` reads it
    return method


_TEXT = '{"type": "text", "text": "…"}'
_IMAGE = '{"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}'


def check_parts(parts: list[Any]) -> None:
    """Raise `ConfigError` for content parts that every endpoint would reject."""
    for number, part in enumerate(parts, start=1):
        if problem := _part_problem(part):
            raise ConfigError(f"part {number} of the user text {problem}")


def _part_problem(part: Any) -> str | None:
    """Return why a content part is invalid; None if it is valid or of another type."""
    if not isinstance(part, Mapping):
        return f"must be a mapping such as {_TEXT}, not {type(part).__name__}"
    match part.get("type"):
        case "text":
            return None if isinstance(part.get("text"), str) else f"has no text: write {_TEXT}"
        case "image_url":
            return _image_problem(part.get("image_url"))
        case str(kind) if kind:
            return None
        case _:
            return f"has no type: write {_TEXT} or {_IMAGE}"


def _image_problem(image: Any) -> str | None:
    url = image.get("url") if isinstance(image, Mapping) else None
    if not isinstance(url, str):
        return f"has no image URL: write {_IMAGE}"
    # Endpoints cannot read local files, and their error messages are less clear.
    if ":" not in url[:32]:
        return f"has the image URL {url[:80]!r}: write https://… or data:image/png;base64,…"
    return None


# Validation of the arguments of a runner.

_POLICY_METHODS = {
    "visible": "def visible(self, tool, context) -> bool",
    "authorize": "def authorize(self, call, context) -> Decision",
}


def checked_client(client: Any) -> Client:
    """Return the client, built for a URL that needs no key; raise for anything else."""
    if isinstance(client, str):
        return OpenAICompatible(client)
    methods = (getattr(client, name, None) for name in ("send", "opened"))
    if isinstance(client, type) or not all(map(callable, methods)):
        hint = "; pass its url" if hasattr(client, "url") else ""
        raise ConfigError(
            'client must be an OpenAICompatible("https://…", api_key) or an address such as '
            f'"http://127.0.0.1:8000", not {_type_name(client)}{hint}'
        )
    return cast("Client", client)


def checked_model(model: Any) -> str:
    """Return the model's name; raise if it is not a name."""
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"model must be a name, or a list of names, not {_type_name(model)}")
    if model is None or not model.strip():
        raise ConfigError('model is blank: pass a name such as "qwen/qwen3-next-80b-a3b-instruct"')
    return model


def checked_config(
    config: Any, client: Client, model: str, provider: str = ""
) -> ToolCallingConfig:
    """Return the config, merged over the recommended one for the client's address and the model."""
    known_provider = client_provider(client) or provider
    if config is None:
        return mark_resolved(_cached_recommended_config(known_provider, model), is_resolved=False)
    parsed = config
    if not isinstance(parsed, ToolCallingConfig):
        parsed = ToolCallingConfig.from_mapping(parsed)
    # Not marked as resolved, so that another runner merges it over its own recommended config.
    return (
        parsed
        if parsed.is_resolved
        else overlay(_cached_recommended_config(known_provider, model), parsed)
    )


def endpoint_id(client: Client) -> str:
    """Return a hash of the client's address, which reveals nothing about it."""
    address = _base_url(client)
    return sha256(address.encode("utf-8", "replace")).hex()[:12] if address else ""


def client_provider(client: Client) -> str:
    """Return the provider of a client's endpoint; blank if its address is unknown."""
    return provider_for_url(_base_url(client))


def _base_url(client: Client) -> str:
    return str(getattr(client, "base_url", ""))


@lru_cache(maxsize=64)
def _cached_recommended_config(provider: str, model: str) -> ToolCallingConfig:
    # Cached for programs that create a runner per request, because resolving presets is slow.
    return resolve(provider=provider, model=model)


def _checked_options(options: Any, where: str) -> JSON:
    """Return request options; raise for keys that the runner owns and for non-JSON values."""
    check_options(options, where)
    checked: JSON = roundtrip_json(dict(options)) if options else {}
    return checked


def sampling_options(options: Any, temperature: Any, max_tokens: Any, defaults: Any = None) -> JSON:
    """Return the caller's request options, including keyword ones, merged over the defaults."""
    below = _checked_options(defaults or {}, "llm_options_defaults")
    sent = _checked_options(options or {}, "options")
    keywords = {"temperature": temperature, "max_tokens": max_tokens}
    named = {name: value for name, value in keywords.items() if value is not None}
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{name} must be a number, not {_type_name(value)}")
        if name == "max_tokens" and not (isinstance(value, int) and value > 0):
            raise ConfigError(f"max_tokens must be a positive whole number, not {value!r}")
        if name in sent:
            raise ConfigError(f"{name} is given twice: remove it from options")
    sent = sent | named
    if named:
        check_options(sent, "options")
    return deep_merge(below, sent)


def checked_tools(tools: Any, registry: Any) -> ToolRegistry:
    """Return the registry; `registry` is an alias of `tools`."""
    if tools is not None and registry is not None:
        raise ConfigError("tools and registry are aliases: pass only one of them")
    source = registry if tools is None else tools
    if isinstance(source, ToolRegistry):
        return source
    return ToolRegistry(() if source is None else source)


def check_contract(contract: Contract, registry: ToolRegistry) -> None:
    """Raise for a contract that no run can meet: unknown tools or circular dependencies."""
    for tool in [name for need in contract.needs for name in (need.tool, *_source_tools(need))]:
        if tool not in registry.names:
            raise ConfigError(f"contract: {unknown_name_message('tool', tool, registry.names)}")
    waits = {name: prerequisite_groups(registry.grounds(name)) for name in registry.names}
    for need in contract.needs:
        waits[need.tool] += [(source,) for source in _source_tools(need)]
    steps = [need.tool for need in contract.in_order if isinstance(need, Need)]
    for position, (before, tool) in enumerate(pairwise(steps), start=1):
        if tool not in steps[:position]:
            waits[tool].append((before,))
    check_reachable(waits, "contract")


def _source_tools(need: Need) -> list[str]:
    """Return the tools whose results a need takes values from."""
    return [source.tool for source in need.sources.values()]


def checked_system(system: Any) -> System | None:
    """Return the instructions, None for a blank string; raise for other types."""
    if not isinstance(system, str):
        raise ConfigError(f"system must be text, not {_type_name(system)}")
    return System(roundtrip_json(system)) if system.strip() else None


def checked_observer(observer: Any) -> Observer:
    """Return an observer of events; raise if it cannot be called."""
    if not callable(observer) or is_async_callable(observer):
        raise ConfigError("an observer must be a plain function of one event; it is not awaited")
    return cast("Observer", observer)


def checked_observers(observers: Any) -> tuple[Observer, ...]:
    """Return the observers as a tuple; raise if one cannot be called."""
    if not isinstance(observers, Iterable):
        raise ConfigError(f"observers must be a list such as [print], not {_type_name(observers)}")
    return tuple(map(checked_observer, observers))


def checked_hook(hook: Any) -> AcceptFinal | None:
    """Return the hook that accepts or rejects final answers; raise if it cannot be called."""
    if hook is not None and not callable(hook):
        raise ConfigError(
            "accept_final must be a function of one result that returns a reason or None"
        )
    return cast("AcceptFinal | None", hook)


def checked_policy(policy: Any) -> AnyToolPolicy | None:
    """Return the tool policy; raise if it is incomplete."""
    if policy is None:
        return None
    if isinstance(policy, type):
        raise ConfigError(f"tool_policy is the class {policy.__name__}: pass an object of it")
    for name, signature in _POLICY_METHODS.items():
        if not callable(getattr(policy, name, None)):
            raise ConfigError(f"tool_policy has no method {name}: write `{signature}`")
    if not _accepts_calls(policy):
        raise ConfigError(
            "tool_policy: authorize gets a call and the context, and the tool if it has a "
            "parameter `tool`: write `def authorize(self, call, context, tool)`"
        )
    if is_async_callable(policy.visible):
        raise ConfigError("tool_policy: visible is not awaited; make it a plain method")
    return cast("AnyToolPolicy", policy)


def _accepts_calls(policy: Any) -> bool:
    """Whether a policy's `authorize` accepts its arguments; true if it has no signature."""
    named = {"tool": None} if accepts_tool(policy) else {}
    try:
        inspect.signature(policy.authorize).bind(None, None, **named)
    except TypeError:
        return False
    except ValueError:  # a function without a signature
        pass
    return True


def checked_executor(executor: Any) -> Executor | None:
    """Return the executor of tools without handlers; raise if it cannot be called."""
    if executor is None:
        return None
    if not callable(executor):
        raise ConfigError(
            f"executor must be a function of a name and arguments, not {_type_name(executor)}"
        )
    executor_context_parameter(executor)
    return cast("Executor", executor)


def checked_context(context: Any) -> Context:
    """Return the run's context as a read-only mapping; raise for other types."""
    if context is not None and not isinstance(context, Mapping):
        raise ConfigError(
            f'context must be a mapping such as {{"user": 7}}, not {_type_name(context)}'
        )
    return Context(context)


def checked_history(history: Any) -> list[Message]:
    """Return earlier messages, or those of a result; raise for anything else."""
    if isinstance(history, RunResult):
        history = history.history
    if history is None:
        return []
    if isinstance(history, str | bytes | Mapping) or not isinstance(history, Iterable):
        raise ConfigError(
            "history must be a list of messages, such as result.messages, not "
            f"{_type_name(history)}"
        )
    return [parse_message(item) for item in history]


def checked_run(run: Any) -> Run:
    """Return the run to resume: itself, or the run of a result or error; raise for other types."""
    if isinstance(run, RunFailed):
        run = run.result
    if isinstance(run, RunResult):
        run = run.run
    if not isinstance(run, Run):
        raise ConfigError(
            f"resume takes a Run, not {_type_name(run)}: parse bytes with Run.from_json"
        )
    if not 0 <= run.start <= len(run.messages):
        raise ConfigError(
            f"cannot resume this run: its start is {run.start}, but it has {len(run.messages)} "
            "messages"
        )
    return run


def checked_user_text(user_text: Any) -> tuple[User, ...]:
    """Return the user text as messages: one, or none if it is blank."""
    if not isinstance(user_text, str | list):
        raise ConfigError(f"user_text must be text or a list of parts, not {_type_name(user_text)}")
    if isinstance(user_text, list):
        check_parts(user_text)
    words = user_text.strip() if isinstance(user_text, str) else user_text
    return (User(roundtrip_json(user_text)),) if words else ()


def _type_name(value: Any) -> str:
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
