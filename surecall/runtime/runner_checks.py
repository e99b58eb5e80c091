"""What a runner is given, checked before anything is sent.

A mistake is a `ConfigError` that says what to write instead.
"""

import inspect
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

from surecall.core.outcome import RunFailed, RunResult
from surecall.core.state import Run
from surecall.runtime.hooks import (
    AcceptFinal,
    AnyToolPolicy,
    Executor,
    Observer,
    executor_context,
    wants_tool,
)
from surecall.runtime.transport import Client, OpenAICompatible
from surecall.runtime.user_parts import check_parts
from surecall.settings.capabilities import provider_of
from surecall.settings.config import ToolCallingConfig, check_options, mark_resolved
from surecall.settings.contract import Contract, Need
from surecall.settings.overlay import deep_merge, overlay
from surecall.settings.presets import resolve
from surecall.tools.context import Context
from surecall.tools.grounded import check_reach, waits_of
from surecall.tools.registry import ToolRegistry
from surecall.tools.signatures import is_async_callable
from surecall.values.digests import sha256
from surecall.values.errors import ConfigError
from surecall.values.family import unknown
from surecall.values.types import JSON, Message, System, User
from surecall.wire.messages import encodable, parse_message

_POLICY_METHODS = {
    "visible": "def visible(self, tool, context) -> bool",
    "authorize": "def authorize(self, call, context) -> Decision",
}


def checked_client(client: Any) -> Client:
    """Return the client; a text is the address of an endpoint that needs no key."""
    if isinstance(client, str):
        return OpenAICompatible(client)
    methods = (getattr(client, name, None) for name in ("send", "opened"))
    if isinstance(client, type) or not all(map(callable, methods)):
        hint = "; pass its url" if hasattr(client, "url") else ""
        raise ConfigError(
            'client must be an OpenAICompatible("https://…", api_key) or an address such as '
            f'"http://127.0.0.1:8000", not {_kind(client)}{hint}'
        )
    return cast("Client", client)


def checked_model(model: Any) -> str:
    """Return the model's name."""
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"model must be a name, or a list of names, not {_kind(model)}")
    if model is None or not model.strip():
        raise ConfigError("model is blank: name the model to ask")
    return model


def checked_config(
    config: Any, client: Client, model: str, provider: str = ""
) -> ToolCallingConfig:
    """Return the config, laid over what is recommended for the client's address and the model."""
    known = provider_at(client) or provider
    if config is None:
        return mark_resolved(_recommended(known, model), is_resolved=False)
    given = config
    if not isinstance(given, ToolCallingConfig):
        given = ToolCallingConfig.from_mapping(given)
    # Not marked as resolved: in a runner for another endpoint, the config is laid over that one's.
    return given if given.is_resolved else overlay(_recommended(known, model), given)


def endpoint_of(client: Client) -> str:
    """Return what stands for a client's address: it can be compared, and tells nobody anything."""
    address = _address(client)
    return sha256(address.encode("utf-8", "replace")).hex()[:12] if address else ""


def provider_at(client: Client) -> str:
    """Return whose endpoint a client speaks to; blank if its address does not tell."""
    return provider_of(_address(client))


def _address(client: Client) -> str:
    return str(getattr(client, "base_url", ""))


@lru_cache(maxsize=64)
def _recommended(provider: str, model: str) -> ToolCallingConfig:
    # Cached for programs that make a runner for every request: presets are built in many steps.
    return resolve(provider=provider, model=model)


def _options(options: Any, where: str) -> JSON:
    """Return request options; keys that the runner owns, and what is not JSON, are errors."""
    check_options(options, where)
    checked: JSON = encodable(dict(options))
    return checked


def sampling_options(options: Any, temperature: Any, max_tokens: Any, defaults: Any = None) -> JSON:
    """Return the request options of a caller, with those that have a keyword, over defaults."""
    below = _options(defaults or {}, "llm_options_defaults")
    sent = _options(options or {}, "options")
    named = {"temperature": temperature, "max_tokens": max_tokens}
    for name, value in named.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{name} must be a number, not {_kind(value)}")
        if name == "max_tokens" and not (isinstance(value, int) and value > 0):
            raise ConfigError(f"max_tokens must be a positive whole number, not {value!r}")
        if name in sent:
            raise ConfigError(f"{name} is given twice: leave it out of options")
        sent = sent | {name: value}
    check_options(sent, "options")
    return deep_merge(below, sent)


def checked_tools(tools: Any, registry: Any) -> ToolRegistry:
    """Return the registry; `tools` and `registry` are two names for the same thing."""
    if tools is not None and registry is not None:
        raise ConfigError("tools and registry are two names for one thing: give only one of them")
    given = registry if tools is None else tools
    if isinstance(given, ToolRegistry):
        return given
    return ToolRegistry(() if given is None else given)


