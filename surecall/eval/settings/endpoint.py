"""Resolves the endpoint of an evaluation: its URL, presets, headers, and connection limits."""

from typing import Final

import msgspec

from surecall.eval.settings.fields import (
    LLAMA,
    OWN_PREFIX,
    ROUTER_PREFIX,
    ServingOptions,
    Settings,
    gguf_model_id,
)
from surecall.eval.settings.value_parsers import AUTO, LOCAL, SIMULATOR
from surecall.settings.capabilities import CUSTOM, canonical_provider, provider_for_url
from surecall.settings.connection import AUTO_API, Limits, url_origin
from surecall.values.errors import ConfigError
from surecall.values.family import canonical_name
from surecall.values.types import Secret

OPENROUTER_URL: Final = "https://openrouter.ai/api"
_OPENROUTER_ORIGINS: Final = frozenset(
    {"https://openrouter.ai:443", "https://eu.openrouter.ai:443"}
)
DEFAULT_JOBS: Final = 16
_UNLIMITED_S: Final = 86_400.0


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint. `is_explicit` means that the user set its URL.

    A `local` endpoint serves a GGUF file: it has a URL and a `build` only while it runs, and one
    `model`.
    """

    base_url: str
    api_prefix: str
    provider: str
    api_key: Secret | None = None
    is_simulated: bool = False
    is_explicit: bool = False
    model: str = ""
    build: str = ""
    api: str = AUTO_API

    @property
    def is_local(self) -> bool:
        """Whether it is a GGUF file served by this process."""
        return self.base_url == LOCAL


def endpoint_address(settings: Settings) -> str:
    """Return the URL, or the word for the simulator or a local server."""
    if settings.gguf or canonical_name(settings.endpoint) == LOCAL:
        return LOCAL
    return settings.base_url or (OPENROUTER_URL if settings.api_key else SIMULATOR)


def resolve_endpoint(settings: Settings) -> Endpoint:
    """Return the endpoint that the settings select.

    It is a GGUF file to serve, the URL that is set, OpenRouter if there is a key, or the simulator.
    """
    base_url = endpoint_address(settings)
    if base_url == LOCAL:
        return _local_endpoint(settings)
    if base_url == SIMULATOR:
        return Endpoint(
            SIMULATOR, settings.api_prefix, SIMULATOR, is_simulated=True, api=settings.api
        )
    provider = canonical_provider(settings.endpoint) or provider_for_url(base_url) or CUSTOM
    if is_openrouter(base_url) and settings.api_key is None:
        raise ConfigError(
            f"OpenRouter needs a key: set {ROUTER_PREFIX}API_KEY (or {OWN_PREFIX}API_KEY) "
            "in the environment or "
            f"in .env, or pass --base-url {SIMULATOR} to run against the simulator"
        )
    return Endpoint(
        base_url,
        settings.api_prefix,
        provider,
        settings.api_key,
        is_explicit=bool(settings.base_url),
        api=settings.api,
    )


def require_gguf(settings: Settings) -> str:
    """Return the GGUF file to serve; raise `ConfigError` if none is set."""
    if not settings.gguf:
        raise ConfigError(f"the endpoint {LOCAL} serves a file: pass it with --gguf")
    return settings.gguf


def _local_endpoint(settings: Settings) -> Endpoint:
    """Return the local server; raise `ConfigError` if the settings name another endpoint too."""
    if settings.base_url not in {"", LOCAL}:
        raise ConfigError(
            "--gguf and --base-url exclude each other: leave out one of them. For a server that "
            f"is already running, use --base-url with --endpoint {LLAMA}"
        )
    if settings.gguf and canonical_name(settings.endpoint) != LOCAL:
        raise ConfigError(
            f"--gguf is served by llama.cpp, so --endpoint must be {LOCAL} or {LLAMA}"
        )
    model = gguf_model_id(settings.gguf) if settings.gguf else ""
    return Endpoint(LOCAL, settings.api_prefix, LLAMA, model=model)


def is_openrouter(base_url: str) -> bool:
    """Whether a URL is OpenRouter's own, the only one that gets its key.

    The host alone is not enough: on another port, or without TLS, anyone may listen.
    """
    return url_origin(base_url) in _OPENROUTER_ORIGINS


def connection_limits(settings: Settings) -> Limits:
    """Return the connection limits. "No limit" means one day."""
    total = settings.client_timeout or _UNLIMITED_S
    return Limits(
        connect_s=settings.open_timeout or _UNLIMITED_S,
        idle_s=settings.read_timeout or total,
        total_s=total,
        max_connections=max(job_count(settings), Limits().max_connections),
    )


def serving_options(settings: Settings) -> ServingOptions:
    """Return how to serve a file for an evaluation: on loopback and a free port."""
    return ServingOptions(threads=settings.threads, context=settings.context)


def request_headers(settings: Settings, endpoint: Endpoint) -> dict[str, str]:
    """Return the extra headers; OpenRouter is asked to report which provider served a request."""
    headers = {"HTTP-Referer": settings.http_referer, "X-Title": settings.x_title}
    if endpoint.provider == "openrouter" and not endpoint.is_simulated:
        headers["X-OpenRouter-Metadata"] = "enabled"
    return {name: value for name, value in headers.items() if value}


def job_count(settings: Settings) -> int:
    """Return how many conversations may run at the same time; a local server has one slot."""
    if settings.jobs != AUTO:
        return int(settings.jobs)
    return 1 if settings.gguf else DEFAULT_JOBS
