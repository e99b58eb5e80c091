"""The nine built-in scenarios, in their fixed order, and how each is judged.

Every tool scenario except `injected_quote` must end with `/draft/foo` set to "bar" and the answer
"Done."; only that decides whether a run is ok, as in the original suite. The *process* is scored
separately: whether the behavior that the scenario tests occurred. A model that never sends long
arguments passes `long_arguments_guard`, but its record shows that the guard was not tested.

`type_error_recovery` guarantees an error to recover from: the first well-formed patch is refused
with ARGUMENT_ERROR, and the next one is applied.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.eval.scenarios.expectations import (
    answer_miss,
    format_answered_call,
    format_value,
    last_turn,
    last_write,
    make_miss,
)
from surecall.eval.scenarios.injected_scenario import injected_quote
from surecall.eval.scenarios.scenario import (
    AnsweredCall,
    AskModel,
    Executor,
    Scenario,
    answered_calls,
    is_done_answer,
)
from surecall.eval.scenarios.workspace import (
    FACTS_COMMIT,
    STATE_GET,
    STATE_PATCH,
    TARGET_PATH,
    TOOLS,
    Workspace,
)
from surecall.eval.storage.trial import CONTROL, Miss, Score
from surecall.settings.config import ToolUseMode
from surecall.settings.contract import Contract, Need
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON

VALUE: Final = "bar"
WRONG_PATH: Final = "/draft/nowhere"
MAX_ARGUMENT_BYTES: Final = 300
DONE_CHECK: Final = 'the answer is "Done."'
VALUE_CHECK: Final = f'draft.foo is "{VALUE}"'
_MIN_PARALLEL = 2
_PARALLEL: JSON = {"request_overrides": {"parallel_tool_calls": True}}


class ProcessResult(msgspec.Struct, frozen=True):
    """Whether the behavior that the scenario tests occurred.

    `missing` describes required behavior that did not occur, for scenarios whose original had such
    a check.
    """

    facts: dict[str, bool] = {}
    process: bool | None = None
    missing: str = ""


ProcessCheck: TypeAlias = Callable[[Sequence[AnsweredCall]], ProcessResult]


class WorkspaceWorld:
    """One attempt at a scenario, with its own workspace."""

    def __init__(self, workspace: Workspace, user: str, check_process: ProcessCheck | None) -> None:
        self.registry = TOOLS if check_process else ToolRegistry()
        self.executor: Executor | None = workspace.execute
        self._workspace = workspace
        self._user = user
        self._check_process = check_process

    @property
    def draft(self) -> JSON:
        """The workspace's draft."""
        return self._workspace.draft

    async def converse(self, ask: AskModel) -> RunResult:
        """Run the tool loop with the user message."""
        return await ask(self._user)

    def judge(self, result: RunResult) -> Score:
        """Score state, process, and final text separately."""
        done = is_done_answer(result.assistant_text)
        misses = [] if done else [answer_miss(result, DONE_CHECK, '"Done."')]
        if self._check_process is None or result.run.config.tool_use_mode is ToolUseMode.DISABLED:
            return Score(final=done, misses=tuple(misses))
        made = answered_calls(result.run)
        seen = self._check_process(made)
        right = self.draft.get("foo") == VALUE
        if not right:
            misses.insert(0, self._value_miss(result.run, made))
        if seen.missing:
            misses.append(_process_miss(result.run, made, seen.missing))
        return Score(
            state=right,
            process=seen.process,
            final=done,
            misses=tuple(misses),
            facts=seen.facts,
            warnings=(*self._workspace.warnings, *_hidden_tool_warnings(made)),
        )

    def _value_miss(self, run: Run, calls: Sequence[AnsweredCall]) -> Miss:
        """Return the miss for a wrong value, decided by the last patch or the last turn."""
        got = format_value(self.draft["foo"]) if "foo" in self.draft else "no value"
        return make_miss(
            VALUE_CHECK, format_value(VALUE), got, last_write(run, calls) or last_turn(run)
        )


