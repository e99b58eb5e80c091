"""Request violations and provider error responses, with the wording of real providers."""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from surecall.values.types import JSON

# Rule names and default messages.

VIOLATION_MESSAGES: Final[dict[str, str]] = {
    "messages_empty": "Invalid 'messages': empty array. Expected an array with minimum length 1, "
    "but got an empty array instead.",
    "tools_empty": "Invalid 'tools': empty array. Expected an array with minimum length 1, but "
    "got an empty array instead.",
    "tools_many": "Invalid 'tools': array too long. Expected an array with maximum length 128, "
    "but got an array with length {found} instead.",
    "tool_name": "Invalid '{where}': string does not match pattern. Expected a string that "
    "matches the pattern '^[a-zA-Z0-9_-]+$' with at most 64 characters.",
    "tool_twice": "tools: Tool names must be unique.",
    "tool_schema": "Invalid schema for function '{found}': schema must be a JSON Schema of "
    "'type: \"object\"'.",
    "tool_untyped": "JSON schema conversion failed: Unrecognized schema: {found}",
    "tool_parameters": "Missing required parameter: '{where}'.",
    "tool_any_of": "Invalid schema at '{where}': type stands beside anyOf.",
    "choice_without_tools": "Invalid value for 'tool_choice': 'tool_choice' is only allowed when "
    "'tools' are specified.",
    "choice_unknown": "Invalid value for 'tool_choice': '{found}' is neither none, auto, required "
    "nor one of the 'tools'.",
    "parallel_without_tools": "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is "
    "only allowed when 'tools' are specified.",
    "format_unknown": "Invalid value for 'response_format': it is neither text, json_object nor "
    "json_schema with a legal name and a schema.",
    "format_word": "'messages' must contain the word 'json' in some form, to use "
    "'response_format' of type '{found}'.",
    "option_refused": "Unsupported parameter: '{found}' is not supported with this model.",
    "choice_refused": "tool_choice '{found}' is not supported by this model.",
    "role_unknown": "Invalid value: '{found}'. Supported values are: 'system', 'assistant', "
    "'user', 'tool', and 'developer'.",
    "user_missing": "Invalid 'messages': there is no message of a user.",
    "content_type": "Invalid value for 'content': expected a string, got {found}. ({where})",
    "content_empty": "{where}: all messages must have non-empty content.",
    "content_parts": "Invalid 'content' type. Expected one of: ['str'], got list. ({where})",
    "content_null": "invalid message content type: <nil>",
    "content_blank": "The text field in the ContentBlock object at {where} is blank. Add text to "
    "the text field, and try again.",
    "field_unknown": "Additional properties are not allowed ('{found}' was unexpected) - "
    "'{where}'.",
    "both_call_forms": "{where}: 'function_call' and 'tool_calls' cannot be used together.",
    "calls_empty": "Invalid '{where}': empty array. Expected an array with minimum length 1, but "
    "got an empty array instead.",
    "call_type": "Missing required parameter: '{where}.type'.",
    "id_missing": "Missing required parameter: '{where}.id'.",
    "name_illegal": "Invalid '{where}.function.name': string does not match pattern. Expected a "
    "string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
    "arguments_type": "Invalid type for '{where}.function.arguments': expected a string, but got "
    "{found} instead.",
    "arguments_object": "invalid tool call arguments ({where})",
    "id_twice": "{where}: `tool_use` ids must be unique ({found})",
    "id_long": "Invalid '{where}.id': string too long. Expected a string with maximum length "
    "{found} instead.",
    "id_form": "{where}.id: '{found}' is not an id that this provider accepts.",
    "unanswered": "An assistant message with 'tool_calls' must be followed by tool messages "
    "responding to each 'tool_call_id'. The following tool_call_ids did not have response "
    "messages: {found}",
    "orphan": "Invalid parameter: messages with role 'tool' must be a response to a "
    "preceeding message with 'tool_calls'. ({where})",  # codespell:ignore preceeding
    "answered_twice": "each tool_use must have a single result. Found multiple `tool_result` "
    "blocks with id: {found}",
    "user_after_tool": "Unexpected role 'user' after role 'tool' ({where})",
    "reasoning_missing": "The `reasoning_content` in the thinking mode must be passed back to the "
    "API. ({where})",
    "signature_missing": "Function call is missing a thought_signature in functionCall parts. "
    "This is required for tools to work correctly. ({where})",
    "signature_corrupt": "Corrupted thought signature. ({where})",
    "seal_broken": "{where}: Expected the state that came with this turn, unchanged.",
    "result_name": "GenerateContentRequest.contents: function_response.name: Name cannot be "
    "empty. ({where})",
}


class Violation(msgspec.Struct, frozen=True):
    """One violation in a request: the rule, its location, and the provider's message."""

    rule: str
    where: str
    message: str


