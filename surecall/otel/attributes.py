"""OpenTelemetry attributes of requests, tools, and messages, as in the GenAI conventions.

Content (messages, arguments, results) is only recorded if the application requests it:

    {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]}
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from surecall.settings.capabilities import provider_for_url
from surecall.values.events import LlmRequestEndEvent, ToolCallEndEvent
from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json, encode_json
from surecall.values.text import join_surrogates
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from surecall.wire.chat_format import encode

# Attributes without content.
#
# Values come from models, providers and applications. Values of another type than the conventions
# require are left out: an exporter that fails on a lone surrogate or a 65-bit integer loses all
# spans of its batch.

AttributeValue: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, AttributeValue]

MAX_TEXT = 256
MAX_URL = 2_000
MAX_INT = 2**63 - 1
OTHER: Final = "_OTHER"
# The provider name of an endpoint with an unknown address.
UNKNOWN_PROVIDER: Final = "openai_compatible"
# Provider names of the conventions that differ from surecall's.
PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
_VERTEX: Final = "aiplatform.googleapis.com"


def text(value: object, max_chars: int = MAX_TEXT) -> str:
    """Return a shortened string without lone surrogates; blank if the value is not a string."""
    if not isinstance(value, str):
        return ""
    short = value[:max_chars]
    return join_surrogates(short)


def integer(value: object) -> int | None:
    """Return a value if it is a 64-bit integer, or None."""
    fits = isinstance(value, int) and not isinstance(value, bool) and -MAX_INT <= value <= MAX_INT
    return value if fits else None  # type: ignore[return-value]  # `fits` checks it


def double(value: object) -> float | None:
    """Return a value as a float if it is a number, or None."""
    return float(value) if isinstance(value, float) or integer(value) is not None else None  # type: ignore[arg-type]  # the same


def texts(value: object) -> tuple[str, ...] | None:
    """Return a string or a list of strings as a tuple, or None."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        return None
    return tuple(item for item in map(text, items) if item) or None


def nanoseconds(unix_s: object) -> int | None:
    """Return a Unix time in nanoseconds, or None if it is out of range."""
    seconds = double(unix_s)
    return round(seconds * 1e9) if seconds is not None and 0 <= seconds * 1e9 <= MAX_INT else None


def _output_type(value: object) -> str | None:
    """Return the output type of a `response_format`, if it is known."""
    match value:
        case {"type": "json_object" | "json_schema"}:
            return "json"
        case {"type": "text"}:
            return "text"
        case _:
            return None


# Request options, with their attribute and type. If two options have the same attribute, the second
# takes precedence.
_OPTIONS: Final[tuple[tuple[str, str, Callable[[object], AttributeValue | None]], ...]] = (
    ("temperature", "gen_ai.request.temperature", double),
    ("top_p", "gen_ai.request.top_p", double),
    ("top_k", "gen_ai.request.top_k", double),
    ("frequency_penalty", "gen_ai.request.frequency_penalty", double),
    ("presence_penalty", "gen_ai.request.presence_penalty", double),
    ("max_tokens", "gen_ai.request.max_tokens", integer),
    ("max_completion_tokens", "gen_ai.request.max_tokens", integer),
    ("seed", "gen_ai.request.seed", integer),
    ("n", "gen_ai.request.choice.count", lambda n: None if n == 1 else integer(n)),
    ("stop", "gen_ai.request.stop_sequences", texts),
    ("response_format", "gen_ai.output.type", _output_type),
)


