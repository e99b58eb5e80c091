"""Features that a provider may refuse in an otherwise legal request, in the words of real ones.

Each is a persona for each wording: `sim/refuses-<feature>`, then `-2`. A client that learns from
refusals needs one extra request the first time, and none afterwards. The wordings are examples of
the table of refusals (`settings/data/refusals.toml`); those of options and keywords are here.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from surecall.parsing.coercion import rewrite_schema
from surecall.settings.providers import refusal_rows
from surecall.values.types import JSON

# The limits that the wordings state.
MAX_OUTPUT_TOKENS: Final = 8192
MAX_TOOL_COUNT: Final = 128
MAX_SCHEMA_DEPTH: Final = 10


class RefusedFeature(msgspec.Struct, frozen=True):
    """A feature, whether a request has it, and how providers refuse it."""

    name: str
    is_used: Callable[[JSON], bool]
    wordings: tuple[str, ...]
    sources: tuple[str, ...]


def _messages(body: JSON) -> list[JSON]:
    return [each for each in body.get("messages") or () if isinstance(each, dict)]


def _roles(body: JSON) -> list[Any]:
    return [message.get("role") for message in _messages(body)]


def _parts(body: JSON, role: str = "") -> Iterator[JSON]:
    for message in _messages(body):
        content = message.get("content")
        if isinstance(content, list) and role in {"", message.get("role")}:
            yield from (part for part in content if isinstance(part, dict))


def _schemas(body: JSON) -> Iterator[JSON]:
    for tool in body.get("tools") or ():
        parameters = tool["function"].get("parameters")
        if not isinstance(parameters, dict):
            continue
        found: list[JSON] = []
        rewrite_schema(parameters, lambda schema, found=found: found.append(schema) or schema)  # type: ignore[misc]
        yield from found


def _has_option(name: str) -> Callable[[JSON], bool]:
    return lambda body: name in body


def _has_keyword(keyword: str) -> Callable[[JSON], bool]:
    return lambda body: any(keyword in schema for schema in _schemas(body))


def _has_temperature_and_top_p(body: JSON) -> bool:
    return "temperature" in body and "top_p" in body


def _exceeds_output_limit(body: JSON) -> bool:
    most = body.get("max_tokens")
    return isinstance(most, int) and most > MAX_OUTPUT_TOKENS


def _has_developer_message(body: JSON) -> bool:
    return "developer" in _roles(body)


def _has_late_system_message(body: JSON) -> bool:
    return "system" in _roles(body)[1:]


def _has_system_message(body: JSON) -> bool:
    return bool({"system", "developer"} & set(_roles(body)))


def _has_user_after_tool(body: JSON) -> bool:
    return ("tool", "user") in pairwise(_roles(body))


def _has_repeated_role(body: JSON) -> bool:
    return any(one == other and one != "tool" for one, other in pairwise(_roles(body)))


def _has_text_parts(body: JSON) -> bool:
    return any(part.get("type") == "text" for part in _parts(body))


def _has_tool_image(body: JSON) -> bool:
    return any(part.get("type") == "image_url" for part in _parts(body, "tool"))


def _has_image(body: JSON) -> bool:
    return any(part.get("type") == "image_url" for part in _parts(body))


def _has_reference_in_result(body: JSON) -> bool:
    results = [each for each in _messages(body) if each.get("role") == "tool"]
    return any('"$ref"' in str(each.get("content")) for each in results)


def _has_empty_content(body: JSON) -> bool:
    return any(each.get("content") == "" and not each.get("tool_calls") for each in _messages(body))


def _has_message_name(body: JSON) -> bool:
    return any("name" in message for message in _messages(body))


def _has_empty_calls(body: JSON) -> bool:
    return any(message.get("tool_calls") == [] for message in _messages(body))


def _has_duplicate_tools(body: JSON) -> bool:
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    return len(set(names)) < len(names)


def _has_many_tools(body: JSON) -> bool:
    return len(body.get("tools") or ()) > MAX_TOOL_COUNT


def _has_schema_reference(body: JSON) -> bool:
    return any(schema.keys() & {"$ref", "$defs", "definitions"} for schema in _schemas(body))


def _has_type_list(body: JSON) -> bool:
    return any(isinstance(schema.get("type"), list) for schema in _schemas(body))


def _has_untyped_schema(body: JSON) -> bool:
    return any(not schema.keys() & {"type", "anyOf", "$ref"} for schema in _schemas(body))


def _has_keyword_beside_any_of(body: JSON) -> bool:
    return any("anyOf" in schema and len(schema) > 1 for schema in _schemas(body))


def _has_root_alternatives(body: JSON) -> bool:
    tools = body.get("tools") or ()
    roots = [tool["function"].get("parameters") or {} for tool in tools]
    return any({"anyOf", "oneOf", "allOf"} & root.keys() for root in roots)


def _has_deep_schema(body: JSON) -> bool:
    tools = body.get("tools") or ()
    return any(
        _schema_depth(tool["function"].get("parameters")) > MAX_SCHEMA_DEPTH for tool in tools
    )


def _schema_depth(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    below = [*(schema.get("properties") or {}).values(), schema.get("items")]
    return 1 + max(map(_schema_depth, below), default=0)


def _reasons_with_tools(body: JSON) -> bool:
    return bool(body.get("tools")) and body.get("reasoning_effort") != "none"


# By name: the test, and the lesson of the rows in the table whose examples are the wordings.
_FROM_TABLE: Final[dict[str, tuple[Callable[[JSON], bool], str]]] = {
    "max-tokens": (_has_option("max_tokens"), "rename:max_tokens:max_completion_tokens"),
    "many-tokens": (_exceeds_output_limit, "at-most:max_tokens:{}"),
    "both-samplers": (_has_temperature_and_top_p, "top_p"),
    "empty-tools": (lambda body: body.get("tools") == [], "empty:tools"),
    "empty-calls": (_has_empty_calls, "empty:tool_calls"),
    "many-tools": (_has_many_tools, "max-tools:{}"),
    "type-lists": (_has_type_list, "schema:type-list"),
    "any-of-siblings": (_has_keyword_beside_any_of, "schema:any-of-alone"),
    "root-alternatives": (_has_root_alternatives, "schema:plain-root"),
    "untyped-schemas": (_has_untyped_schema, "schema:typed"),
    "references": (_has_schema_reference, "schema:$ref"),
    "deep-schemas": (_has_deep_schema, "schema:depth:{}"),
    "references-in-results": (_has_reference_in_result, "results:text"),
    "developer-role": (_has_developer_message, "role:system"),
    "late-system": (_has_late_system_message, "system:first"),
    "system-role": (_has_system_message, "system:user"),
    "user-after-tool": (_has_user_after_tool, "bridge:user"),
    "repeated-role": (_has_repeated_role, "roles:merged"),
    "tool-images": (_has_tool_image, "images:user"),
    "images": (_has_image, "images:omitted"),
    "text-parts": (_has_text_parts, "parts:text"),
    "tools-with-reasoning": (_reasons_with_tools, "set:reasoning_effort:none"),
}
_OPTION_WORDINGS: Final = (
    "Unsupported parameter: '{}' is not supported with this model.",
    "[('type', 'extra_forbidden'), ('loc', ('body', '{}')), ('msg', 'Extra inputs not permitted')]",
)
_KEYWORD_WORDINGS: Final = (
    'Unknown name "{}" at tools[0].function_declarations[0].parameters: Cannot find field.',
    "Invalid schema for function 't': In context=('properties', 'a'), '{}' is not permitted.",
)
_EMPTY_WORDINGS: Final = (
    "messages: text content blocks must be non-empty",
    "messages.1.content: the content field is blank; add text and try again",
)
_NAME_WORDINGS: Final = (
    "messages.1.name: Extra inputs are not permitted",
    "Additional properties are not allowed ('name' was unexpected) - 'messages.1'",
)
_DUPLICATE_WORDINGS: Final = (
    "tools: Tool names must be unique.",
    "Duplicate function declaration found: t",
)
_OPTIONS: Final = ("temperature", "top_p", "stream_options", "chat_template_kwargs")
_KEYWORDS: Final = (
    *("const", "oneOf", "allOf", "format", "additionalProperties", "default", "nullable"),
)


def _all_features() -> Iterator[RefusedFeature]:
    for name, (is_used, lesson) in _FROM_TABLE.items():
        row = next(row for row in refusal_rows() if lesson in row.lessons)
        yield RefusedFeature(name, is_used, row.examples[:2], row.sources)
    for option in _OPTIONS:
        wordings = tuple(wording.format(option) for wording in _OPTION_WORDINGS)
        name = option.replace("_", "-")
        yield RefusedFeature(name, _has_option(option), wordings, ("FlowiseAI/Flowise#2866",))
    for keyword in _KEYWORDS:
        wordings = tuple(wording.format(keyword) for wording in _KEYWORD_WORDINGS)
        name = f"schema-{keyword.lower()}"
        yield RefusedFeature(name, _has_keyword(keyword), wordings, ("zed-industries/zed#44875",))
    yield RefusedFeature(
        "empty-content", _has_empty_content, _EMPTY_WORDINGS, ("Anthropic: Messages",)
    )
    yield RefusedFeature("names", _has_message_name, _NAME_WORDINGS, ("BerriAI/litellm#30835",))
    duplicate = ("anthropics/claude-code#10684",)
    yield RefusedFeature("duplicate-tools", _has_duplicate_tools, _DUPLICATE_WORDINGS, duplicate)


REFUSED_FEATURES: Final = {feature.name: feature for feature in _all_features()}


def refused_wording(feature: str, wording: int, body: JSON) -> str:
    """Return the words in which a request is refused; blank if it does not use the feature."""
    refused = REFUSED_FEATURES.get(feature)
    return refused.wordings[wording] if refused is not None and refused.is_used(body) else ""
