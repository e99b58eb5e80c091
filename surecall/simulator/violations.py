"""What a provider may refuse, how it says so, and which of it one provider refuses."""

from typing import Final

import msgspec

WORDING: Final[dict[str, str]] = {
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
    """One thing that is wrong in a request: the rule, the place, the provider's sentence."""

    rule: str
    where: str
    message: str


class ProviderRules(msgspec.Struct, frozen=True, kw_only=True):
    """What one provider demands beyond the common rules, and how it words and wraps errors."""

    name: str
    summary: str
    ids: str = "any"  # any | plain | nine | kimi
    longest_id: int | None = None
    strict_fields: bool = False
    known_fields: tuple[str, ...] = ()  # beside the documented ones
    refused_fields: tuple[str, ...] = ()
    refused_roles: tuple[str, ...] = ()
    thinks_in: str = ""  # the field that carries a thought in its replies
    wants_reasoning: bool = False
    wants_some_reasoning: bool = False  # a blank one does not count
    wants_signatures: bool = False
    seals_turns: bool = False
    wants_result_names: bool = False
    wants_user: bool = False
    wants_parameters: bool = False
    wants_format_word: bool = False
    refuses_null: bool = False
    refuses_blank: bool = False
    refuses_parts: bool = False
    refuses_user_after_tool: bool = False
    refuses_untyped: bool = False
    refuses_type_beside_any_of: bool = False
    refused_options: tuple[str, ...] = ()
    refused_choices: tuple[str, ...] = ()
    error_form: str = "openai"  # a form of `error_bodies`
    words: dict[str, str] = {}

    def violation(self, rule: str, where: str, found: object = "") -> Violation:
        """Word a violation as this provider would."""
        template = self.words.get(rule, WORDING[rule])
        return Violation(rule, where, template.format(where=where, found=found))
