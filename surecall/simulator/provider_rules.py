"""Request rules of particular providers, beyond the common ones.

The sources are in `surecall/settings/data/provider_facts.toml`.
"""

from typing import Final

from surecall.simulator.violations import ProviderRules

_ALL: Final = (
    ProviderRules("common", "enforces the rules shared by all strict providers"),
    ProviderRules(
        "openai",
        "rejects undocumented message fields",
        ids="any",
        strict_fields=True,
    ),
    ProviderRules(
        "anthropic",
        "requires unique ids of letters, digits, '_', and '-'; rejects blank `content` next to "
        "calls",
        ids="plain",
        refuses_blank=True,
        messages={
            "content_blank": "messages: text content blocks must be non-empty",
            "id_form": "{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        },
    ),
    ProviderRules(
        "mistral",
        "requires ids of nine letters or digits; rejects a user message after a tool result "
        "and undocumented message fields",
        ids="nine",
        strict_fields=True,
        refuses_user_after_tool=True,
        error_format="mistral",
        messages={
            "id_form": "Tool call id was {found} but must be a-z, A-Z, 0-9, with a length of 9.",
            "unanswered": "Not the same number of function calls and responses",
            "answered_twice": "Not the same number of function calls and responses",
            "id_twice": "Duplicate tool call id in assistant message: {found}",
            "field_unknown": "Extra inputs are not permitted: {where}.{found} (extra_forbidden)",
        },
    ),
    ProviderRules(
        "deepseek",
        "requires `reasoning_content` in every turn with calls; rejects forced tool calls",
        reasoning_field="reasoning_content",
        requires_reasoning=True,
        refused_choices=("required", "named"),
        messages={"choice_refused": "Thinking mode does not support this tool_choice"},
    ),
    ProviderRules(
        "gemini",
        "requires its thought signatures and a name for each result; rejects unknown options",
        requires_signatures=True,
        requires_result_names=True,
        refused_options=("parallel_tool_calls", "metadata"),
        error_format="gemini",
        messages={
            "option_refused": 'Invalid JSON payload received. Unknown name "{found}": Cannot find '
            "field."
        },
    ),
    ProviderRules(
        "kimi",
        "requires ids of the form `functions.name:index`",
        ids="kimi",
        refused_choices=("required",),
        messages={
            "id_form": "{where}: tool_call_id '{found}' is not of the form functions.name:index",
            "choice_refused": "tool_choice 'required' is incompatible with thinking enabled",
        },
    ),
    ProviderRules(
        "ollama",
        "rejects `content: null`, even next to calls",
        refuses_null=True,
        messages={"content_type": "invalid message content type: <nil>"},
    ),
    ProviderRules(
        "bedrock",
        "requires ids of at most 64 letters, digits, '_', and '-'; rejects blank `content` next "
        "to calls",
        ids="plain",
        max_id_chars=64,
        refuses_blank=True,
        messages={
            "id_form": "Value at '{where}.toolUseId' failed to satisfy constraint: Member must "
            "satisfy regular expression pattern: [a-zA-Z0-9_-]+",
            "id_long": "Value at '{where}.toolUseId' failed to satisfy constraint: Member must "
            "have length less than or equal to {found}",
            "unanswered": "Expected toolResult blocks at {where}.content for the following Ids: "
            "{found}",
        },
    ),
    ProviderRules(
        "groq",
        "rejects undocumented message fields",
        strict_fields=True,
        messages={
            "field_unknown": "'{where}' : for 'role:assistant' the following must be satisfied"
            "[('{where}' : property '{found}' is unsupported)]"
        },
    ),
    ProviderRules("llama_cpp", "rejects tools with an untyped property", refuses_untyped=True),
    ProviderRules(
        "cerebras",
        "rejects `parallel_tool_calls`, a named tool choice, and message fields other than the "
        "documented ones and its own `reasoning`",
        strict_fields=True,
        known_fields=("reasoning",),
        reasoning_field="reasoning",
        refused_options=("parallel_tool_calls",),
        refused_choices=("named",),
        error_format="cerebras",
        messages={
            "option_refused": "{found}=False is not supported by this model.",
            "field_unknown": "{where}.assistant.{found}: property '{where}.assistant.{found}' is "
            "unsupported",
        },
    ),
    ProviderRules(
        "azure",
        "rejects ids over 40 characters and undocumented message fields",
        max_id_chars=40,
        strict_fields=True,
    ),
    ProviderRules(
        "xai",
        "rejects `content: null`, even next to calls, and penalties",
        refuses_null=True,
        reasoning_field="reasoning_content",
        refused_options=("presence_penalty", "frequency_penalty"),
        error_format="xai",
        messages={
            "content_null": "Invalid request content: Each message must have at least one content "
            "element.",
            "content_empty": "Invalid request content: Each message must have at least one content "
            "element.",
            "option_refused": "Argument not supported on this model: {found}",
        },
    ),
    ProviderRules(
        "sambanova",
        "rejects a list of parts as `content`",
        refuses_parts=True,
        messages={
            "content_parts": "Unable to tokenize message with status code 400: Invalid 'content' "
            "type. Expected one of: ['str'], got list."
        },
    ),
    ProviderRules(
        "nebius",
        "rejects the role `developer`",
        refused_roles=("developer",),
        reasoning_field="reasoning_content",
    ),
    ProviderRules("deepinfra", "rejects a named tool choice", refused_choices=("named",)),
    ProviderRules(
        "moonshot",
        "requires nonempty `reasoning_content` in turns with calls and typed schemas, with no "
        "`type` next to `anyOf`; rejects forced tool calls and empty turns",
        reasoning_field="reasoning_content",
        requires_reasoning=True,
        requires_nonblank_reasoning=True,
        refuses_untyped=True,
        refuses_type_beside_any_of=True,
        refused_choices=("required", "named"),
        error_format="moonshot",
        messages={
            "reasoning_missing": "thinking is enabled but reasoning_content is missing in "
            "assistant tool call message at {where}",
            "choice_refused": "tool_choice '{found}' is incompatible with thinking enabled",
            "content_empty": "Invalid request: the message at {where} must not be empty",
            "tool_untyped": "Invalid request: tools.function.parameters is not a valid moonshot "
            "flavored json schema, details: <At path '{where}': type is not defined>",
            "tool_any_of": "Invalid request: tools.function.parameters is not a valid moonshot "
            "flavored json schema, details: <At path '{where}': when using anyOf, type should be "
            "defined in anyOf items instead of the parent schema>",
            "tool_schema": 'tools.function.parameters.type is required and must be "object"',
        },
    ),
    ProviderRules(
        "zai",
        "rejects any `tool_choice` but auto, blank `content` next to calls, a `name`, and a "
        "conversation without a user message",
        refused_fields=("name",),
        reasoning_field="reasoning_content",
        requires_user=True,
        refuses_blank=True,
        refused_choices=("required", "named", "none"),
        error_format="zai",
        messages={
            "choice_refused": "Tool choice must be auto",
            **dict.fromkeys(
                ("user_missing", "content_empty", "orphan", "unanswered", "id_twice"),
                "The messages parameter is illegal. Please check the documentation.",
            ),
            "content_blank": "The prompt parameter was not received normally.",
        },
    ),
    ProviderRules(
        "minimax",
        "rejects blank `content` next to calls and tools without `parameters`",
        requires_parameters=True,
        refuses_blank=True,
        reasoning_field="reasoning_content",
        error_format="minimax",
        messages={
            "tool_parameters": "invalid params, function parameters is empty",
            "content_blank": "invalid params, chat content is empty",
            "content_empty": "invalid params, chat content is empty",
            "arguments_object": "invalid params, invalid function arguments json string, "
            "tool_call_id: {where}",
            "unanswered": "invalid params, tool call and result not match",
            "orphan": "invalid params, tool result's tool id({where}) not found",
        },
    ),
    ProviderRules(
        "dashscope",
        "rejects forced tool calls, `response_format` without the word JSON, and the "
        "role `developer`",
        reasoning_field="reasoning_content",
        requires_json_word=True,
        refused_roles=("developer",),
        refused_choices=("required", "named"),
        error_format="dashscope",
        messages={
            "choice_refused": "The tool_choice parameter does not support being set to required "
            "or object in thinking mode",
            "arguments_object": 'The "function.arguments" parameter of the code model must be in '
            "JSON format. ({where})",
            "orphan": 'messages with role "tool" must be a response to a '
            'preceeding message with "tool_calls".',  # codespell:ignore preceeding
        },
    ),
    ProviderRules(
        "sealed",
        "signs each turn with calls in five places, and requires all signatures unchanged",
        seals_turns=True,
    ),
    ProviderRules(
        "no-parallel",
        "rejects `parallel_tool_calls`, as some reasoning models do with any provider",
        refused_options=("parallel_tool_calls",),
    ),
    ProviderRules(
        "no-required", "rejects forced tool calls", refused_choices=("required", "named")
    ),
    ProviderRules(
        "no-format",
        "rejects `response_format`, like servers without structured output",
        refused_options=("response_format",),
    ),
)
PROVIDER_RULES: Final[dict[str, ProviderRules]] = {each.name: each for each in _ALL}
