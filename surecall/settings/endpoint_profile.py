"""Settings for one endpoint and model: what to send, what to omit, and what to repair.

Presets derive a profile from the endpoint's URL and the model's name; you rarely set these fields
yourself. The rules of a run are in `ToolCallingConfig`.
"""

from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from surecall.settings.overlay import LayeredSettings, default
from surecall.values.family import Family
from surecall.values.types import JSON
from surecall.wire.call_styles import TEXT_CALL_RULES, TextCallRule, TextCalls
from surecall.wire.chat_format import WireStyle
from surecall.wire.transforms import BODY, MESSAGE, RESPONSE, TOOL, TOOL_CALL, TOOL_RESULT

ToolsOffStyle: TypeAlias = Literal["omit", "tool_choice_none"]

FAMILIES: Final[dict[str, Family[JSON]]] = {
    "message_transforms": MESSAGE,
    "tool_transforms": TOOL,
    "body_transforms": BODY,
    "response_transforms": RESPONSE,
    "tool_call_transforms": TOOL_CALL,
    "tool_result_transforms": TOOL_RESULT,
}
FAILED_GENERATION: Final = "failed_generation_to_message"
BODY_TRANSFORMS: Final = (
    "response_body_unwrapped",
    FAILED_GENERATION,
    "choice_delta_to_message",
    "choices_of_one_turn_joined",
)
# The order matters: the list of calls first, then each call, then its arguments.
RESPONSE_NORMALIZERS: Final = (
    "assistant_tool_calls_json_text_to_array",
    "assistant_function_call_to_tool_calls",
    "assistant_tool_calls_object_to_array",
    "assistant_content_call_parts_to_tool_calls",
    "assistant_tool_calls_flat_to_function",
    "assistant_tool_calls_parallel_expanded",
    "assistant_tool_calls_name_tags_to_arguments",
    "assistant_tool_calls_blank_dropped",
    "assistant_tool_calls_arguments_json_string_if_hash",
    "assistant_content_parts_to_text",
    "assistant_content_edges_trimmed",
)
BLANK_ARGUMENTS: Final = "assistant_tool_calls_arguments_blank_to_empty_object"


