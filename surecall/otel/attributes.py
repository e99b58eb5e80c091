"""What spans say, in the names and types of the GenAI conventions of OpenTelemetry.

Values come from models, providers and applications. What is not of the type that the conventions
want is left out: an exporter that meets half a character, or an integer of 65 bits, loses every
span that it was about to send. Nothing here tells what was said in a conversation.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from surecall.settings.capabilities import provider_of
from surecall.values.events import LlmRequestEndEvent, ToolCallEndEvent
from surecall.values.types import JSON
from surecall.wire.messages import scrub

Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

MAX_TEXT = 256
MAX_ADDRESS = 2_000
MAX_INT = 2**63 - 1
OTHER: Final = "_OTHER"
# What an endpoint is called whose address says nothing about it.
UNKNOWN_PROVIDER: Final = "openai_compatible"
# The names that the conventions have for providers; others keep the one that surecall has.
PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
_VERTEX: Final = "aiplatform.googleapis.com"


def text(value: object, most: int = MAX_TEXT) -> str:
    """Return a short text that can be sent; blank for what is none."""
    if not isinstance(value, str):
        return ""
    short = value[:most]
    return short if short.isascii() else str(scrub(short))


def integer(value: object) -> int | None:
    """Return an integer of 64 bits, if it is one."""
    fits = isinstance(value, int) and not isinstance(value, bool) and -MAX_INT <= value <= MAX_INT
    return value if fits else None  # type: ignore[return-value]  # `fits` says that it is


def double(value: object) -> float | None:
    """Return a number, if it is one."""
    return float(value) if isinstance(value, float) or integer(value) is not None else None  # type: ignore[arg-type]  # the same


def texts(value: object) -> tuple[str, ...] | None:
    """Return a list of texts; a lone text is a list of one."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        return None
    return tuple(found for found in map(text, given) if found) or None


def nanoseconds(at: object) -> int | None:
    """Return when an event happened, as spans count time; None for what is no time of theirs."""
    given = double(at)
    return round(given * 1e9) if given is not None and 0 <= given * 1e9 <= MAX_INT else None


def _several(value: object) -> int | None:
    return None if value == 1 else integer(value)


def _output(value: object) -> str | None:
    match value:
        case {"type": "json_object" | "json_schema"}:
            return "json"
        case {"type": "text"}:
            return "text"
        case _:
            return None


# The options of a request, with what the conventions call them and want them to be. Of two that
# have one name, the second counts.
_OPTIONS: Final[tuple[tuple[str, str, Callable[[object], Value | None]], ...]] = (
    ("temperature", "gen_ai.request.temperature", double),
    ("top_p", "gen_ai.request.top_p", double),
    ("top_k", "gen_ai.request.top_k", double),
    ("frequency_penalty", "gen_ai.request.frequency_penalty", double),
    ("presence_penalty", "gen_ai.request.presence_penalty", double),
    ("max_tokens", "gen_ai.request.max_tokens", integer),
    ("max_completion_tokens", "gen_ai.request.max_tokens", integer),
    ("seed", "gen_ai.request.seed", integer),
    ("n", "gen_ai.request.choice.count", _several),
    ("stop", "gen_ai.request.stop_sequences", texts),
    ("response_format", "gen_ai.output.type", _output),
)


def of_options(options: Mapping[str, Any]) -> Attributes:
    """Tell the settings of a request."""
    found: Attributes = {}
    for option, name, read in _OPTIONS:
        if option in options and (value := read(options[option])) is not None:
            found[name] = value
    return found


def of_endpoint(address: object, provider: str = "") -> Attributes:
    """Tell who serves a model, and where; the provider by its address, unless it is given."""
    url = text(address, MAX_ADDRESS)
    host, port = _place(url)
    name = provider_of(url)
    known = "gcp.vertex_ai" if host.endswith(_VERTEX) else PROVIDERS.get(name, name)
    found: Attributes = {"gen_ai.provider.name": provider or known or UNKNOWN_PROVIDER}
    return found | ({"server.address": host, "server.port": port} if host else {})


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        return text(parts.hostname), parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return "", 0


def of_reply(event: LlmRequestEndEvent) -> Attributes:
    """Tell what came back, except for what it says."""
    reply = event.reply
    found: Attributes = {
        "gen_ai.response.model": text(reply.model),
        "gen_ai.response.id": text(reply.response_id),
        "gen_ai.response.finish_reasons": texts(reply.finish_reason) or (),
        "surecall.response.provider": text(reply.provider),
        "surecall.fired": texts(reply.fired) or (),
    }
    found = {name: value for name, value in found.items() if value}
    if event.streamed:
        found["gen_ai.request.stream"] = True
    return found | _usage(event)


def _usage(event: LlmRequestEndEvent) -> Attributes:
    usage = event.reply.usage
    if usage is None:
        return {}
    told = {
        "gen_ai.usage.input_tokens": integer(usage.prompt_tokens),
        "gen_ai.usage.output_tokens": integer(usage.completion_tokens),
        "gen_ai.usage.cache_read.input_tokens": integer(usage.cached_tokens) or None,
        "gen_ai.usage.reasoning.output_tokens": integer(usage.reasoning_tokens) or None,
        "surecall.usage.cost": double(usage.cost),
    }
    return {name: value for name, value in told.items() if value is not None}


def of_result(event: ToolCallEndEvent) -> Attributes:
    """Tell what came of a call, except for what it returned."""
    found: Attributes = {"surecall.tool.executed": bool(event.result.executed)}
    if not event.ok:
        codes = texts(event.error_codes)
        found["error.type"] = codes[0] if codes else OTHER
    return found


def plain(values: JSON) -> Attributes:
    """Tell a few facts about an event: short texts, counts and truths."""
    found: Attributes = {}
    for name, value in values.items():
        known = value if isinstance(value, bool) else text(value) or double(value)
        if known is not None and known != "":
            found[name] = known
    return found
