"""Makes scenarios from async functions that take `run`.

    @scenario(tags=["mine"], state={"sent": []}, tools=[send])
    async def sends_it_once(run):
        out = await run("Send Ada the minutes.")
        expect.effects(out, Need("send", {"to": "Ada"}))
        expect.state(out, run.state["sent"], ["Ada"])

Attempts run concurrently, so they must not share state: each has its own copy in `run.state`. Tools
find it in their context, as `context["state"]`, or are created from it.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from copy import deepcopy
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.outcome import RunFailed, RunResult
from surecall.eval.analysis.classification import classify_failure
from surecall.eval.scenarios.expectations import ConversationResult, expect
from surecall.eval.scenarios.scenario import (
    AskModel,
    Executor,
    Scenario,
    check_contract,
    check_scenario_id,
    short_hash,
)
from surecall.eval.storage.trial import Miss, Score, SideEffects
from surecall.settings.contract import Contract
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError
from surecall.values.nesting import encode_json
from surecall.values.types import JSON

__all__ = ["ConversationResult", "FunctionWorld", "ScenarioRun", "expect", "scenario"]

STATE_KEY: Final = "state"
# Larger states are not recorded: there may be thousands of records.
_MAX_STATE_BYTES: Final = 20_000


class ScenarioRun:
    """The `run` argument of a scenario's function: call it to run a conversation.

    A run that failed because of the model is returned, so that it can be judged. An infrastructure
    failure ends the attempt.
    """

    def __init__(self, state: Any, ask: AskModel) -> None:
        self.state = state
        self.results: list[ConversationResult] = []
        self._ask = ask

    async def __call__(self, text: str | list[Any] = "", **settings: Any) -> ConversationResult:
        """Run the tool loop with a user message, and return the result."""
        given = {STATE_KEY: self.state} | dict(settings.pop("context", None) or {})
        try:
            conversation = ConversationResult(await self._ask(text, context=given, **settings))
        except RunFailed as failure:
            if classify_failure(failure).status == "infra":
                raise
            conversation = ConversationResult(failure.result, failure)
        self.results.append(conversation)
        return conversation


ScenarioFunction: TypeAlias = Callable[[ScenarioRun], Awaitable[object]]
ToolFactory: TypeAlias = Callable[..., Iterable[Any]]
ToolsOrFactory: TypeAlias = Iterable[Any] | ToolFactory


class FunctionWorld:
    """One attempt at a scenario defined by a function."""

    def __init__(
        self, function: ScenarioFunction, tools: ToolRegistry | ToolFactory, state: Any = None
    ) -> None:
        self.state = state() if callable(state) else deepcopy({} if state is None else state)
        self.registry = (
            tools if isinstance(tools, ToolRegistry) else _build_registry(tools, self.state)
        )
        self.executor: Executor | None = None
        self._function = function
        self._results: list[ConversationResult] = []

    @property
    def draft(self) -> JSON:
        """The state, if it is small and JSON-serializable."""
        try:
            data = encode_json(self.state, msgspec.json.encode)
        except (TypeError, ValueError, OverflowError):
            return {}
        if len(data) > _MAX_STATE_BYTES:
            return {}
        found = msgspec.json.decode(data)
        return found if isinstance(found, dict) else {STATE_KEY: found}

    async def converse(self, ask: AskModel) -> RunResult:
        """Run the function; return the result of its last conversation.

        If a conversation failed, raise its failure.
        """
        run = ScenarioRun(self.state, ask)
        self._results = run.results
        try:
            await self._function(run)
        except AssertionError as error:
            if not self._results:
                raise
            message = str(error).partition("\n")[0] or "no message"
            expect.that(self._results[-1], condition=False, reason=f"assertion failed: {message}")
        if not self._results:
            raise ConfigError("the scenario does not call `run`: await run(…) at least once")
        for conversation in self._results:
            if conversation.failure is not None:
                raise conversation.failure
        return self._results[-1].result

    def judge(self, result: RunResult) -> Score:
        """Combine the scores of all conversations; `result` is the recorded one."""
        scores = [conversation.score for conversation in self._results]
        effects = [score.effects for score in scores if score.effects is not None]
        return Score(
            state=_all_passed_or_none(score.state for score in scores),
            process=_all_passed_or_none(score.process for score in scores),
            final=_all_passed_or_none(score.final for score in scores),
            misses=tuple(
                miss
                for conversation in self._results
                for miss in _located_misses(conversation, result)
            ),
            facts={name: value for score in scores for name, value in score.facts.items()},
            effects=sum(effects, SideEffects()) if effects else None,
            declined=_all_passed_or_none(score.declined for score in scores),
        )


def _build_registry(tools: ToolFactory, state: Any) -> ToolRegistry:
    """Return the tools of an attempt, created from its state if the factory takes it."""
    return ToolRegistry(tools(state) if inspect.signature(tools).parameters else tools())


def _located_misses(conversation: ConversationResult, recorded: RunResult) -> Iterable[Miss]:
    """Return the misses of a conversation; only those of the recorded one keep their turns."""
    if conversation.result is recorded:
        return conversation.score.misses
    return (
        msgspec.structs.replace(miss, turn=None, call_id="") for miss in conversation.score.misses
    )


def _all_passed_or_none(parts: Iterable[bool | None]) -> bool | None:
    """Combine one part of several scores: None if none has it, else whether all passed."""
    known = [part for part in parts if part is not None]
    return all(known) if known else None


def scenario(  # noqa: PLR0913  # all by keyword
    *,
    tags: Iterable[str] = (),
    tools: ToolsOrFactory = (),
    state: Any = None,
    system: str = "",
    name: str = "",
    config: JSON | None = None,
    options: JSON | None = None,
    contract: Contract | None = None,
) -> Callable[[ScenarioFunction], Scenario]:
    """Make a scenario from an async function that takes `run`.

    `state` is the initial `run.state` of each attempt: a value, which is copied, or a function that
    returns one. `tools` may be a function that returns tools; it may take the state. A scenario
    with tools fails if none is called, unless its config has `tool_use_mode="relaxed"`. The
    `contract` lists the calls that must succeed before an answer counts; it applies under the
    strategies `contract` and `guided_contract`.
    """

    def define(function: ScenarioFunction) -> Scenario:
        scenario_id = _scenario_id(function, name)
        begin = _world_factory(function, tools, state)
        first = begin("-")
        offered = [tool.name for tool in first.registry.definitions]
        check_contract(scenario_id, contract, offered)
        return Scenario(
            id=scenario_id,
            summary=(inspect.getdoc(function) or "").partition("\n")[0],
            begin=begin,
            tags=tuple(tags),
            system=system,
            config=({} if offered else {"tool_use_mode": "disabled"}) | (config or {}),
            options=options or {},
            contract=contract,
            uses_tools=bool(offered),
            source=_source_code(function) + (short_hash(first.draft) if first.draft else ""),
        )

    return define


def _world_factory(
    function: ScenarioFunction, tools: ToolsOrFactory, state: Any
) -> Callable[[str], FunctionWorld]:
    """Return a function that creates a world; tools not from a factory are shared."""
    given = tools if callable(tools) else ToolRegistry(tools)
    return lambda _: FunctionWorld(function, given, state)


def _scenario_id(function: ScenarioFunction, name: str) -> str:
    """Return the given id, else the function's name; raise if it or the function is unsuitable."""
    scenario_id = name or getattr(function, "__name__", "")
    check_scenario_id(scenario_id)
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"scenario {scenario_id} must be an async function of `run`")
    return scenario_id


def _source_code(function: Callable[..., object]) -> str:
    """Return the source of a function; without one, such as in a shell, its bytecode."""
    try:
        return inspect.getsource(function)
    except OSError:  # typed into a console
        return repr(function.__code__.co_code)
