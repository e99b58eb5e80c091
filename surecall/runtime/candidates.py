"""The models of a runner's fallback chain, in order; usually there is one.

A link's own config, options and capabilities take precedence over the runner's. A key belongs to a
client, so it is only sent to that client's address.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from surecall.runtime.runner_checks import (
    checked_client,
    checked_config,
    checked_model,
    client_provider,
    endpoint_id,
)
from surecall.runtime.transport import Client
from surecall.settings.capabilities import Capabilities, capabilities_for
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.connection import require_type
from surecall.settings.overlay import deep_merge
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.types import JSON
from surecall.wire.chat_format import roundtrip_json

if TYPE_CHECKING:
    from surecall.settings.fallback import Fallback
    from surecall.tools.output import TypedOutput

# One model or a fallback chain; one client, or several that serve the same model.
Models: TypeAlias = "str | Sequence[str | Fallback]"
Clients: TypeAlias = Client | str | Sequence[Client | str]


class ModelCandidate(msgspec.Struct, frozen=True):
    """A model with everything needed to send it requests.

    It is used after an earlier model failed with one of the codes in `on`. After a failure of its
    endpoint it rests for `rest_s` seconds, or for as long as the endpoint asks.
    """

    client: Client
    model: str
    config: ToolCallingConfig
    options: JSON
    endpoint: str
    capabilities: Capabilities | None = None
    on: frozenset[ErrorCode] = frozenset()
    rest_s: float = 0.0


class SharedSettings(msgspec.Struct, frozen=True):
    """The runner's settings for models that have none of their own."""

    config: ToolCallingConfig | Mapping[str, Any] | None
    options: Mapping[str, Any]
    capabilities: Capabilities | None


def model_candidates(
    client: Clients, model: Models, settings: SharedSettings
) -> tuple[ModelCandidate, ...]:
    """Return the models of a runner, in the order of the fallback chain."""
    if settings.capabilities is not None:
        require_type(settings.capabilities, Capabilities, "capabilities")
    if isinstance(model, str) and not isinstance(client, list | tuple):
        where = checked_client(client)
        name = checked_model(model)
        config = checked_config(settings.config, where, name)
        options = request_options(settings.options, config)
        return (
            ModelCandidate(where, name, config, options, endpoint_id(where), settings.capabilities),
        )
    return _build_candidates(_fallback_links(client, model), client, settings)


def _fallback_links(client: Any, model: Any) -> "list[Fallback]":
    """Return one `Fallback` per model, or per client."""
    from surecall.settings.fallback import Fallback  # noqa: PLC0415 - only fallback chains need it

    if isinstance(client, list | tuple):
        if not isinstance(model, str):
            raise ConfigError(
                "client and model cannot both be lists: pass one client and several models, or "
                "several clients and one model; a Fallback may have its own client"
            )
        links = [Fallback(checked_model(model), client=each) for each in client]
    elif isinstance(model, list | tuple):
        links = [each if isinstance(each, Fallback) else Fallback(each) for each in model]
    else:
        links = [Fallback(checked_model(model))]
    if not links:
        raise ConfigError("model and client must not be empty lists: name the model to ask")
    return links


def _build_candidates(
    links: "Sequence[Fallback]", client: Any, settings: SharedSettings
) -> tuple[ModelCandidate, ...]:
    usual = None if isinstance(client, list | tuple) else checked_client(client)
    clients = [usual if link.client is None else checked_client(link.client) for link in links]
    candidates: list[ModelCandidate] = []
    for link, where in zip(links, clients, strict=True):
        if where is None:
            raise ConfigError("client: an item of the list is None; pass a client or an address")
        # A client without an address is identified by its position.
        endpoint = endpoint_id(where) or f"client {_client_number(clients, where)}"
        _check_provider(link, where)
        config = _link_config(link, where, settings)
        options = request_options(deep_merge(settings.options, link.options), config)
        able = link.capabilities or settings.capabilities
        if candidates and able is not None and not able.tools:
            config = _without_tools(link, config, candidates[0].config)
        candidates.append(
            ModelCandidate(
                where, link.model, config, options, endpoint, able, link.reasons, link.rest_s
            )
        )
    return tuple(candidates)


def _client_number(clients: Sequence[Client | None], client: Client) -> int:
    """Return the position of a client in the list, counted from one, for messages."""
    return next(place for place, each in enumerate(clients, start=1) if each is client)


def _link_config(link: "Fallback", client: Client, settings: SharedSettings) -> ToolCallingConfig:
    """Return the config of a fallback: its own or the runner's, over the recommended one."""
    own = settings.config if link.config is None else link.config
    return checked_config(own, client, link.model, link.provider)


def _without_tools(
    link: "Fallback", config: ToolCallingConfig, first: ToolCallingConfig
) -> ToolCallingConfig:
    """Disable tools for a model that does not support them; an error in mode `enforced`."""
    if first.tool_use_mode is ToolUseMode.ENFORCED:
        raise ConfigError(
            f"{link!r} does not support tools, but tool_use_mode is enforced: leave it out, or use "
            "another mode"
        )
    return config.replace(tool_use_mode=ToolUseMode.DISABLED)


def _check_provider(link: "Fallback", client: Client) -> None:
    """Raise if a link names another provider than the one its requests would go to."""
    there = client_provider(client)
    if link.provider and there and there != link.provider:
        raise ConfigError(
            f"{link!r}: its requests would go to {there}, not to {link.provider}; pass its own "
            'client, as in client=OpenAICompatible("https://…", api_key)'
        )


def request_options(defaults: Mapping[str, Any], config: ToolCallingConfig) -> JSON:
    """Return the options of every request, with `default_max_tokens` if they set no limit."""
    options = deep_merge(defaults, config.request_overrides)
    is_limited = not {"max_tokens", "max_completion_tokens"}.isdisjoint(options)
    if config.endpoint.default_max_tokens is not None and not is_limited:
        options = options | {"max_tokens": config.endpoint.default_max_tokens}
    checked: JSON = roundtrip_json(options)
    return checked


def build_output(output: Any, candidates: Sequence[ModelCandidate]) -> "TypedOutput | None":
    """Return the type of the final answer; it binds if every endpoint enforces its schema."""
    if output is None:
        return None
    from surecall.tools.output import typed_output  # noqa: PLC0415 - slow to import, rarely used

    return typed_output(output, binds=all(map(_enforces_schema, candidates)))


def _enforces_schema(candidate: ModelCandidate) -> bool:
    """Whether the endpoint enforces the schema of an answer."""
    provider = client_provider(candidate.client)
    can = candidate.capabilities or capabilities_for(provider, candidate.model)
    return can.json_schema or candidate.config.call_protocol == "guided"
