"""The next request: which tools it exposes, and whether it requires a call or an answer."""

from collections.abc import Container, Iterator
from typing import Final, TypeGuard

from surecall.core.cut_calls import has_refused_limit, raise_limit
from surecall.core.giving_up import give_up_reasons, is_hopeless, is_safe_to_rerun
from surecall.core.guided.call_forms import call_forms, describe_value, has_value_choice
from surecall.core.obligations import Obligation, contract_progress, is_repetition, unmet_obligation
from surecall.core.observed_values import observed_values, returned_data
from surecall.core.state import OBJECTION, Run, once_per_run
from surecall.core.tool_search import exposed_specs, required_names
from surecall.core.typed_answers import answer_response_format, system_message
from surecall.settings.config import REQUIRE, ToolUseMode
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    Refusal,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from surecall.wire.chat_format import chosen_tool_name, encode, tool_choice_for
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import CALLS_EXPECTED, finish_kind

# Announced calls: a reply that announces a call and has none is never an answer.
#
# It announces one by its finish reason, or by consisting only of a call as text that could not run.
# The prompt that follows is in `premature_answers`.


_MOST_OF_A_NAME: Final = 64
_UNREADABLE: Final = "it cannot be parsed as a complete call"
_REFUSED: Final = {
    "own_words": "it repeats text from a tool result or from the user",
    "marked": "its form is not only that of a call",
    "last_words": "other text follows it",
    "only_way": "the model has made native calls before",
    "not_destructive": "the tool is destructive",
}


def missing_call_reason(run: Run, reply: Assistant) -> str:
    """Return why the newest reply is no answer: it announces a call and has none. Else blank.

    Where no tools were exposed, no call was possible and none is missing.
    """
    if reply.calls:
        return ""
    reason = ""
    if finish_kind(reply.finish_reason) in CALLS_EXPECTED:
        reason = f"the reply ended with {reply.finish_reason!r} but contains no call"
    elif refused := next((claim for claim in reply.claims if claim.alone), None):
        called = f"a call of {refused.name[:_MOST_OF_A_NAME]}" if refused.name else "a call"
        why = _REFUSED.get(refused.rule, _UNREADABLE)
        reason = f"the reply contains only {called} written as text, which did not run: {why}"
    position = len(run.messages) - len(run.tail) - 1
    return reason if reason and exposes_tools(run.until(position)) else ""


# The exposed tools: all, those that make progress, or none.
#
# an unmet need, on the step `require`   ─► the tools that make progress, and a call is required
# an unmet need, and a repeated call     ─► the tools that make progress
# the contract is met                    ─► no tools: only the answer is wanted
# re-prompted after an empty answer      ─► no tools, unless the config says otherwise
# anything else                          ─► all tools of the run
#
# Tools that come later in the contract's order are never exposed. If there are more tools than a
# request may have, all of this applies to the search and the tools that `tool_search` selects.

MAX_WRITES: Final = 5
_ANSWER_PROMPT: Final = (
    "Write the answer. Tell what the request asks to be told; if it says which words to answer "
    "with, use exactly these."
)
MAX_WRITE_CHARS: Final = 120
MAX_REQUEST_CHARS: Final = 400


def next_plan(run: Run) -> Plan:
    """Return the next request."""
    need = unmet_obligation(run)
    tools, choice = _tools_and_choice(run, need)
    options = raise_limit(run, run.options)
    if not tools:
        # OpenAI refuses the flag in a request without tools.
        options = {key: options[key] for key in options if key != "parallel_tool_calls"}
    elif run.config.endpoint.choice_temperature is not None and _has_value_choice(run, tools):
        options = options | {"temperature": run.config.endpoint.choice_temperature}
    known = () if run.config.tool_use_mode is ToolUseMode.DISABLED else _known_tools(run)
    system = system_message(run, known)
    messages = run.messages if system is None else (system, *run.messages)
    ahead = len(messages) - len(run.messages)
    return Plan(
        run.model,
        messages,
        tools,
        choice,
        answer_response_format(run, known, tools),
        options=options,
        known_tools=known,
        may_answer=_may_answer(run, need) and not _requires_call(choice),
        give_up_reasons=give_up_reasons(run),
        reminder=closing_reminder(run) or "\n".join(_reminders(run, need, tools)),
        origin=run.origin,
        other_model_span=(run.start + ahead, run.since + ahead) if run.since else (0, 0),
        output=None if run.output is None else run.output.schema,
        required_tools=required_names(run),
    )


