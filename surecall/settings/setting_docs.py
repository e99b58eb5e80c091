"""What each setting of a run does, in one sentence. The reference prints it beside the default."""

HELP: dict[str, str] = {
    "tool_use_mode": "`enforced`: at least one call must be made; `relaxed`: calls are welcome; "
    "`disabled`: tools are never sent.",
    "tool_failure_policy": "In `enforced` mode: `fatal` fails the run when a tool failure was not "
    "made up for; `tolerated` asks for one success.",
    "tool_allowlist": "Only these tools are sent and may run; null means all, an empty list none.",
    "tool_denylist": "These tools are neither sent nor run. Wins over the allow list.",
    "tool_choice": "Sent as it is while tools are on offer.",
    "policy_error_mode": "What happens when the application's tool policy raises: `deny`, `allow` "
    "or `raise`.",
    "call_protocol": "How calls are asked for: `native` uses the endpoint's tools; `guided` binds "
    "the reply to a JSON schema of the calls that are allowed now; `prompted` describes a form in "
    "words.",
    "contract": "What must have succeeded before a final answer counts: `all_of`, `any_of`, "
    "`in_order` list tools, each with arguments if they matter; null demands nothing.",
    "final_ladder": "How an answer that comes too early is met, step by step: `remind` says what "
    "is missing, `require` also demands a call of that. After the last step the run fails.",
    "demand_by_name": "Where one tool is left to demand, name it in `tool_choice`; off for "
    "endpoints that refuse or ignore that, it is `required` with this tool alone.",
    "fix_empty_final": "Ask once more when the answer after tool calls is empty; without it a "
    "blank answer is returned, with the stop reason `empty_final`.",
    "fix_empty_final_user_text": "The words of that request.",
    "fix_empty_final_disable_tools": "Whether that request goes out without tools.",
    "tools_off_style": "How tools are switched off for a turn: `omit` them, or send them with "
    "`tool_choice_none` for routes that refuse tool messages without tools.",
    "max_turns": "How many replies a run may take.",
    "max_tool_args_bytes": "Larger arguments are refused before the tool runs.",
    "max_tool_output_bytes": "Larger results are replaced by a small failure, which says that the "
    "tool ran.",
    "max_tool_calls_per_turn": "How many calls of one reply may run; null means all, or one where "
    "`parallel_tool_calls` is false.",
    "max_concurrent_tools": "How many tools may run at the same time, where "
    "`parallel_tool_calls` is true; otherwise calls run one after the other.",
    "max_total_tool_calls": "How many calls may run in one run.",
    "max_unknown_tool_calls": "How many calls of tools that do not exist a run survives.",
    "repeat_note_at": "The same call this often in a row runs, with a note to the model.",
    "repeat_block_at": "The same call this often in a row does not run.",
    "repeat_stop_at": "The same call this often in a row ends the run.",
    "block_repeated_success": "A call that has just succeeded does not run a second time.",
    "tool_timeout_s": "Seconds a tool may take, unless it has a timeout of its own.",
    "run_deadline_s": "Seconds a run may take.",
    "max_tool_definitions_count": "How many tools may be offered.",
    "max_tool_definitions_bytes": "How large their definitions may be together.",
    "validate_arguments": "Check arguments against the tool's schema before it runs.",
    "text_calls": "Whether calls that came as text are read: `marked` believes marks that mean "
    "nothing else, `any` also naked JSON and the like, for known tools.",
    "strip_thinking": "Keep what stands in `<think>` and its kind out of the answer; it goes to "
    "the reply's reasoning.",
    "coerce_arguments": "Fit arguments to the tool's schema before they are checked, where that "
    'loses nothing: `"2"` becomes 2 for an integer, a null for an optional is dropped.',
    "decode_html_entities": "Read `&amp;` and its kind in arguments as the characters they stand "
    "for, before anything checks them. Wrong for tools that take HTML.",
    "stringify_containers": "Write an object or a list as JSON text where the schema wants a "
    "string.",
    "default_max_tokens": "Sent as `max_tokens` where no other option limits a reply; null sends "
    "nothing.",
    "request_overrides": "Merged into every request body. Keys that the runner owns are refused.",
    "unsupported_options": "Options that are planned but not sent, for endpoints that refuse them.",
    "fallback_retry_count": "In `relaxed` mode: how often a request that was refused because of "
    "its tools is sent again without them.",
    "keep_text_beside_calls": "Send text that stood beside calls back to the model.",
    "echo_fields": "Fields of an assistant message, such as reasoning, that are sent back as they "
    "came.",
    "echo_call_fields": "Whether unknown fields of a call, such as signatures, are sent back.",
    "short_call_ids": "Send call ids of nine letters and digits, the only ones Mistral accepts.",
    "name_tool_messages": "Send the tool's name with each tool message, which Gemini demands.",
    "bridge_user_after_tool": "Put a short assistant message between a tool message and a user "
    "message, for endpoints that refuse that order.",
    "message_transforms": "Applied to each outgoing message, in order.",
    "tool_transforms": "Applied to each outgoing tool definition.",
    "body_transforms": "Applied to each incoming answer as a whole.",
    "response_transforms": "Applied to each incoming assistant message.",
    "tool_call_transforms": "Applied to each incoming call.",
    "tool_result_transforms": "Applied to each tool result before it is sent.",
    "event_context_keys": "Keys of the run's context that may appear in events.",
}
