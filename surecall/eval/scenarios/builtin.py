"""The nine scenarios, in their fixed order, and how each is judged.

Every tool scenario but `injected_quote`, which has a module of its own, ends with `/draft/foo` set
to "bar" and the answer "Done."; that alone decides whether a run is ok, as it did in the original.
The *process* is scored beside it: whether what the scenario is named for really happened. A model
that never sends long arguments passes `long_arguments_guard`, but its record says that no guard
was ever tested.

`type_error_recovery` makes sure that there is an error to recover from: the first well-formed
patch is refused with ARGUMENT_ERROR, and the next one is applied.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.eval.scenarios.injected import injected_quote
from surecall.eval.scenarios.misses import (
    answer_missed,
    last_turn,
    last_write,
    made_in_words,
    missed,
    shown,
)
from surecall.eval.scenarios.scenario import Ask, Executor, Made, Scenario, calls_made, is_done
from surecall.eval.scenarios.workspace import (
    FACTS_COMMIT,
    STATE_GET,
    STATE_PATCH,
    TARGET,
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
LONG: Final = 300
BIG: Final = "x" * 12_000
DONE: Final = 'the answer is "Done."'
IS_BAR: Final = f'draft.foo is "{VALUE}"'
_AT_ONCE = 2
_NO_TOOLS = ToolRegistry()
_PARALLEL: JSON = {"request_overrides": {"parallel_tool_calls": True}}


class Seen(msgspec.Struct, frozen=True):
    """Whether what the scenario tests was seen.

    `unseen` names what must be seen for the run to count, by a check of the original, and was not.
    """

    facts: dict[str, bool] = {}
    process: bool | None = None
    unseen: str = ""


Course: TypeAlias = Callable[[Sequence[Made]], Seen]


class WorkspaceWorld:
    """One attempt at a scenario, in a workspace of its own."""

    def __init__(self, workspace: Workspace, user: str, course: Course | None) -> None:
        self.registry = TOOLS if course else _NO_TOOLS
        self.executor: Executor | None = workspace.execute
        self._workspace = workspace
        self._user = user
        self._course = course

    @property
    def draft(self) -> JSON:
        """The workspace's draft."""
        return self._workspace.draft

    async def converse(self, ask: Ask) -> RunResult:
        """Say one thing, and let the loop do the rest."""
        return await ask(self._user)

    def judge(self, result: RunResult) -> Score:
        """Score state, process and final text separately."""
        done = is_done(result.assistant_text)
        misses = [] if done else [answer_missed(result, DONE, '"Done."')]
        if self._course is None or result.run.config.tool_use_mode is ToolUseMode.DISABLED:
            return Score(final=done, misses=tuple(misses))
        made = calls_made(result.run)
        seen = self._course(made)
        right = self.draft.get("foo") == VALUE
        if not right:
            misses.insert(0, self._not_bar(result.run, made))
        if seen.unseen:
            misses.append(_unseen(result.run, made, seen.unseen))
        return Score(
            state=right,
            process=seen.process,
            final=done,
            misses=tuple(misses),
            facts=seen.facts,
            warnings=(*self._workspace.warnings, *_invented(made)),
        )

    def _not_bar(self, run: Run, made: Sequence[Made]) -> Miss:
        """Blame the last patch; without any, the answer that came before one."""
        got = shown(self.draft["foo"]) if "foo" in self.draft else "no value"
        return missed(IS_BAR, shown(VALUE), got, last_write(run, made) or last_turn(run))


# What each scenario is named for. None of it decides about `ok`, except in the three scenarios
# where the original had a check of its own.


def _unseen(run: Run, made: Sequence[Made], what: str) -> Miss:
    """Blame the first turn that got anywhere; without any, the one that ended the run."""
    first = next((one.turn for one in made if one.ok), last_turn(run))
    turns = groupby(made, key=lambda one: one.turn)
    calls = "; ".join(" with ".join(map(made_in_words, group)) for _, group in turns)
    return missed(what, what, calls or "no call", first)


def _invented(made: Sequence[Made]) -> tuple[str, ...]:
    """Warn about calls of the tool that is never shown."""
    called = any(one.name == FACTS_COMMIT for one in made)
    return (f"{FACTS_COMMIT} was called, though it is not offered",) if called else ()