def request_attributes(options: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a request's options."""
    attributes: Attributes = {}
    for option, name, convert in _OPTIONS:
        if option in options and (value := convert(options[option])) is not None:
            attributes[name] = value
    return attributes


def endpoint_attributes(address: object, provider: str = "") -> Attributes:
    """Return the attributes of an endpoint; the provider is inferred from its URL unless given."""
    url = text(address, MAX_URL)
    host, port = _host_and_port(url)
    name = provider_for_url(url)
    known_name = "gcp.vertex_ai" if host.endswith(_VERTEX) else PROVIDERS.get(name, name)
    attributes: Attributes = {"gen_ai.provider.name": provider or known_name or UNKNOWN_PROVIDER}
    return attributes | ({"server.address": host, "server.port": port} if host else {})


def _host_and_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        return text(parts.hostname), parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return "", 0


def response_attributes(event: LlmRequestEndEvent) -> Attributes:
    """Return the attributes of a reply, without content."""
    reply = event.reply
    attributes: Attributes = {
        "gen_ai.response.model": text(reply.model),
        "gen_ai.response.id": text(reply.response_id),
        "gen_ai.response.finish_reasons": texts(reply.finish_reason) or (),
        "surecall.response.provider": text(reply.provider),
        "surecall.fired": texts(reply.fired) or (),
    }
    attributes = {name: value for name, value in attributes.items() if value}
    if event.streamed:
        attributes["gen_ai.request.stream"] = True
    return attributes | _usage_attributes(event)


def _usage_attributes(event: LlmRequestEndEvent) -> Attributes:
    usage = event.reply.usage
    if usage is None:
        return {}
    attributes = {
        "gen_ai.usage.input_tokens": integer(usage.prompt_tokens),
        "gen_ai.usage.output_tokens": integer(usage.completion_tokens),
        "gen_ai.usage.cache_read.input_tokens": integer(usage.cached_tokens) or None,
        "gen_ai.usage.reasoning.output_tokens": integer(usage.reasoning_tokens) or None,
        "surecall.usage.cost": double(usage.cost),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def result_attributes(event: ToolCallEndEvent) -> Attributes:
    """Return the attributes of a tool result, without content."""
    attributes: Attributes = {"surecall.tool.executed": bool(event.result.executed)}
    if not event.ok:
        codes = texts(event.error_codes)
        attributes["error.type"] = codes[0] if codes else OTHER
    return attributes


def simple_attributes(values: JSON) -> Attributes:
    """Return the values that are short strings, numbers or booleans as attributes."""
    attributes: Attributes = {}
    for name, value in values.items():
        attribute = value if isinstance(value, bool) else text(value) or double(value)
        if attribute is not None and attribute != "":
            attributes[name] = attribute
    return attributes


UNWRITABLE: Final = '"(nested too deeply to be written)"'
_MODALITIES: Final = {"image_url": "image", "video_url": "video", "input_audio": "audio"}


def encode_value(value: object) -> str:
    """Return any value as JSON, or a placeholder."""
    try:
        return encode_json(value, encode, limit=MAX_WRAPPED_DEPTH).decode()
    except (TypeError, ValueError, OverflowError):
        return UNWRITABLE


def encode_message(message: Message) -> str:
    """Return a message as JSON; blank for a refusal, which is never sent."""
    match message:
        case System(words):
            return _encode_parts("system", [_text_part(words)])
        case User(content):
            parts = content if isinstance(content, list) else [content]
            return _encode_parts("user", list(map(_content_part, parts)))
        case Assistant(words, calls):
            return _encode_parts("assistant", _assistant_parts(words, calls))
        case ToolResult():
            # The content is JSON already.
            part = {"type": "tool_call_response", "id": message.call_id}
            return _encode_parts("tool", [part | {"response": embeddable_json(message.content)}])
        case _:  # a refusal
            return ""


def embeddable_json(content: str) -> object:
    """Return JSON text as a value to embed in other JSON, and other text unchanged."""
    try:
        return decode_json(content, msgspec.Raw)
    except ValueError:
        return content


def encode_output(reply: Reply) -> str:
    """Return a reply as JSON output messages."""
    parts, reason = _assistant_parts(reply.text, reply.calls), reply.finish_reason or "error"
    return encode_value([{"role": "assistant", "parts": parts, "finish_reason": reason}])


def encode_answer(answer: str) -> str:
    """Return the final answer of a run as JSON output messages."""
    return encode_value(
        [{"role": "assistant", "parts": [_text_part(answer)], "finish_reason": "stop"}]
    )


def encode_definitions(tools: Iterable[ToolSpec]) -> str:
    """Return tool definitions as JSON."""
    return encode_value(
        [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in tools
        ]
    )


def _encode_parts(role: str, parts: list[JSON]) -> str:
    """Return a message with a role and parts as JSON."""
    return encode_value({"role": role, "parts": parts})


def _text_part(content: str) -> JSON:
    return {"type": "text", "content": content}


def _assistant_parts(text_content: str, calls: Iterable[ToolCall]) -> list[JSON]:
    called = (
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in calls
    )
    return [*([_text_part(text_content)] if text_content else []), *called]


def _content_part(item: Any) -> JSON:
    """Return the part for an item of a message's content."""
    match item:
        case str():
            return _text_part(item)
        case {"type": "text", "text": str(words)}:
            return _text_part(words)
        case {"type": str(kind)} if kind in _MODALITIES:
            return _media_part(_MODALITIES[kind], item.get(kind))
        case {"type": str()}:
            return dict(item)
        case _:
            return {"type": "unknown", "content": item}


def _media_part(modality: str, media: Any) -> JSON:
    """Return the part for an image, audio or video: its data, or its URI."""
    match media:
        case {"url": str(url)} if url.startswith("data:"):
            head, _, data = url.partition(",")
            kind = head.removeprefix("data:").partition(";")[0]
            return {"type": "blob", "modality": modality, "mime_type": kind, "content": data}
        case {"url": str(url)}:
            return {"type": "uri", "modality": modality, "uri": url}
        case {"data": str(data)}:
            return {"type": "blob", "modality": modality, "content": data}
        case _:
            return {"type": "unknown", "modality": modality}
