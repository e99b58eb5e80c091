"""What particular providers demand of a request beyond the common rules."""

from typing import Final

from surecall.simulator.request_checks import ProviderRules, Violation
from surecall.values.types import JSON

_ALL: Final = (
    ProviderRules(name="common", summary="the rules that every strict provider shares"),
    ProviderRules(
        name="openai",
        summary="refuses message fields that the API does not document",
        ids="any",
        strict_fields=True,
    ),
    ProviderRules(
        name="anthropic",
        summary="ids of letters, digits, '_' and '-', unique in the whole conversation",
        ids="plain",
        words={
            "id_form": "{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        },
    ),
    ProviderRules(
        name="mistral",
        summary="ids of nine letters or digits, no user after a tool, no undocumented fields",
        ids="nine",
        strict_fields=True,
        refuses_user_after_tool=True,
        error_form="mistral",
        words={
            "id_form": "Tool call id was {found} but must be a-z, A-Z, 0-9, with a length of 9.",
            "unanswered": "Not the same number of function calls and responses",
            "answered_twice": "Not the same number of function calls and responses",
            "id_twice": "Duplicate tool call id in assistant message: {found}",
            "field_unknown": "Extra inputs are not permitted: {where}.{found} (extra_forbidden)",
        },
    ),
    ProviderRules(
        name="deepseek",
        summary="wants `reasoning_content` back with every tool-call turn; no forced tool",
        wants_reasoning=True,
        refused_choices=("required", "named"),
        words={"choice_refused": "Thinking mode does not support this tool_choice"},
    ),
    ProviderRules(
        name="gemini",
        summary="wants its thought signature back, a name with each result, no unknown options",
        wants_signatures=True,
        wants_result_names=True,
        refused_options=("parallel_tool_calls", "metadata"),
        error_form="gemini",
        words={
            "option_refused": 'Invalid JSON payload received. Unknown name "{found}": Cannot find '
            "field.",
        },
    ),
    ProviderRules(
        name="kimi",
        summary="wants its own ids `functions.name:index` kept",
        ids="kimi",
        refused_choices=("required",),
        words={
            "id_form": "{where}: tool_call_id '{found}' is not of the form functions.name:index",
            "choice_refused": "tool_choice 'required' is incompatible with thinking enabled",
        },
    ),
    ProviderRules(
        name="ollama",
        summary="refuses `content: null`, also beside calls",
        refuses_null=True,
        words={"content_type": "invalid message content type: <nil>"},
    ),
    ProviderRules(
        name="bedrock", summary="refuses a blank `content` beside calls", refuses_blank=True
    ),
    ProviderRules(
        name="groq",
        summary="refuses message fields that the API does not document",
        strict_fields=True,
        words={
            "field_unknown": "'{where}' : for 'role:assistant' the following must be satisfied"
            "[('{where}' : property '{found}' is unsupported)]",
        },
    ),
    ProviderRules(
        name="llama_cpp",
        summary="refuses a tool with a property that has no type",
        refuses_untyped=True,
    ),
    ProviderRules(
        name="cerebras",
        summary="refuses `parallel_tool_calls` and a named tool",
        refused_options=("parallel_tool_calls",),
        refused_choices=("named",),
        words={"option_refused": "{found}: property '{found}' is unsupported"},
    ),
    ProviderRules(
        name="no-parallel",
        summary="refuses `parallel_tool_calls`, as some reasoning models do behind any provider",
        refused_options=("parallel_tool_calls",),
    ),
    ProviderRules(
        name="no-required",
        summary="refuses to be forced to call a tool",
        refused_choices=("required", "named"),
    ),
    ProviderRules(
        name="no-format",
        summary="refuses `response_format`, as servers do that cannot bind a reply to a schema",
        refused_options=("response_format",),
    ),
)
PROVIDER_RULES: Final[dict[str, ProviderRules]] = {each.name: each for each in _ALL}
_ORDER_RULES = frozenset({"user_after_tool", "unanswered", "answered_twice", "orphan"})


def refusal(rules: ProviderRules, violation: Violation) -> tuple[int, JSON | list[JSON]]:
    """Return the status and the body with which a provider refuses a request."""
    message, rule = violation.message, violation.rule
    match rules.error_form:
        case "mistral" if rule == "field_unknown":
            return 422, {"object": "error", "message": message, "type": "invalid_request_error"}
        case "mistral":
            kind = "invalid_request_message_order" if rule in _ORDER_RULES else "invalid_request"
            flat = {"object": "error", "message": message, "type": kind, "param": None}
            return 400, flat | {"code": "3230" if rule in _ORDER_RULES else "1000"}
        case "gemini":
            error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
            return 400, [{"error": error}]
        case _:
            kind = "invalid_request_error"
            error = {"message": message, "type": kind, "param": violation.where, "code": None}
            return 400, {"error": error}