def _known_tools(run: Run) -> tuple[ToolSpec, ...]:
    """Return the tools that a text protocol describes in its prompt.

    A guided reply is limited by its schema, so the prompt can stay constant. A prompted one is not:
    its prompt omits the tools whose turn has not come.
    """
    later = contract_progress(run).later if run.config.call_protocol == "prompted" else {}
    specs = exposed_specs(run)
    return tuple(spec for spec in specs if spec.name not in later) if later else specs


def _may_answer(run: Run, need: Obligation | None) -> bool:
    """Whether an answer is allowed: it would count, or no better reply is to be expected."""
    return need is None or not need.demandable or is_hopeless(run)


def _requires_call(choice: str | JSON | None) -> bool:
    return choice == "required" or chosen_tool_name(choice) is not None


def _reminders(run: Run, need: Obligation | None, tools: tuple[ToolSpec, ...]) -> Iterator[str]:
    """Yield what is missing, and the user's request where values must be chosen."""
    if need is not None and (missing := _missing_reminder(run, need)):
        yield missing
    if _has_value_choice(run, tools) and (request := _request_reminder(run)):
        yield request


def _has_value_choice(run: Run, tools: tuple[ToolSpec, ...]) -> bool:
    """Whether the reply must choose among observed values; only guided replies do."""
    return run.config.call_protocol == "guided" and any(map(has_value_choice, tools))


def _missing_reminder(run: Run, need: Obligation) -> str:
    """Return what is missing, for a model that makes no progress.

    It repeats calls, or called the right tool with arguments that do not meet the contract.
    """
    results = [item for item in run.tail if isinstance(item, ToolResult)]
    stuck = any(
        is_repetition(result) or (result.ok and result.name in need.tools) for result in results
    )
    return f"Not finished yet. Still missing: {need.wanted}." if stuck else ""


def closing_reminder(run: Run) -> str:
    """Return the writes made and the request, before the final answer of a fulfilled contract.

    Only for text protocols: with native calls the model sees its own calls.
    """
    config = run.config
    if (
        not config.endpoint.closing_reminder
        or config.call_protocol == "native"
        or not is_finalizing(run)
    ):
        return ""
    writes = [
        _write_summary(run, call, result)
        for call, result in run.answered_calls
        if result.ok and result.executed and not is_safe_to_rerun(run, call)
    ]
    request = _request_reminder(run)
    if not writes or not request:
        return ""
    return "\n".join(["This was done:", *writes[-MAX_WRITES:], request, _ANSWER_PROMPT])


def _write_summary(run: Run, call: ToolCall, result: ToolResult) -> str:
    """Describe a write: its arguments, its result, and what its values refer to."""
    result_text = encode(returned_data(result)).decode()[:MAX_WRITE_CHARS]
    parts = [f"- {call.name} {encode(call.arguments).decode()[:MAX_WRITE_CHARS]}: {result_text}"]
    for name, source in call.grounds.items():
        rows = [each.values for each in observed_values(run).rows if each.source == source]
        if description := describe_value(name, call.arguments[name], rows):
            parts.append(f"{call.arguments[name]} is {description}")
    return "; ".join(parts)


def _request_reminder(run: Run) -> str:
    """Quote the user's last request."""
    requests = [text_of(item.content) for item in run.messages if _is_user_request(item)]
    return f'The request was: "{requests[-1][:MAX_REQUEST_CHARS]}"' if requests else ""


def _is_user_request(item: Message) -> TypeGuard[User]:
    return isinstance(item, User) and not item.nudge


def exposes_tools(run: Run) -> bool:
    """Whether calls are allowed in the next reply."""
    return _sends_tools(run) and not _forbids_calls(run)


