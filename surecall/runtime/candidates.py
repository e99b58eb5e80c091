"""The models that a runner may ask, in order, each with all that it takes to ask it. Mostly one.

Who was given a config, options or capabilities of its own has those; what the runner was given
holds for all others. A key belongs to a client, so it goes to no other address than its own.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from surecall.runtime.runner_checks import (
    checked_client,
    checked_config,
    checked_model,
    endpoint_of,
    provider_at,
)
from surecall.runtime.transport import Client
from surecall.settings.capabilities import Capabilities, capabilities_for
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.connection import checked_kind
from surecall.settings.overlay import deep_merge
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.types import JSON
from surecall.wire.messages import encodable

if TYPE_CHECKING:
    from surecall.settings.fallback import Fallback
    from surecall.tools.output import TypedOutput

# One model, or a chain of them; one client, or several that serve the same model.
Models: TypeAlias = "str | Sequence[str | Fallback]"
Clients: TypeAlias = Client | str | Sequence[Client | str]


class Candidate(msgspec.Struct, frozen=True):
    """A model that may be asked. `on` are the codes with which one before it must have failed.

    After a failure of its endpoint it rests for `rest_s` seconds, unless that asks for other.
    """

    client: Client
    model: str
    config: ToolCallingConfig
    options: JSON
    endpoint: str
    capabilities: Capabilities | None = None
    on: frozenset[ErrorCode] = frozenset()
    rest_s: float = 0.0


class Given(msgspec.Struct, frozen=True):
    """What a runner was given, for all models that have nothing of their own."""

    config: ToolCallingConfig | Mapping[str, Any] | None
    options: Mapping[str, Any]
    capabilities: Capabilities | None


def candidates_of(client: Clients, model: Models, given: Given) -> tuple[Candidate, ...]:
    """Return the models to ask, the first one first."""
    if given.capabilities is not None:
        checked_kind(given.capabilities, Capabilities, "capabilities")
    if isinstance(model, str) and not isinstance(client, list | tuple):
        where = checked_client(client)
        name = checked_model(model)
        config = checked_config(given.config, where, name)
        options = options_of(given.options, config)
        return (Candidate(where, name, config, options, endpoint_of(where), given.capabilities),)
    return _chain(_listed(client, model), client, given)


def _listed(client: Any, model: Any) -> "list[Fallback]":
    """Return the links of a chain as they were written: several models, or several clients."""
    from surecall.settings.fallback import Fallback  # noqa: PLC0415 - chains alone need it

    if isinstance(client, list | tuple):
        if not isinstance(model, str):
            raise ConfigError(
                "client and model are both lists: give one client and several models, or several "
                "clients and one model; a Fallback may have a client of its own"
            )
        links = [Fallback(checked_model(model), client=each) for each in client]
    elif isinstance(model, list | tuple):
        links = [each if isinstance(each, Fallback) else Fallback(each) for each in model]
    else:
        links = [Fallback(checked_model(model))]
    if not links:
        raise ConfigError("model and client must not be empty lists: name the model to ask")
    return links


def _chain(links: "Sequence[Fallback]", client: Any, given: Given) -> tuple[Candidate, ...]:
    usual = None if isinstance(client, list | tuple) else checked_client(client)
    clients = [usual if link.client is None else checked_client(link.client) for link in links]
    found: list[Candidate] = []
    for link, where in zip(links, clients, strict=True):
        if where is None:
            raise ConfigError("client: an item of the list is None")
        # What has no address of its own is known by its place.
        endpoint = endpoint_of(where) or f"client {_place(clients, where)}"
        _check_provider(link, where)
        config = _config(link, where, given)
        options = options_of(deep_merge(given.options, link.options), config)
        able = link.capabilities or given.capabilities
        if found and able is not None and not able.tools:
            config = _without_tools(link, config, found[0].config)
        found.append(
            Candidate(where, link.model, config, options, endpoint, able, link.reasons, link.rest_s)
        )
    return tuple(found)


def _place(clients: Sequence[Client | None], client: Client) -> int:
    return next(place for place, each in enumerate(clients, start=1) if each is client)


def _config(link: "Fallback", client: Client, given: Given) -> ToolCallingConfig:
    own = given.config if link.config is None else link.config
    return checked_config(own, client, link.model, link.provider)


def _without_tools(
    link: "Fallback", config: ToolCallingConfig, first: ToolCallingConfig
) -> ToolCallingConfig:
    """Let a model that has no tools go on without them, where none is demanded."""
    if first.tool_use_mode is ToolUseMode.ENFORCED:
        raise ConfigError(f"{link!r}: it has no tools, and in mode enforced one must be called")
    return config.replace(tool_use_mode=ToolUseMode.DISABLED)


def _check_provider(link: "Fallback", client: Client) -> None:
    """Refuse a provider whose address is not the one that the model would be asked at."""
    there = provider_at(client)
    if link.provider and there and there != link.provider:
        raise ConfigError(
            f"{link!r}: its requests would go to {there}, not to {link.provider}; give it a client "
            'of its own, as in client=OpenAICompatible("https://…", api_key)'
        )


def options_of(defaults: Mapping[str, Any], config: ToolCallingConfig) -> JSON:
    """Return the options of every request; unless they limit the length of replies, it is set."""
    options = deep_merge(defaults, config.request_overrides)
    is_limited = not {"max_tokens", "max_completion_tokens"}.isdisjoint(options)
    if config.endpoint.default_max_tokens is not None and not is_limited:
        options = options | {"max_tokens": config.endpoint.default_max_tokens}
    checked: JSON = encodable(options)
    return checked


def output_of(output: Any, candidates: Sequence[Candidate]) -> "TypedOutput | None":
    """Return the type of the final answer, and whether all endpoints bind a reply to it."""
    if output is None:
        return None
    from surecall.tools.output import typed_output  # noqa: PLC0415 - for those who use it

    return typed_output(output, binds=all(map(_binds, candidates)))


def _binds(candidate: Candidate) -> bool:
    provider = provider_at(candidate.client)
    can = candidate.capabilities or capabilities_for(provider, candidate.model)
    return can.json_schema or candidate.config.call_protocol == "guided"
