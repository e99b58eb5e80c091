"""What particular providers demand of a request beyond the common rules.

Where each rule comes from is in `surecall.settings.provider_sources`.
"""

from typing import Final

from surecall.simulator.violations import ProviderRules

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
        summary="ids of letters, digits, '_' and '-', unique in the whole conversation, no blank "
        "`content` beside calls",
        ids="plain",
        refuses_blank=True,
        words={
            "content_blank": "messages: text content blocks must be non-empty",
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
        thinks_in="reasoning_content",
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
        name="bedrock",
        summary="refuses a blank `content` beside calls, and ids that are long or not plain",
        ids="plain",
        longest_id=64,
        refuses_blank=True,
        words={
            "id_form": "Value at '{where}.toolUseId' failed to satisfy constraint: Member must "
            "satisfy regular expression pattern: [a-zA-Z0-9_-]+",
            "id_long": "Value at '{where}.toolUseId' failed to satisfy constraint: Member must "
            "have length less than or equal to {found}",
            "unanswered": "Expected toolResult blocks at {where}.content for the following Ids: "
            "{found}",
        },
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
        summary="refuses `parallel_tool_calls`, a named tool, and message fields beyond the "
        "documented ones and its own `reasoning`",
        strict_fields=True,
        known_fields=("reasoning",),
        thinks_in="reasoning",
        refused_options=("parallel_tool_calls",),
        refused_choices=("named",),
        error_form="cerebras",
        words={
            "option_refused": "{found}=False is not supported by this model.",
            "field_unknown": "{where}.assistant.{found}: property '{where}.assistant.{found}' is "
            "unsupported",
        },
    ),
    ProviderRules(
        name="azure",
        summary="refuses ids of more than 40 characters, and fields that are not documented",
        longest_id=40,
        strict_fields=True,
    ),
    ProviderRules(
        name="xai",
        summary="refuses `content: null`, also beside calls, and penalties",
        refuses_null=True,
        thinks_in="reasoning_content",
        refused_options=("presence_penalty", "frequency_penalty"),
        error_form="xai",
        words={
            "content_null": "Invalid request content: Each message must have at least one content "
            "element.",
            "content_empty": "Invalid request content: Each message must have at least one content "
            "element.",
            "option_refused": "Argument not supported on this model: {found}",
        },
    ),
    ProviderRules(
        name="sambanova",
        summary="takes text as `content`, but no list of parts",
        refuses_parts=True,
        words={
            "content_parts": "Unable to tokenize message with status code 400: Invalid 'content' "
            "type. Expected one of: ['str'], got list.",
        },
    ),
    ProviderRules(
        name="nebius",
        summary="knows no role `developer`",
        refused_roles=("developer",),
        thinks_in="reasoning_content",
    ),
    ProviderRules(
        name="deepinfra",
        summary="refuses a named tool",
        refused_choices=("named",),
    ),
    ProviderRules(
        name="moonshot",
        summary="wants some `reasoning_content` with every call, and a type in every schema but "
        "beside no `anyOf`; no forced tool, no empty turns",
        thinks_in="reasoning_content",
        wants_reasoning=True,
        wants_some_reasoning=True,
        refuses_untyped=True,
        refuses_type_beside_any_of=True,
        refused_choices=("required", "named"),
        error_form="moonshot",
        words={
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
        name="zai",
        summary="refuses any forced tool, a blank `content` beside calls, a `name`, and a "
        "conversation without a user",
        refused_fields=("name",),
        thinks_in="reasoning_content",
        wants_user=True,
        refuses_blank=True,
        refused_choices=("required", "named", "none"),
        error_form="zai",
        words={
            "choice_refused": "Tool choice must be auto",
            **dict.fromkeys(
                ("user_missing", "content_empty", "orphan", "unanswered", "id_twice"),
                "The messages parameter is illegal. Please check the documentation.",
            ),
            "content_blank": "The prompt parameter was not received normally.",
        },
    ),
    ProviderRules(
        name="minimax",
        summary="refuses a blank `content` beside calls, and a tool without `parameters`",
        wants_parameters=True,
        refuses_blank=True,
        thinks_in="reasoning_content",
        error_form="minimax",
        words={
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
        name="dashscope",
        summary="refuses a forced tool while it thinks, a form without the word JSON, and the "
        "role `developer`",
        thinks_in="reasoning_content",
        wants_format_word=True,
        refused_roles=("developer",),
        refused_choices=("required", "named"),
        error_form="dashscope",
        words={
            "choice_refused": "The tool_choice parameter does not support being set to required "
            "or object in thinking mode",
            "arguments_object": 'The "function.arguments" parameter of the code model must be in '
            "JSON format. ({where})",
            "orphan": 'messages with role "tool" must be a response to a '
            'preceeding message with "tool_calls".',  # codespell:ignore preceeding
        },
    ),
    ProviderRules(
        name="sealed",
        summary="seals each turn with calls in five places, and wants all of them back unchanged",
        seals_turns=True,
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
