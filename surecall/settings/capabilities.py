"""What an endpoint can do: providers by any of their spellings, and what fits the window.

Knowledge is a table of differences from a careful default, so an unknown provider is never
asked for more than nearly every endpoint understands. Callers override what they know better.
"""

from typing import Final
from urllib.parse import urlsplit

import msgspec

from surecall.settings.providers import BY_OPENROUTER_MODEL, ROWS
from surecall.values.errors import ConfigError
from surecall.values.family import suggest
from surecall.values.types import JSON

PROVIDERS: Final = tuple(row.name for row in ROWS)
# An endpoint of no provider in the table: it gets the careful defaults.
CUSTOM: Final = "custom"

_BYTES_PER_TOKEN = 4

# Keys are folded and without underscores, so one row covers every way to join the words.
_ALIASES: Final = {name.replace("_", ""): name for name in PROVIDERS} | {
    alias: row.name for row in ROWS for alias in row.aliases
}
_SEPARATORS: Final = str.maketrans("-._", "   ")
_BY_DOMAIN: Final = {domain: row.name for row in ROWS for domain in row.domains}
_BY_LOCAL_PORT: Final = {row.local_port: row.name for row in ROWS if row.local_port}
_BY_PROVIDER: Final = {row.name: row.takes for row in ROWS}
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})


class Capabilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be sent to an endpoint. The defaults are those of an unknown provider."""

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
    """Return the one spelling of a provider's name; an unknown name comes back folded."""
    folded = "_".join(name.casefold().translate(_SEPARATORS).split())
    return _ALIASES.get(folded.replace("_", ""), folded)


def require_provider(name: str) -> str:
    """Return the one spelling of a provider's name, or `custom`; any other name is an error."""
    known = canonical_provider(name)
    if known == CUSTOM or known in PROVIDERS:
        return known
    names = (*PROVIDERS, CUSTOM)
    near = suggest(name, (*names, *(alias for row in ROWS for alias in row.aliases)), names)
    raise ConfigError(f'unknown endpoint "{name}"; {near}')


def provider_of(url: str) -> str:
    """Return the provider that an address belongs to; blank if the address does not tell."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if host in _THIS_MACHINE:
        return _BY_LOCAL_PORT.get(port or 0, "")
    labels = host.split(".")
    domains = [".".join(labels[at:]) for at in range(len(labels))]
    domains += [f"{labels[0]}.*.{name}" for name in domains[2:]]
    return next((_BY_DOMAIN[name] for name in domains if name in _BY_DOMAIN), "")


def capabilities_for(provider: str, model: str = "", **overrides: object) -> Capabilities:
    """Return what a provider can do with a model; overrides replace what the table says."""
    known = canonical_provider(provider)
    facts = dict(_BY_PROVIDER.get(known, {}))
    if known == "openrouter":
        facts |= _openrouter_facts(model)
    try:
        return msgspec.convert(facts | overrides, Capabilities)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"capabilities of {provider}: {problem}") from problem


def estimate_tokens(text: str) -> int:
    """Guess how many tokens a text takes: a quarter of its bytes, rounded up."""
    # Model output may hold lone surrogates, which plain UTF-8 refuses to encode.
    size = len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)


def check_budget(tokens: int, capabilities: Capabilities) -> str | None:
    """Return a sentence when a prompt does not fit, `None` when it does or that is unknown."""
    window, reserve = capabilities.context_window_tokens, capabilities.reserved_response_tokens
    if window is None or tokens <= window - reserve:
        return None
    return (
        f"The prompt takes about {tokens} tokens, but only {window - reserve} fit: "
        f"the window holds {window}, and {reserve} are reserved for the answer."
    )


def _openrouter_facts(model: str) -> JSON:
    name = f"{model.casefold()}:"
    facts: JSON = {}
    for prefix, difference in BY_OPENROUTER_MODEL.items():
        if name.startswith(prefix):
            facts |= difference
    return facts