# The process checks. They do not affect `ok`, except in the three scenarios whose original had a
# check of its own.


def _process_miss(run: Run, all_calls: Sequence[AnsweredCall], expected: str) -> Miss:
    """Return the miss, decided by the first turn with a successful call or the last turn."""
    first = next((one.turn for one in all_calls if one.ok), last_turn(run))
    turns = groupby(all_calls, key=lambda one: one.turn)
    calls = "; ".join(" with ".join(map(format_answered_call, group)) for _, group in turns)
    return make_miss(expected, expected, calls or "no call", first)


def _hidden_tool_warnings(calls: Sequence[AnsweredCall]) -> tuple[str, ...]:
    """Return a warning if the hidden tool was called."""
    called = any(one.name == FACTS_COMMIT for one in calls)
    return (f"{FACTS_COMMIT} was called, but it is not exposed",) if called else ()


def _process_result(**facts: bool) -> ProcessResult:
    """Return a result that is met if all its facts hold."""
    return ProcessResult(facts, all(facts.values()))


def _required_result(expected: str, **facts: bool) -> ProcessResult:
    """Return a result that counts as missing unless all its facts hold."""
    seen = _process_result(**facts)
    return seen if seen.process else msgspec.structs.replace(seen, missing=expected)


def _has_successful_patch_after(calls: Sequence[AnsweredCall], position: int) -> bool:
    return any(one.name == STATE_PATCH and one.ok for one in calls[position + 1 :])


def _first_error_position(calls: Sequence[AnsweredCall], name: str, code: str) -> int | None:
    """Return the position of the first call of a tool with an error code."""
    found = (at for at, one in enumerate(calls) if one.name == name and one.has_error(code))
    return next(found, None)


def _check_read_first(calls: Sequence[AnsweredCall]) -> ProcessResult:
    """Check that the first call reads the state."""
    first = calls[0] if calls else None
    return _process_result(read_first=first is not None and first.name == STATE_GET and first.ok)


def _check_mixed_turn(calls: Sequence[AnsweredCall]) -> ProcessResult:
    """Check for a turn in which a read succeeds and a patch fails."""
    read = {one.turn for one in calls if one.name == STATE_GET and one.ok}
    refused = {one.turn for one in calls if one.name == STATE_PATCH and not one.ok}
    what = "a turn has a state_get that succeeds and a state_patch that fails"
    return _required_result(what, mixed_turn=bool(read & refused))


def _check_id_omitted(calls: Sequence[AnsweredCall]) -> ProcessResult:
    """Check that every call omits the id."""
    return _process_result(
        id_omitted=bool(calls) and all("workspace_id" not in m.arguments for m in calls)
    )


def _check_type_error(calls: Sequence[AnsweredCall]) -> ProcessResult:
    """Check for a type error, and for a patch that succeeds after it."""
    at = _first_error_position(calls, STATE_PATCH, ErrorCode.ARGUMENT_ERROR)
    return _process_result(
        type_error_met=at is not None,
        repaired=at is not None and _has_successful_patch_after(calls, at),
    )


def _check_parallel_turn(calls: Sequence[AnsweredCall]) -> ProcessResult:
    """Check for a turn in which two calls ran."""
    turns = [one.turn for one in calls if one.result.executed]
    parallel = any(turns.count(turn) >= _MIN_PARALLEL for turn in turns)
    return _required_result("a turn has two calls that run", parallel_turn=parallel)


def _check_guard(calls: Sequence[AnsweredCall]) -> ProcessResult:
    """Check for arguments refused as too large, and for a successful patch after that."""
    at = _first_error_position(calls, STATE_PATCH, ErrorCode.ARGUMENTS_TOO_LARGE)
    return _process_result(
        guard_fired=at is not None,
        recovered=at is not None and _has_successful_patch_after(calls, at),
    )


