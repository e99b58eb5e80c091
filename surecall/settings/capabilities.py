"""Endpoint capabilities: provider names, supported features, and the context window.

The provider table lists differences from a conservative default, so an unknown provider gets only
requests that nearly every endpoint supports. Callers can override any capability.
"""

from typing import Final
from urllib.parse import urlsplit

import msgspec

from surecall.settings.providers import provider_table
from surecall.values.errors import ConfigError
from surecall.values.family import suggestion_text
from surecall.values.text import estimate_tokens as estimate_tokens  # noqa: PLC0414  # re-exported
from surecall.values.types import JSON

# An endpoint of no listed provider; it gets the conservative defaults.
CUSTOM: Final = "custom"

_SEPARATORS: Final = str.maketrans("-._", "   ")
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})


class Capabilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The features that an endpoint supports. The defaults are those of an unknown provider."""

    tools: bool = True
    json_object: bool = True
    json_schema: bool = False
    streaming: bool = True
    parallel_tool_calls: bool = True
    one_call_on_request: bool = False
    context_window_tokens: int | None = None
    reserved_response_tokens: int = 0

    def __post_init__(self) -> None:
        window, reserve = self.context_window_tokens, self.reserved_response_tokens
        if reserve < 0:
            raise ConfigError(f"reserved_response_tokens is {reserve}, but cannot be negative")
        if window is None:
            return
        if window < 1:
            raise ConfigError(f"context_window_tokens is {window}, but must be at least 1")
        if reserve > window:
            raise ConfigError(
                f"reserved_response_tokens ({reserve}) exceeds context_window_tokens ({window})"
            )


def canonical_provider(name: str) -> str:
    """Return the canonical spelling of a provider's name; an unknown name is normalized."""
    folded = "_".join(name.casefold().translate(_SEPARATORS).split())
    # Keys have no underscores, so each covers every way to join the words.
    return provider_table().by_alias.get(folded.replace("_", ""), folded)


def require_provider(name: str) -> str:
    """Return the canonical spelling of a provider's name, or `custom`; others are errors."""
    known = canonical_provider(name)
    providers = provider_table()
    if known == CUSTOM or known in providers.by_name:
        return known
    names = (*providers.by_name, CUSTOM)
    near = suggestion_text(
        name, (*names, *(each for row in providers.rows for each in row.aliases)), names
    )
    raise ConfigError(f'unknown endpoint "{name}"; {near}')


def provider_for_url(url: str) -> str:
    """Return the provider that a URL belongs to; blank if it is unknown."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if host in _THIS_MACHINE:
        return provider_table().by_local_port.get(port or 0, "")
    labels = host.split(".")
    domains = [".".join(labels[at:]) for at in range(len(labels))]
    domains += [f"{labels[0]}.*.{name}" for name in domains[2:]]
    known = provider_table().by_domain
    return next((known[name] for name in domains if name in known), "")


def capabilities_for(provider: str, model: str = "", **overrides: object) -> Capabilities:
    """Return the capabilities of a provider for a model; `overrides` replace table values."""
    known = canonical_provider(provider)
    row = provider_table().by_name.get(known)
    facts = {} if row is None else dict(row.takes)
    if known == "openrouter":
        facts |= _openrouter_capabilities(model)
    try:
        return msgspec.convert(facts | overrides, Capabilities)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"capabilities of {provider}: {problem}") from problem


def budget_problem(tokens: int, capabilities: Capabilities) -> str | None:
    """Return an error message if a prompt does not fit; None if it does or that is unknown."""
    window, reserve = capabilities.context_window_tokens, capabilities.reserved_response_tokens
    if window is None or tokens <= window - reserve:
        return None
    return (
        f"The prompt takes about {tokens} tokens, but only {window - reserve} fit: the context "
        f"window has {window} tokens, of which {reserve} are reserved for the answer."
    )


def _openrouter_capabilities(model: str) -> JSON:
    """Return the capabilities that differ for a model on OpenRouter."""
    name = f"{model.casefold()}:"
    facts: JSON = {}
    for each in provider_table().models:
        if name.startswith(each.prefix):
            facts |= each.takes
    return facts