class ProviderRules(msgspec.Struct, frozen=True):
    """A provider's rules beyond the common ones, and the format of its errors."""

    name: str
    summary: str
    ids: str = "any"  # any | plain | nine | kimi
    max_id_chars: int | None = None
    strict_fields: bool = False
    known_fields: tuple[str, ...] = ()  # accepted in addition to the documented ones
    refused_fields: tuple[str, ...] = ()
    refused_roles: tuple[str, ...] = ()
    reasoning_field: str = ""  # the reply field that contains the reasoning
    requires_reasoning: bool = False
    requires_nonblank_reasoning: bool = False  # blank reasoning does not count
    requires_signatures: bool = False
    seals_turns: bool = False
    requires_result_names: bool = False
    requires_user: bool = False
    requires_parameters: bool = False
    requires_json_word: bool = False
    refuses_null: bool = False
    refuses_blank: bool = False
    refuses_parts: bool = False
    refuses_user_after_tool: bool = False
    refuses_untyped: bool = False
    refuses_type_beside_any_of: bool = False
    refused_options: tuple[str, ...] = ()
    refused_choices: tuple[str, ...] = ()
    error_format: str = "openai"  # a key of `_ERROR_FORMATS`
    messages: dict[str, str] = {}

    def violation(self, rule: str, where: str, found: object = "") -> Violation:
        """Build a violation with this provider's message."""
        template = self.messages.get(rule, VIOLATION_MESSAGES[rule])
        return Violation(rule, where, template.format(where=where, found=found))


# Error formats: providers wrap the same message in different bodies.

RefusalResponse: TypeAlias = tuple[int, JSON | list[JSON]]

_ERROR_TYPE = "invalid_request_error"
_REQUEST_ID = "060ddc5b11062bd3139dfc01ab8b68bd"
_ORDER_RULES: Final = frozenset({"user_after_tool", "unanswered", "answered_twice", "orphan"})
_ZAI_CODES: Final = {"content_blank": "1213"} | dict.fromkeys(
    ("user_missing", "content_empty", "orphan", "unanswered", "id_twice", "field_unknown"), "1214"
)


def refusal_response(rules: ProviderRules, violation: Violation) -> RefusalResponse:
    """Return the status and body with which a provider rejects a request."""
    return _ERROR_FORMATS[rules.error_format](violation)


def _openai_error(violation: Violation) -> RefusalResponse:
    error = {
        "message": violation.message,
        "type": _ERROR_TYPE,
        "param": violation.where,
        "code": None,
    }
    return 400, {"error": error}


def _mistral_error(violation: Violation) -> RefusalResponse:
    flat = {"object": "error", "message": violation.message}
    if violation.rule == "field_unknown":
        return 422, flat | {"type": _ERROR_TYPE}
    if violation.rule in _ORDER_RULES:
        kind = {"type": "invalid_request_message_order", "param": None, "code": "3230"}
    else:
        kind = {"type": "invalid_request", "param": None, "code": "1000"}
    return 400, flat | kind


def _gemini_error(violation: Violation) -> RefusalResponse:
    error = {"code": 400, "message": violation.message, "status": "INVALID_ARGUMENT"}
    return 400, [{"error": error}]


def _cerebras_error(violation: Violation) -> RefusalResponse:
    place = "validation_error" if violation.rule == "field_unknown" else violation.where
    flat = {"message": violation.message, "type": _ERROR_TYPE, "param": place}
    return 400, flat | {"code": "wrong_api_format"}


def _xai_error(violation: Violation) -> RefusalResponse:
    return 400, {"code": "Client specified an invalid argument", "error": violation.message}


def _moonshot_error(violation: Violation) -> RefusalResponse:
    return 400, {"error": {"message": violation.message, "type": _ERROR_TYPE}}


def _zai_error(violation: Violation) -> RefusalResponse:
    code = _ZAI_CODES.get(violation.rule, "1210")
    return 400, {"error": {"code": code, "message": violation.message}}


def _minimax_error(violation: Violation) -> RefusalResponse:
    error = {"type": "bad_request_error", "message": f"{violation.message} (2013)"}
    wrapped = error | {"http_code": "400"}
    return 400, {"type": "error", "error": wrapped, "request_id": _REQUEST_ID}


def _dashscope_error(violation: Violation) -> RefusalResponse:
    text = f"<400> InternalError.Algo.InvalidParameter: {violation.message}"
    error = {"message": text, "type": _ERROR_TYPE, "param": None, "code": "invalid_parameter_error"}
    return 400, {"error": error, "request_id": _REQUEST_ID}


_ERROR_FORMATS: Final[dict[str, Callable[[Violation], RefusalResponse]]] = {
    "openai": _openai_error,
    "mistral": _mistral_error,
    "gemini": _gemini_error,
    "cerebras": _cerebras_error,
    "xai": _xai_error,
    "moonshot": _moonshot_error,
    "zai": _zai_error,
    "minimax": _minimax_error,
    "dashscope": _dashscope_error,
}