def _forbids_calls(run: Run) -> bool:
    """Whether the next request sets `tool_choice: none`, as in the config."""
    return run.config.tool_choice == "none" and _required_tools(run, unmet_obligation(run)) is None


@once_per_run
def _sends_tools(run: Run) -> bool:
    if run.config.tool_use_mode is ToolUseMode.DISABLED or not run.tools or is_finalizing(run):
        return False
    # Before any call, an answer without tools would have no results to report.
    off = run.config.fix_empty_final_disable_tools and run.has_called_tools
    return not any(
        (isinstance(message, Refusal) and not has_refused_limit(run))
        or (off and isinstance(message, User) and message.is_final_request)
        for message in run.tail
    )


def is_finalizing(run: Run) -> bool:
    """Whether the contract is met, and only the answer is wanted."""
    contract = run.config.contract
    if contract is None or not contract.then_finalise or unmet_obligation(run) is not None:
        return False
    # An application that objects to an answer may want more calls.
    return not any(isinstance(item, User) and item.rung == OBJECTION for item in run.own_messages)


@once_per_run
def callable_tools(run: Run) -> tuple[ToolSpec, ...]:
    """Return the tools that may be called now, restricted to the values that they may be given.

    Later steps only narrow this list. Only guided replies can be restricted to values; elsewhere
    tools are sent unchanged, so that providers can cache them, and calls are checked on arrival.
    """
    later = contract_progress(run).later
    specs = exposed_specs(run)
    tools = tuple(spec for spec in specs if spec.name not in later)
    if run.config.call_protocol != "guided":
        return specs if len(tools) == len(specs) else tools
    bound = tuple(form for spec in tools for form in call_forms(run, spec))
    return specs if bound == specs else bound


def _tools_and_choice(
    run: Run, need: Obligation | None
) -> tuple[tuple[ToolSpec, ...], str | JSON | None]:
    """Return the tools of the next request, and its `tool_choice`."""
    if _sends_tools(run):
        return _required_tools(run, need) or (_useful_tools(run, need), run.config.tool_choice)
    # Some endpoints reject tool messages in a request without tools: forbid calls instead.
    # That does not apply to an endpoint that rejected the tools themselves.
    forbids = run.config.endpoint.tools_off_style == "tool_choice_none"
    has_calls = any(reply.calls for reply in run.replies)
    if forbids and has_calls and not isinstance(run.last_message, Refusal):
        return exposed_specs(run), "none"
    return (), None


def _useful_tools(run: Run, need: Obligation | None) -> tuple[ToolSpec, ...]:
    """Return the callable tools, without those that the model repeats while another is missing."""
    repeated = {
        item.name for item in run.tail if isinstance(item, ToolResult) and is_repetition(item)
    }
    tools = callable_tools(run)
    if need is not None and _must_give_up(run, need, tools):
        return ()
    if need is None or not repeated or repeated & set(need.tools):
        return tools
    return _callable_among(run, need.tools)


def _must_give_up(run: Run, need: Obligation, tools: tuple[ToolSpec, ...]) -> bool:
    """Whether every tool that could make progress has failed permanently.

    Then a guided reply can only give up.
    """
    left = {spec.name for spec in tools}
    failed = {result.name for result in run.results if result.executed and not result.retry}
    guided = run.config.call_protocol == "guided" and bool(give_up_reasons(run))
    return guided and all(name in failed and name not in left for name in need.tools)


def _callable_among(run: Run, names: Container[str]) -> tuple[ToolSpec, ...]:
    """Return the named tools that may be called now; all callable ones if none of them may."""
    tools = callable_tools(run)
    return tuple(spec for spec in tools if spec.name in names) or tools


def _required_tools(
    run: Run, need: Obligation | None
) -> tuple[tuple[ToolSpec, ...], str | JSON] | None:
    """Return the tools that make progress and a `tool_choice`, on the step that requires a call."""
    last = run.last_message
    if need is None or not isinstance(last, User) or last.rung != REQUIRE:
        return None
    tools = _callable_among(run, need.tools)
    named = len({spec.name for spec in tools}) == 1 and run.config.endpoint.demand_by_name
    return tools, tool_choice_for(tools[0].name) if named else "required"