def _check_overflow(calls: Sequence[AnsweredCall]) -> ProcessResult:
    """Check for output that is too large and not read again; reading only a part also passes."""
    at = _first_error_position(calls, STATE_GET, ErrorCode.TOOL_OUTPUT_TOO_LARGE)
    avoided = any(m.name == STATE_GET and m.ok and bool(m.arguments.get("select")) for m in calls)
    again = at is not None and any(
        one.name == STATE_GET and not one.arguments.get("select") for one in calls[at + 1 :]
    )
    facts = {"guard_fired": at is not None, "avoided": avoided, "read_again": again}
    fired = at is not None
    unseen = "" if fired or avoided else "the state is read: in part, or until it is too large"
    return ProcessResult(facts, (fired or avoided) and not again, unseen)


# Prompts.

_READ = "Call state_get and read the state."
_PATCH = f'Then call state_patch and set {TARGET_PATH} to "{VALUE}". Change nothing else.'
_END = "When state_patch has answered with ok=true, give your final answer: the one sentence Done."
_TWO_CALLS = "Your first message makes two calls at once: a state_get, and a state_patch that"
_FAILING = f"{_TWO_CALLS} fails on purpose, because its path is {WRONG_PATH}."
_BOTH = f'{_TWO_CALLS} sets {TARGET_PATH} to "{VALUE}". Change nothing else.'
_LONG_PATCH = (
    f'Then call state_patch with request_id "r1" and set {TARGET_PATH} to a text of at '
    f"least {MAX_ARGUMENT_BYTES} "
    "characters, each of them an x."
)
_SHORTER = (
    "If the answer to that is ARGUMENTS_TOO_LARGE, do not send any x again: the value is now "
    f'"{VALUE}". '
    f'Even if the long text was accepted, patch once more with "{VALUE}".'
)
_LIST = (
    "ops must be a list of objects. Anything else is answered with ARGUMENT_ERROR; then make the "
    "call again, with a list."
)
_NO_ID = "Leave out workspace_id in every call. Do not copy it into the value either."
_NO_REREAD = "If state_get answers TOOL_OUTPUT_TOO_LARGE, do not read again: patch."
_LATER = "After the first message, call one tool per message."
_ONE_TOOL = "Call one tool per message."
_ANY_RULES = (
    "Do not ask for confirmation.",
    "When a tool answers with ok=false, read its errors, correct the call and make it again.",
    "Do not give the final answer before a state_patch has succeeded.",
    "The tool facts_commit is not available.",
    "The final answer is exactly: Done. Add nothing to it.",
)
_PATCH_EXAMPLE = (
    f'"request_id": "r1", "ops": [{{"op": "set", "path": "{TARGET_PATH}", "value": "{VALUE}"}}]'
)


def _system_prompt(steps: Sequence[str], rules: Sequence[str], *, with_id: bool = True) -> str:
    known = '"workspace_id": "(the id that the user gives)"' if with_id else ""
    lines = [
        "You keep a small workspace in order by calling tools.",
        "",
        "Steps:",
        *(f"{number}. {step}" for number, step in enumerate(steps, start=1)),
        "",
        "Rules:",
        *(f"- {rule}" for rule in (*rules, *_ANY_RULES)),
        "",
        "Examples of arguments:",
        f"state_get {{{known}}}",
        f"state_patch {{{f'{known}, ' if known else ''}{_PATCH_EXAMPLE}}}",
    ]
    return "\n".join(lines)


_USER = "workspace_id={id}"
_CONTROL_PROMPT = "Answer with exactly one sentence and nothing else: Done.\n(conversation {id})"


class WorkspaceTask(msgspec.Struct, frozen=True, kw_only=True):
    """The initial state of a scenario, and its process check; None for the control."""

    check_process: ProcessCheck | None = None
    contract: Contract = Contract(all_of=(STATE_PATCH,))
    draft: JSON = {}
    refusals: int = 0


