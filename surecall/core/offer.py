"""What the next request offers: all tools, the few that may come next, or none.

a debt, on the step `require`   ─► the tools that would bring the run on, and a call is demanded
a debt, and a call only repeats ─► the tools that would bring the run on
the contract is met             ─► no tools, the answer alone is wanted
an empty answer asked for again ─► no tools, unless the config says otherwise
anything else                   ─► the run's tools, as the config offers them
"""

from surecall.core.obligations import Debt, is_hopeless, owed
from surecall.core.state import OBJECTION, Run
from surecall.settings.config import REQUIRE, ToolUseMode
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Plan, Refusal, ToolResult, ToolSpec, User
from surecall.wire.messages import chosen_name, named_choice


def plan(run: Run) -> Plan:
    """Return the next request."""
    debt = owed(run)
    tools, choice = _offer(run, debt)
    options = run.options
    if not tools:
        # OpenAI refuses the flag in a request without tools.
        options = {key: options[key] for key in options if key != "parallel_tool_calls"}
    messages = run.messages if run.system is None else (run.system, *run.messages)
    known = () if run.config.tool_use_mode is ToolUseMode.DISABLED else run.tools
    return Plan(
        run.model,
        messages,
        tools,
        choice,
        options=options,
        known_tools=known,
        may_answer=_may_answer(run, debt) and not _demands(choice),
        reminder="" if debt is None else _reminder(run, debt),
    )


def _may_answer(run: Run, debt: Debt | None) -> bool:
    """Whether an answer is welcome: it would count, or nothing better is to be expected."""
    return debt is None or not debt.demandable or is_hopeless(run)


def _demands(choice: str | JSON | None) -> bool:
    return choice == "required" or chosen_name(choice) is not None


def _reminder(run: Run, debt: Debt) -> str:
    """Say what is missing to a model that goes round in circles.

    It repeats itself, or has done what it was to do, but not as the contract wants it.
    """
    results = [item for item in run.tail if isinstance(item, ToolResult)]
    stuck = any(
        ErrorCode.REPEATED_CALL in result.error_codes or (result.ok and result.name in debt.tools)
        for result in results
    )
    return f"Not finished yet. Still missing: {debt.wanted}." if stuck else ""


def offers_tools(run: Run) -> bool:
    """Whether calls are welcome in the coming turn."""
    if run.config.tool_use_mode is ToolUseMode.DISABLED or not run.tools or finalising(run):
        return False
    off = run.config.fix_empty_final_disable_tools
    return not any(
        isinstance(message, Refusal) or (off and isinstance(message, User) and message.asks)
        for message in run.tail
    )


def finalising(run: Run) -> bool:
    """Whether the contract is met, and nothing but the answer is wanted any more."""
    contract = run.config.contract
    if contract is None or not contract.then_finalise or owed(run) is not None:
        return False
    # Whoever objects to an answer may want more to be done.
    return not any(isinstance(item, User) and item.rung == OBJECTION for item in run.own)


def _offer(run: Run, debt: Debt | None) -> tuple[tuple[ToolSpec, ...], str | JSON | None]:
    if offers_tools(run):
        return _demanded(run, debt) or (_useful(run, debt), run.config.tool_choice)
    # Some routes refuse tool messages in a request without tools: forbid instead of omit.
    # That is for the request for a final answer, not for a route that refused the tools.
    forbids = run.config.tools_off_style == "tool_choice_none"
    if forbids and run.called and not isinstance(run.last, Refusal):
        return run.tools, "none"
    return (), None


def _useful(run: Run, debt: Debt | None) -> tuple[ToolSpec, ...]:
    """Leave out what the model only repeats, where something else is missing."""
    repeated = {
        item.name
        for item in run.tail
        if isinstance(item, ToolResult) and ErrorCode.REPEATED_CALL in item.error_codes
    }
    if debt is None or not repeated or repeated & set(debt.tools):
        return run.tools
    return tuple(spec for spec in run.tools if spec.name in debt.tools) or run.tools


def _demanded(run: Run, debt: Debt | None) -> tuple[tuple[ToolSpec, ...], str | JSON] | None:
    """Narrow the offer to what may come next, where the ladder has come to demand a call."""
    last = run.last
    if debt is None or not isinstance(last, User) or last.rung != REQUIRE:
        return None
    tools = tuple(spec for spec in run.tools if spec.name in debt.tools) or run.tools
    named = len(tools) == 1 and run.config.demand_by_name
    return tools, named_choice(tools[0].name) if named else "required"