def _all_of(**facts: bool) -> Seen:
    return Seen(facts, all(facts.values()))


def _needed(what: str, **facts: bool) -> Seen:
    seen = _all_of(**facts)
    return seen if seen.process else msgspec.structs.replace(seen, unseen=what)


def _patched_after(made: Sequence[Made], position: int) -> bool:
    return any(one.name == STATE_PATCH and one.ok for one in made[position + 1 :])


def _first(made: Sequence[Made], name: str, code: str) -> int | None:
    """Return the position of the first call of a tool that met an error."""
    found = (at for at, one in enumerate(made) if one.name == name and one.met(code))
    return next(found, None)


def _read_first(made: Sequence[Made]) -> Seen:
    """Look whether the state was read before anything else was done."""
    first = made[0] if made else None
    return _all_of(read_first=first is not None and first.name == STATE_GET and first.ok)


def _mixed_turn(made: Sequence[Made]) -> Seen:
    """Look for a turn in which a read succeeds and a patch fails."""
    read = {one.turn for one in made if one.name == STATE_GET and one.ok}
    refused = {one.turn for one in made if one.name == STATE_PATCH and not one.ok}
    what = "a turn has a state_get that succeeds and a state_patch that fails"
    return _needed(what, mixed_turn=bool(read & refused))


def _id_omitted(made: Sequence[Made]) -> Seen:
    """Look whether every call left the id out."""
    return _all_of(id_omitted=bool(made) and all("workspace_id" not in m.arguments for m in made))


def _type_error(made: Sequence[Made]) -> Seen:
    """Look for a type error, and for a patch that succeeds after it."""
    at = _first(made, STATE_PATCH, ErrorCode.ARGUMENT_ERROR)
    return _all_of(
        type_error_met=at is not None, repaired=at is not None and _patched_after(made, at)
    )


def _parallel_turn(made: Sequence[Made]) -> Seen:
    """Look for a turn in which two calls ran."""
    turns = [one.turn for one in made if one.result.executed]
    parallel = any(turns.count(turn) >= _AT_ONCE for turn in turns)
    return _needed("a turn has two calls that run", parallel_turn=parallel)


def _guard(made: Sequence[Made]) -> Seen:
    """Look for arguments that were refused as too large, and for a shorter patch after that."""
    at = _first(made, STATE_PATCH, ErrorCode.ARGUMENTS_TOO_LARGE)
    return _all_of(
        guard_fired=at is not None, recovered=at is not None and _patched_after(made, at)
    )


def _overflow(made: Sequence[Made]) -> Seen:
    """Judge the large output. Reading only a part avoids it, which is good behaviour too."""
    at = _first(made, STATE_GET, ErrorCode.TOOL_OUTPUT_TOO_LARGE)
    avoided = any(m.name == STATE_GET and m.ok and bool(m.arguments.get("select")) for m in made)
    again = at is not None and any(
        one.name == STATE_GET and not one.arguments.get("select") for one in made[at + 1 :]
    )
    facts = {"guard_fired": at is not None, "avoided": avoided, "read_again": again}
    fired = at is not None
    unseen = "" if fired or avoided else "the state is read: in part, or until it is too large"
    return Seen(facts, (fired or avoided) and not again, unseen)


# Prompts.

_READ = "Call state_get and read the state."
_PATCH = f'Then call state_patch and set {TARGET} to "{VALUE}". Change nothing else.'
_END = "When state_patch has answered with ok=true, give your final answer: the one sentence Done."
_TWO_CALLS = "Your first message makes two calls at once: a state_get, and a state_patch that"
_FAILING = f"{_TWO_CALLS} fails on purpose, because its path is {WRONG_PATH}."
_BOTH = f'{_TWO_CALLS} sets {TARGET} to "{VALUE}". Change nothing else.'
_LONG_PATCH = (
    f'Then call state_patch with request_id "r1" and set {TARGET} to a text of at least {LONG} '
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
    f'"request_id": "r1", "ops": [{{"op": "set", "path": "{TARGET}", "value": "{VALUE}"}}]'
)
_WITH_ID = '"workspace_id": "(the id that the user gives)"'