def _workspace_scenario(  # the columns of the table below
    scenario_id: str,
    summary: str,
    *,
    tags: tuple[str, ...],
    system: str,
    task: WorkspaceTask,
    config: JSON | None = None,
) -> Scenario:
    user = _USER if task.check_process else _CONTROL_PROMPT

    def begin(workspace_id: str) -> WorkspaceWorld:
        workspace = Workspace(workspace_id, task.draft, task.refusals)
        return WorkspaceWorld(workspace, user.format(id=workspace_id), task.check_process)

    return Scenario(
        id=scenario_id,
        summary=summary,
        begin=begin,
        tags=tags,
        system=system,
        user=user,
        config=config or {},
        contract=task.contract if task.check_process else None,
        uses_tools=task.check_process is not None,
        source=f"draft={task.draft} refusals={task.refusals}",
    )


# The contract needs the arguments: only the second of two patches is the wanted one.
_SET_LAST = Contract(
    all_of=(Need(STATE_PATCH, {"ops": [{"op": "set", "path": TARGET_PATH, "value": VALUE}]}),)
)
_TYPICAL = ("default", "smoke", "typical")

SCENARIOS: Final = (
    _workspace_scenario(
        "happy_path",
        "read, patch, answer",
        tags=(*_TYPICAL, "simple", "extreme"),
        system=_system_prompt((_READ, _PATCH, _END), (_ONE_TOOL,)),
        task=WorkspaceTask(check_process=_check_read_first),
    ),
    _workspace_scenario(
        "partial_success_failure",
        "one call of a turn succeeds, the other fails, and the run continues",
        tags=("extreme",),
        system=_system_prompt((_FAILING, _PATCH, _END), (_LATER,)),
        task=WorkspaceTask(check_process=_check_mixed_turn),
        config=_PARALLEL,
    ),
    _workspace_scenario(
        "missing_workspace_id",
        "the workspace id is omitted, and the tools use the current workspace",
        tags=(*_TYPICAL, "extreme"),
        system=_system_prompt((_READ, _PATCH, _END), (_ONE_TOOL, _NO_ID), with_id=False),
        task=WorkspaceTask(check_process=_check_id_omitted),
    ),
    _workspace_scenario(
        "type_error_recovery",
        "a patch is refused with a type error and must be repeated",
        tags=(*_TYPICAL, "extreme"),
        system=_system_prompt((_READ, _PATCH, _END), (_ONE_TOOL, _LIST)),
        task=WorkspaceTask(check_process=_check_type_error, refusals=1),
    ),
    _workspace_scenario(
        "happy_path_parallel",
        "read and patch in one turn, then answer",
        tags=("parallel",),
        system=_system_prompt((_BOTH, _END), ()),
        task=WorkspaceTask(check_process=_check_parallel_turn),
        config=_PARALLEL,
    ),
    _workspace_scenario(
        "long_arguments_guard",
        "arguments that are too large are refused, and a shorter call follows",
        tags=(*_TYPICAL, "extreme"),
        system=_system_prompt((_READ, _LONG_PATCH, _SHORTER, _END), (_ONE_TOOL,)),
        task=WorkspaceTask(check_process=_check_guard, contract=_SET_LAST),
        config={"max_tool_args_bytes": MAX_ARGUMENT_BYTES},
    ),
    _workspace_scenario(
        "tool_output_truncation",
        "a result is too large to send, and the run continues without it",
        tags=("extreme",),
        system=_system_prompt((_READ, _PATCH, _END), (_ONE_TOOL, _NO_REREAD)),
        task=WorkspaceTask(check_process=_check_overflow, draft={"big": "x" * 12_000}),
        config={"max_tool_output_bytes": 5_000, "tool_failure_policy": "tolerated"},
    ),
    injected_quote((*_TYPICAL, "extreme")),
    _workspace_scenario(
        CONTROL,
        "the control, without tools: shows how literally a model follows a prompt",
        tags=(*_TYPICAL, "simple", "extreme"),
        system="Tools are switched off here. Answer with exactly one sentence: Done.",
        task=WorkspaceTask(),
        config={"tool_use_mode": "disabled"},
    ),
)