def check_contract(contract: Contract, registry: ToolRegistry) -> None:
    """Refuse a contract that no run could meet: unknown tools, tools that wait for each other."""
    for tool in [name for need in contract.needs for name in (need.tool, *_sources(need))]:
        if tool not in registry.names:
            raise ConfigError(f"contract: {unknown('tool', tool, registry.names)}")
    waits = {name: waits_of(registry.grounds(name)) for name in registry.names}
    for need in contract.needs:
        waits[need.tool] += [(source,) for source in _sources(need)]
    steps = [need.tool for need in contract.in_order if isinstance(need, Need)]
    for position, (before, tool) in enumerate(pairwise(steps), start=1):
        if tool not in steps[:position]:
            waits[tool].append((before,))
    check_reach(waits, "contract")


def _sources(need: Need) -> list[str]:
    return [source.tool for source in need.sources.values()]


def checked_system(system: Any) -> System | None:
    """Return the instructions; a blank text means none."""
    if not isinstance(system, str):
        raise ConfigError(f"system must be text, not {_kind(system)}")
    return System(encodable(system)) if system.strip() else None


def checked_observer(observer: Any) -> Observer:
    """Return an observer of events."""
    if not callable(observer) or is_async_callable(observer):
        raise ConfigError("an observer is a plain function of one event; it is not awaited")
    return cast("Observer", observer)


def checked_observers(observers: Any) -> tuple[Observer, ...]:
    """Return a list of observers."""
    if not isinstance(observers, Iterable):
        raise ConfigError(f"observers must be a list such as [print], not {_kind(observers)}")
    return tuple(map(checked_observer, observers))


def checked_hook(hook: Any) -> AcceptFinal | None:
    """Return the hook that accepts or refuses final answers."""
    if hook is not None and not callable(hook):
        raise ConfigError("accept_final is a function of one result; it returns a reason or None")
    return cast("AcceptFinal | None", hook)


def checked_policy(policy: Any) -> AnyToolPolicy | None:
    """Return the tool policy. Half a policy would hide every tool, or fail at the first call."""
    if policy is None:
        return None
    if isinstance(policy, type):
        raise ConfigError(f"tool_policy is the class {policy.__name__}: pass an object of it")
    for name, signature in _POLICY_METHODS.items():
        if not callable(getattr(policy, name, None)):
            raise ConfigError(f"tool_policy has no method {name}: write `{signature}`")
    if not _takes_calls(policy):
        raise ConfigError(
            "tool_policy: authorize is given a call and the context, and the tool if it has a "
            "parameter of that name: write `def authorize(self, call, context, tool)`"
        )
    if is_async_callable(policy.visible):
        raise ConfigError("tool_policy: visible is not awaited; make it a plain method")
    return cast("AnyToolPolicy", policy)


def _takes_calls(policy: Any) -> bool:
    """Whether a policy can be asked about calls; what cannot be told is believed."""
    named = {"tool": None} if wants_tool(policy) else {}
    try:
        inspect.signature(policy.authorize).bind(None, None, **named)
    except TypeError:
        return False
    except ValueError:  # a function without a signature
        pass
    return True


def checked_executor(executor: Any) -> Executor | None:
    """Return what runs tools that have no handler."""
    if executor is None:
        return None
    if not callable(executor):
        raise ConfigError(f"executor is a function of a name and arguments, not {_kind(executor)}")
    executor_context(executor)
    return cast("Executor", executor)


def checked_context(context: Any) -> Context:
    """Return the run's context as a read-only mapping."""
    if context is not None and not isinstance(context, Mapping):
        raise ConfigError(f'context must be a mapping such as {{"user": 7}}, not {_kind(context)}')
    return Context(context)


def checked_history(history: Any) -> list[Message]:
    """Return the earlier messages; a result stands for its own."""
    if isinstance(history, RunResult):
        history = history.history
    if history is None:
        return []
    if isinstance(history, str | bytes | Mapping) or not isinstance(history, Iterable):
        raise ConfigError(
            f"history must be a list of messages, such as result.messages, not {_kind(history)}"
        )
    return [parse_message(item) for item in history]


def checked_run(run: Any) -> Run:
    """Return the run to resume; a result, or the error that carries one, stands for its run."""
    if isinstance(run, RunFailed):
        run = run.result
    if isinstance(run, RunResult):
        run = run.run
    if not isinstance(run, Run):
        raise ConfigError(f"resume takes a Run, not {_kind(run)}: read bytes with Run.from_json")
    if not 0 <= run.start <= len(run.messages):
        raise ConfigError(f"this run cannot resume: it claims to start at message {run.start}")
    return run


def checked_words(user_text: Any) -> tuple[User, ...]:
    """Return what the user says as messages: one, or none if it is blank."""
    if not isinstance(user_text, str | list):
        raise ConfigError(f"the user's words must be text, not {_kind(user_text)}")
    if isinstance(user_text, list):
        check_parts(user_text)
    words = user_text.strip() if isinstance(user_text, str) else user_text
    return (User(encodable(user_text)),) if words else ()


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