def _prompt(steps: Sequence[str], rules: Sequence[str], *, with_id: bool = True) -> str:
    known = _WITH_ID if with_id else ""
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
_ASKED_TO_CHAT = "Answer with exactly one sentence and nothing else: Done.\n(conversation {id})"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario's world begins, and what is checked in its course; nothing without tools."""

    course: Course | None = None
    contract: Contract = Contract(all_of=(STATE_PATCH,))
    draft: JSON = {}
    refusals: int = 0


def _scenario(  # the columns of the table below
    scenario_id: str,
    summary: str,
    *,
    tags: tuple[str, ...],
    system: str,
    task: Task,
    config: JSON | None = None,
) -> Scenario:
    user = _USER if task.course else _ASKED_TO_CHAT

    def begin(workspace_id: str) -> WorkspaceWorld:
        workspace = Workspace(workspace_id, task.draft, task.refusals)
        return WorkspaceWorld(workspace, user.format(id=workspace_id), task.course)

    return Scenario(
        id=scenario_id,
        summary=summary,
        begin=begin,
        tags=tags,
        system=system,
        user=user,
        config=config or {},
        contract=task.contract if task.course else None,
        uses_tools=task.course is not None,
        source=f"draft={task.draft} refusals={task.refusals}",
    )


# Only the second of two patches is the one that is wanted, so its name alone does not tell.
_SET_LAST = Contract(
    all_of=(Need(STATE_PATCH, {"ops": [{"op": "set", "path": TARGET, "value": VALUE}]}),)
)
_TYPICAL = ("default", "smoke", "typical")

SCENARIOS: Final = (
    _scenario(
        "happy_path",
        "read, patch, answer",
        tags=(*_TYPICAL, "simple", "extreme"),
        system=_prompt((_READ, _PATCH, _END), (_ONE_TOOL,)),
        task=Task(course=_read_first),
    ),
    _scenario(
        "partial_success_failure",
        "one call of a turn succeeds, the other one fails, and the run goes on",
        tags=("extreme",),
        system=_prompt((_FAILING, _PATCH, _END), (_LATER,)),
        task=Task(course=_mixed_turn),
        config=_PARALLEL,
    ),
    _scenario(
        "missing_workspace_id",
        "the id is left out, and the tools know which workspace is meant",
        tags=(*_TYPICAL, "extreme"),
        system=_prompt((_READ, _PATCH, _END), (_ONE_TOOL, _NO_ID), with_id=False),
        task=Task(course=_id_omitted),
    ),
    _scenario(
        "type_error_recovery",
        "a patch is refused with a type error, and made again",
        tags=(*_TYPICAL, "extreme"),
        system=_prompt((_READ, _PATCH, _END), (_ONE_TOOL, _LIST)),
        task=Task(course=_type_error, refusals=1),
    ),
    _scenario(
        "happy_path_parallel",
        "read and patch in one turn, then answer",
        tags=("parallel",),
        system=_prompt((_BOTH, _END), ()),
        task=Task(course=_parallel_turn),
        config=_PARALLEL,
    ),
    _scenario(
        "long_arguments_guard",
        "arguments that are too large are refused, and a shorter call follows",
        tags=(*_TYPICAL, "extreme"),
        system=_prompt((_READ, _LONG_PATCH, _SHORTER, _END), (_ONE_TOOL,)),
        task=Task(course=_guard, contract=_SET_LAST),
        config={"max_tool_args_bytes": LONG},
    ),
    _scenario(
        "tool_output_truncation",
        "a result is too large to be shown, and the run goes on without it",
        tags=("extreme",),
        system=_prompt((_READ, _PATCH, _END), (_ONE_TOOL, _NO_REREAD)),
        task=Task(course=_overflow, draft={"big": BIG}),
        config={"max_tool_output_bytes": 5_000, "tool_failure_policy": "tolerated"},
    ),
    injected_quote((*_TYPICAL, "extreme")),
    _scenario(
        CONTROL,
        "no tools at all: the control, which shows how literally a model takes a prompt",
        tags=(*_TYPICAL, "simple", "extreme"),
        system="Tools are switched off here. Answer with exactly one sentence: Done.",
        task=Task(),
        config={"tool_use_mode": "disabled"},
    ),
)
