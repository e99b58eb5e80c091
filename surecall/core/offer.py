"""What the next request offers: all tools, the few that may come next, or none.

an unmet need, on the step `require`     ─► the tools that make progress, and a call is demanded
an unmet need, and a call only repeats   ─► the tools that make progress
the contract is met                      ─► no tools: only the answer is wanted
an empty answer after calls, asked again ─► no tools, unless the config says otherwise
anything else                            ─► the run's tools, as the config offers them

Of all this, only what may come now: a tool that comes later in the contract is not on offer.
"""

from collections.abc import Container, Iterator
from typing import Final, TypeGuard

from surecall.core.bound_forms import bound_forms, is_described
from surecall.core.described_choices import told
from surecall.core.obligations import Obligation, is_repetition, progress, unmet
from surecall.core.repetition import may_repeat
from surecall.core.seen import returned, seen
from surecall.core.state import OBJECTION, Run, once_per_run
from surecall.core.typed_answers import binding, instructions
from surecall.core.ways_out import is_hopeless, way_out
from surecall.settings.config import REQUIRE, ToolUseMode
from surecall.values.types import JSON, Message, Plan, Refusal, ToolCall, ToolResult, ToolSpec, User
from surecall.wire.content_parts import text_of
from surecall.wire.messages import chosen_name, encode, named_choice

MOST_WRITES: Final = 5
_ANSWER_IT: Final = (
    "Write the answer. Tell what the request asks to be told; if it says which words to answer "
    "with, use exactly these."
)
MOST_OF_A_WRITE: Final = 120
MOST_ASKED: Final = 400


def plan(run: Run) -> Plan:
    """Return the next request."""
    need = unmet(run)
    tools, choice = _offer(run, need)
    options = run.options
    if not tools:
        # OpenAI refuses the flag in a request without tools.
        options = {key: options[key] for key in options if key != "parallel_tool_calls"}
    elif run.config.endpoint.choice_temperature is not None and _chooses(run, tools):
        options = options | {"temperature": run.config.endpoint.choice_temperature}
    known = () if run.config.tool_use_mode is ToolUseMode.DISABLED else _described(run)
    system = instructions(run, known)
    messages = run.messages if system is None else (system, *run.messages)
    ahead = len(messages) - len(run.messages)
    return Plan(
        run.model,
        messages,
        tools,
        choice,
        binding(run, known, tools),
        options=options,
        known_tools=known,
        may_answer=_may_answer(run, need) and not _demands(choice),
        way_out=way_out(run),
        reminder=closing_words(run) or "\n".join(_reminders(run, need, tools)),
        origin=run.origin,
        foreign=(run.start + ahead, run.since + ahead) if run.since else (0, 0),
        output=None if run.output is None else run.output.schema,
    )


def _described(run: Run) -> tuple[ToolSpec, ...]:
    """Return the tools that a protocol describes in words.

    A schema says what is on offer, so that the words can stay the same; words alone must say it.
    """
    later = progress(run).later if run.config.call_protocol == "prompted" else {}
    return tuple(spec for spec in run.tools if spec.name not in later) if later else run.tools


def _may_answer(run: Run, need: Obligation | None) -> bool:
    """Whether an answer is welcome: it would count, or no better reply is to be expected."""
    return need is None or not need.demandable or is_hopeless(run)


def _demands(choice: str | JSON | None) -> bool:
    return choice == "required" or chosen_name(choice) is not None


def _reminders(run: Run, need: Obligation | None, tools: tuple[ToolSpec, ...]) -> Iterator[str]:
    """Say what is missing, and repeat what was asked for where there is something to choose."""
    if need is not None and (missing := _reminder(run, need)):
        yield missing
    if _chooses(run, tools) and (asked := _asked(run)):
        yield asked


def _chooses(run: Run, tools: tuple[ToolSpec, ...]) -> bool:
    """Whether a value must be chosen among several; only a guided reply is bound like that."""
    return run.config.call_protocol == "guided" and any(map(is_described, tools))


def _reminder(run: Run, need: Obligation) -> str:
    """Say what is missing to a model that makes no progress.

    It repeats itself, or called the right tool, but not as the contract wants it.
    """
    results = [item for item in run.tail if isinstance(item, ToolResult)]
    stuck = any(
        is_repetition(result) or (result.ok and result.name in need.tools) for result in results
    )
    return f"Not finished yet. Still missing: {need.wanted}." if stuck else ""


def closing_words(run: Run) -> str:
    """Repeat what was written and what was asked for, before the answer to a contract that is met.

    In words only: a model that is called natively sees its own calls well enough.
    """
    config = run.config
    if (
        not config.endpoint.closing_reminder
        or config.call_protocol == "native"
        or not finalising(run)
    ):
        return ""
    made = [
        _written(run, call, result)
        for call, result in run.answered_calls
        if result.ok and result.executed and not may_repeat(run, call)
    ]
    asked = _asked(run)
    if not made or not asked:
        return ""
    return "\n".join(["This was done:", *made[-MOST_WRITES:], asked, _ANSWER_IT])