class EndpointProfile(LayeredSettings, frozen=True, kw_only=True):
    """Settings for an endpoint and model. The defaults suit an unknown endpoint."""

    # Request
    default_max_tokens: int | None = default(None)
    """Value of `max_tokens` for requests whose options do not limit the reply; null sends none."""
    unsupported_options: tuple[str, ...] = default(())
    """Request options that are not sent, because the endpoint rejects them."""
    tools_off_style: ToolsOffStyle = default("omit")
    """How to disable tools for one turn: `omit` them, or send them with `tool_choice_none` where
    the endpoint rejects tool messages without tools."""
    demand_by_name: bool = default(True)
    """Name the tool in `tool_choice` when exactly one can be required; false sends `required` with
    that tool alone, for endpoints that reject or ignore names."""
    max_tools_per_request: int | None = default(None)
    """Maximum number of tools in a request. If there are more, the request has the most relevant
    ones and `search_tools`, with which the model finds the others; null means no limit."""
    max_tool_definitions_count: int = default(128)
    """Maximum number of tools of a runner without `max_tools_per_request`."""
    max_tool_definitions_bytes: int = default(200_000)
    """Maximum size of all tool definitions together, in bytes."""

    # History
    keep_text_beside_calls: bool = default(False)
    """Send text that came with tool calls back to the model."""
    echo_fields: tuple[str, ...] | None = default(None)
    """Extra fields of an assistant message, such as reasoning, to send back unchanged; null means
    all. They are sent only to the endpoint and model that produced them."""
    echo_call_fields: bool = default(True)
    """Send back unknown fields of a call and its function, such as signatures."""
    withheld_fields: tuple[str, ...] = default(("annotations", "audio", "images", "image_url"))
    """Fields of messages, calls, and functions, and types of content parts, never to send back."""
    short_call_ids: bool = default(False)
    """Send call ids of nine letters and digits, the only ones Mistral accepts."""
    name_tool_messages: bool = default(True)
    """Send the tool's name with each tool message, which Gemini requires."""
    bridge_user_after_tool: bool = default(False)
    """Put a short assistant message between a tool message and a user message."""

    # Replies
    text_calls: TextCalls = default("marked")
    """Which calls written as text to parse: `off` none, `marked` those with unmistakable markers,
    `any` also unmarked JSON with the name of a known tool."""
    text_call_rules: tuple[TextCallRule, ...] = default(TEXT_CALL_RULES)
    """Rules that a call written as text must meet to run; otherwise the model is asked whether it
    meant the call. `whole`: the call is complete; `marked`: its markers are unmistakable;
    `own_words`: it cannot be a copy of a tool result or user text; `last_words`: nothing follows
    it; `only_way`: the model has made no native call; `not_destructive`: the tool is not marked
    destructive."""
    strip_thinking: bool = default(True)
    """Move `<think>` blocks and similar from the answer to the reply's reasoning."""
    calls_in_order: bool = default(True)
    """Run all calls of a reply in order even if `parallel_tool_calls` is false; false runs the
    first and tells the model to send one call at a time."""
    coerce_arguments: bool = default(True)
    """Convert arguments, and typed answers, to the types in the schema where that loses nothing,
    such as `"2"` to 2."""
    decode_html_entities: bool = default(False)
    """Decode `&amp;` and other HTML entities in arguments; wrong for tools that take HTML."""
    stringify_containers: bool = default(False)
    """Write an object or a list as JSON text where the schema requires a string."""

    # Techniques for small models
    guided_thought: int = default(0)
    """Maximum characters of reasoning at the start of a guided reply once there are results; 0
    disables it. It is recorded in the trace and never sent back."""
    guided_fit_check: bool = default(False)
    """Make a guided reply state what is requested and whether any tool can provide it before it
    may call one. Ignored with a contract, or where a call is required."""
    choice_temperature: float | None = default(None)
    """`temperature` of guided replies that choose among observed values; null keeps the
    request's."""
    closing_reminder: bool = default(False)
    """Repeat the results and the request before the final answer of a fulfilled contract; only
    with the `guided` and `prompted` protocols."""
    block_repeated_success: bool = default(False)
    """Refuse a call that has just succeeded; a read-only call, while nothing has changed since."""

    # Transforms, by name
    message_transforms: tuple[str, ...] = default(())
    """Applied to each outgoing message, in order."""
    tool_transforms: tuple[str, ...] = default(())
    """Applied to each outgoing tool definition."""
    body_transforms: tuple[str, ...] = default(BODY_TRANSFORMS)
    """Applied to each incoming response body."""
    response_transforms: tuple[str, ...] = default(RESPONSE_NORMALIZERS)
    """Applied to each incoming assistant message."""
    tool_call_transforms: tuple[str, ...] = default((BLANK_ARGUMENTS,))
    """Applied to each incoming call."""
    tool_result_transforms: tuple[str, ...] = default(())
    """Applied to each tool result before it is sent."""

    UNITED: ClassVar = frozenset({*FAMILIES, "unsupported_options"})
    WORDS: ClassVar = {"tools_off_style": get_args(ToolsOffStyle)}
    LISTS: ClassVar = frozenset(
        {*FAMILIES, "unsupported_options", "echo_fields", "withheld_fields", "text_call_rules"}
    )
    POSITIVE: ClassVar = (
        "default_max_tokens",
        "max_tools_per_request",
        "max_tool_definitions_count",
        "max_tool_definitions_bytes",
    )
    NOT_NEGATIVE: ClassVar = ("guided_thought", "choice_temperature")

    @classmethod
    def validate(cls, name: str, value: Any) -> Any:
        """Return a value converted to its field's type; unknown transforms are errors."""
        valid = super().validate(name, value)
        family = FAMILIES.get(name)
        return valid if family is None else family.check(valid)

    @property
    def wire_style(self) -> WireStyle:
        """The style in which earlier messages are sent."""
        return WireStyle(
            self.keep_text_beside_calls,
            self.echo_fields,
            self.echo_call_fields,
            self.short_call_ids,
            self.name_tool_messages,
            self.withheld_fields,
        )
