"""Where an evaluation is sent: which endpoint, with whose presets, under which limits."""

from typing import Final

import msgspec

from surecall.eval.settings.fields import LLAMA, OWN, ROUTER, Settings
from surecall.eval.settings.parse import AUTO, LOCAL, SIMULATOR
from surecall.runtime.gguf import Serving, model_id
from surecall.settings.capabilities import CUSTOM, canonical_provider, provider_of
from surecall.settings.connection import Limits, origin_of
from surecall.values.errors import ConfigError
from surecall.values.family import canonical
from surecall.values.types import Secret

OPENROUTER_URL: Final = "https://openrouter.ai/api"
_HOMES: Final = frozenset({"https://openrouter.ai:443", "https://eu.openrouter.ai:443"})
JOBS: Final = 16
_UNLIMITED_S: Final = 86_400.0


class Endpoint(msgspec.Struct, frozen=True):
    """One endpoint. `explicit` says that its address was given, not taken for granted.

    One that is served here, from a file, is called `local`: it has an address only while it runs,
    one `model`, and a `build` that is known when it runs.
    """

    base_url: str
    api_prefix: str
    provider: str
    api_key: Secret | None = None
    simulated: bool = False
    explicit: bool = False
    model: str = ""
    build: str = ""

    @property
    def local(self) -> bool:
        """Whether it is served here, from a file."""
        return self.base_url == LOCAL


def address_of(settings: Settings) -> str:
    """Return the address; the simulator and a local server have a word in place of one."""
    if settings.gguf or canonical(settings.endpoint) == LOCAL:
        return LOCAL
    return settings.base_url or (OPENROUTER_URL if settings.api_key else SIMULATOR)


def endpoint_of(settings: Settings) -> Endpoint:
    """Return the endpoint: the given address; else OpenRouter if there is a key for it.

    A file is served here. Without any of them it is the simulator.
    """
    base_url = address_of(settings)
    if base_url == LOCAL:
        return _served_here(settings)
    if base_url == SIMULATOR:
        return Endpoint(SIMULATOR, settings.api_prefix, SIMULATOR, simulated=True)
    provider = canonical_provider(settings.endpoint) or provider_of(base_url) or CUSTOM
    if is_openrouter(base_url) and settings.api_key is None:
        raise ConfigError(
            f"OpenRouter needs a key: set {ROUTER}API_KEY (or {OWN}API_KEY) in the environment or "
            f"in .env, or pass --base-url {SIMULATOR} to run against the simulator"
        )
    return Endpoint(
        base_url, settings.api_prefix, provider, settings.api_key, explicit=bool(settings.base_url)
    )


def gguf_of(settings: Settings) -> str:
    """Return the file to serve."""
    if not settings.gguf:
        raise ConfigError(f"{LOCAL} means a model that is served here: name its file with --gguf")
    return settings.gguf


def _served_here(settings: Settings) -> Endpoint:
    """Describe the local server; refuse settings that name another address as well."""
    if settings.base_url not in {"", LOCAL}:
        raise ConfigError(
            "a model that is served here (--gguf) has no --base-url: leave out one of them; for a "
            f"server that runs already, --endpoint {LLAMA} names its presets"
        )
    if settings.gguf and canonical(settings.endpoint) != LOCAL:
        raise ConfigError(
            f"--gguf is served by llama.cpp, so --endpoint can only be {LOCAL} or {LLAMA}"
        )
    model = model_id(settings.gguf) if settings.gguf else ""
    return Endpoint(LOCAL, settings.api_prefix, LLAMA, model=model)


def is_openrouter(base_url: str) -> bool:
    """Whether an address is OpenRouter's own, to which alone its key may go.

    Its name does not decide that: on another port, or without encryption, anyone may listen.
    """
    return origin_of(base_url) in _HOMES


def limits_of(settings: Settings) -> Limits:
    """Return the limits of a connection. No limit means a day."""
    total = settings.client_timeout or _UNLIMITED_S
    return Limits(
        connect_s=settings.open_timeout or _UNLIMITED_S,
        idle_s=settings.read_timeout or total,
        total_s=total,
        max_connections=max(jobs_of(settings), Limits().max_connections),
    )


def serving_of(settings: Settings) -> Serving:
    """Return how a file is served for an evaluation: on any free port, for this machine alone."""
    return Serving(threads=settings.threads, context=settings.context)


def headers_of(settings: Settings, endpoint: Endpoint) -> dict[str, str]:
    """Return the headers beside the usual ones; OpenRouter is asked who served a request."""
    headers = {"HTTP-Referer": settings.http_referer, "X-Title": settings.x_title}
    if endpoint.provider == "openrouter" and not endpoint.simulated:
        headers["X-OpenRouter-Metadata"] = "enabled"
    return {name: value for name, value in headers.items() if value}


def jobs_of(settings: Settings) -> int:
    """Return how many conversations may run at the same time: a local server has one slot."""
    if settings.jobs != AUTO:
        return int(settings.jobs)
    return 1 if settings.gguf else JOBS