def _written(run: Run, call: ToolCall, result: ToolResult) -> str:
    """Tell of a write: with what it was made, what came of it, and what its values stand for."""
    said = encode(returned(result)).decode()[:MOST_OF_A_WRITE]
    parts = [f"- {call.name} {encode(call.arguments).decode()[:MOST_OF_A_WRITE]}: {said}"]
    for name, source in call.grounds.items():
        rows = [each.values for each in seen(run).records if each.source == source]
        if words := told(name, call.arguments[name], rows):
            parts.append(f"{call.arguments[name]} is {words}")
    return "; ".join(parts)


def _asked(run: Run) -> str:
    """Repeat the user's last request."""
    asked = [text_of(item.content) for item in run.messages if _is_asked(item)]
    return f'The request was: "{asked[-1][:MOST_ASKED]}"' if asked else ""


def _is_asked(item: Message) -> TypeGuard[User]:
    return isinstance(item, User) and not item.nudge


@once_per_run
def offers_tools(run: Run) -> bool:
    """Whether calls are welcome in the coming turn."""
    if run.config.tool_use_mode is ToolUseMode.DISABLED or not run.tools or finalising(run):
        return False
    # Before any call there is nothing yet that an answer without tools could be about.
    off = run.config.fix_empty_final_disable_tools and run.called
    return not any(
        isinstance(message, Refusal) or (off and isinstance(message, User) and message.asks)
        for message in run.tail
    )


def finalising(run: Run) -> bool:
    """Whether the contract is met, and only the answer is wanted."""
    contract = run.config.contract
    if contract is None or not contract.then_finalise or unmet(run) is not None:
        return False
    # An application that objects to an answer may want more to be done.
    return not any(isinstance(item, User) and item.rung == OBJECTION for item in run.own)


@once_per_run
def open_tools(run: Run) -> tuple[ToolSpec, ...]:
    """Return the tools that may be called now, each bound to the values that it may be given.

    Everything else narrows these down, and nothing widens them again. Only a guided reply can be
    bound: elsewhere tools are sent as they are, so that a provider can keep them in its cache, and
    what a call holds is checked when it comes.
    """
    later = progress(run).later
    tools = tuple(spec for spec in run.tools if spec.name not in later)
    if run.config.call_protocol != "guided":
        return run.tools if len(tools) == len(run.tools) else tools
    bound = tuple(form for spec in tools for form in bound_forms(run, spec))
    return run.tools if bound == run.tools else bound


def _offer(run: Run, need: Obligation | None) -> tuple[tuple[ToolSpec, ...], str | JSON | None]:
    if offers_tools(run):
        return _demanded(run, need) or (_useful(run, need), run.config.tool_choice)
    # Some routes refuse tool messages in a request without tools: forbid instead of omit.
    # That is for the request for a final answer, not for a route that refused the tools.
    forbids = run.config.endpoint.tools_off_style == "tool_choice_none"
    if forbids and run.called and not isinstance(run.last, Refusal):
        return run.tools, "none"
    return (), None


def _useful(run: Run, need: Obligation | None) -> tuple[ToolSpec, ...]:
    """Leave out the tools that the model only repeats, if another call is missing."""
    repeated = {
        item.name for item in run.tail if isinstance(item, ToolResult) and is_repetition(item)
    }
    tools = open_tools(run)
    if need is not None and _only_way_out(run, need, tools):
        return ()
    if need is None or not repeated or repeated & set(need.tools):
        return tools
    return _among(run, need.tools)


def _only_way_out(run: Run, need: Obligation, tools: tuple[ToolSpec, ...]) -> bool:
    """Whether everything that could bring what is missing has failed for good.

    Only a guided reply can be bound like that; then there is nothing left to try.
    """
    left = {spec.name for spec in tools}
    failed = {result.name for result in run.results if result.executed and not result.retry}
    guided = run.config.call_protocol == "guided" and bool(way_out(run))
    return guided and all(name in failed and name not in left for name in need.tools)


def _among(run: Run, names: Container[str]) -> tuple[ToolSpec, ...]:
    """Return those of some tools that may be called now; if none may, what may come before."""
    tools = open_tools(run)
    return tuple(spec for spec in tools if spec.name in names) or tools


def _demanded(run: Run, need: Obligation | None) -> tuple[tuple[ToolSpec, ...], str | JSON] | None:
    """Narrow the offer to the tools that make progress, on the step that demands a call."""
    last = run.last
    if need is None or not isinstance(last, User) or last.rung != REQUIRE:
        return None
    tools = _among(run, need.tools)
    named = len({spec.name for spec in tools}) == 1 and run.config.endpoint.demand_by_name
    return tools, named_choice(tools[0].name) if named else "required"
