"""What an endpoint can do: providers by any of their spellings, and what fits the window.

Knowledge is a table of differences from a careful default, so an unknown provider is never
asked for more than nearly every endpoint understands. Callers override what they know better.
"""

from typing import Final
from urllib.parse import urlsplit

import msgspec

from surecall.values.errors import ConfigError
from surecall.values.types import JSON

PROVIDERS: Final = (
    "openrouter",
    "openai",
    "deepseek",
    "gemini",
    "mistral",
    "groq",
    "together",
    "fireworks",
    "vllm",
    "llama_cpp",
    "ollama",
    "lm_studio",
    "volcengine",
    "bedrock",
)

_BYTES_PER_TOKEN = 4

# Keys are folded and without underscores, so one row covers every way to join the words.
_ALIASES: Final = {name.replace("_", ""): name for name in PROVIDERS} | {
    "amazonbedrock": "bedrock",
    "ark": "volcengine",
    "awsbedrock": "bedrock",
    "fireworksai": "fireworks",
    "google": "gemini",
    "googleaistudio": "gemini",
    "mistralai": "mistral",
    "togetherai": "together",
    "volcano": "volcengine",
    "volcanoengine": "volcengine",
}

_SEPARATORS: Final = str.maketrans("-._", "   ")

# A provider is known by its domain; a local server by the port that it listens on by default. Ports
# that many servers share (8000, 8080) say nothing.
_BY_DOMAIN: Final = {
    "openrouter.ai": "openrouter",
    "openai.com": "openai",
    "deepseek.com": "deepseek",
    "googleapis.com": "gemini",
    "mistral.ai": "mistral",
    "groq.com": "groq",
    "together.xyz": "together",
    "together.ai": "together",
    "fireworks.ai": "fireworks",
    "cerebras.ai": "cerebras",
    "volces.com": "volcengine",
}
_BY_LOCAL_PORT: Final = {11434: "ollama", 1234: "lm_studio"}
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


_NO_RESPONSE_FORMAT: Final[JSON] = {"json_object": False, "json_schema": False}

# `parallel_tool_calls` is false where the endpoint is known to refuse the request field of that
# name; `one_call_on_request` is true where it is known to send one call if the field says so. Groq
# (by model), DeepSeek and Together (another shape) do not take the usual `json_schema`; LM Studio
# takes nothing else.
_BY_PROVIDER: Final[dict[str, JSON]] = {
    "openrouter": {"json_schema": True, "one_call_on_request": True},
    "openai": {"json_schema": True, "one_call_on_request": True},
    "gemini": {"json_schema": True, "parallel_tool_calls": False},
    "mistral": {"json_schema": True, "one_call_on_request": True},
    "groq": {"one_call_on_request": True},
    "fireworks": {"json_schema": True},
    "vllm": {"json_schema": True, "one_call_on_request": True},
    "llama_cpp": {"json_schema": True, "one_call_on_request": True},
    "ollama": {"json_schema": True},
    "lm_studio": {"json_schema": True, "json_object": False},
    "volcengine": {"one_call_on_request": True},
    "cerebras": {"parallel_tool_calls": False},
}

# Prefixes of the model id with a colon appended, so that a whole name can be spelt as `name:`.
_BY_OPENROUTER_MODEL: Final[dict[str, JSON]] = {
    "anthropic/": {"json_schema": False},
    "openai/": _NO_RESPONSE_FORMAT,
    "minimax/": _NO_RESPONSE_FORMAT,
    "minimax/minimax-m2-her:": {"tools": False},
}


def canonical_provider(name: str) -> str:
    """Return the one spelling of a provider's name; an unknown name comes back folded."""
    folded = "_".join(name.casefold().translate(_SEPARATORS).split())
    return _ALIASES.get(folded.replace("_", ""), folded)


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
    domains = (".".join(labels[at:]) for at in range(len(labels)))
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
    for prefix, difference in _BY_OPENROUTER_MODEL.items():
        if name.startswith(prefix):
            facts |= difference
    return facts
