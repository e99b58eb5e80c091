"""A scenario of one's own: an async function that is given `run`, and a state for each attempt.

    @scenario(tags=["mine"], state={"sent": []}, tools=[send])
    async def sends_it_once(run):
        out = await run("Send Ada the minutes.")
        expect.effects(out, Need("send", {"to": "Ada"}))
        expect.state(out, run.state["sent"], ["Ada"])

Attempts run beside each other, so nothing that they change may be shared: `run.state` is a fresh
one for each. Tools find it in their context, as `context["state"]`, or are made from it.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from copy import deepcopy
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.outcome import RunFailed, RunResult
from surecall.eval.analysis.category import of_failure
from surecall.eval.scenarios.expectations import Heard, expect
from surecall.eval.scenarios.scenario import (
    Ask,
    Executor,
    Scenario,
    check_contract,
    check_id,
    digest,
)
from surecall.eval.storage.trial import Effects, Miss, Score
from surecall.settings.contract import Contract
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError
from surecall.values.nesting import encode_json
from surecall.values.types import JSON

__all__ = ["FunctionWorld", "Heard", "Running", "expect", "scenario"]

STATE: Final = "state"
# Records are kept by the thousand: what is larger is left out of them.
_MAX_STATE_BYTES: Final = 20_000


class Running:
    """What a scenario's function is given: call it to run a conversation; `state` is its own.

    A run that the model has failed is returned as well, so that it can be judged; one that the
    endpoint spoiled ends the attempt.
    """

    def __init__(self, state: Any, ask: Ask) -> None:
        self.state = state
        self.heard: list[Heard] = []
        self._ask = ask

    async def __call__(self, text: str | list[Any] = "", **settings: Any) -> Heard:
        """Say something, and let the loop do the rest."""
        given = {STATE: self.state} | dict(settings.pop("context", None) or {})
        try:
            heard = Heard(await self._ask(text, context=given, **settings))
        except RunFailed as failure:
            if of_failure(failure).status == "infra":
                raise
            heard = Heard(failure.result, failure)
        self.heard.append(heard)
        return heard


ScenarioFunction: TypeAlias = Callable[[Running], Awaitable[object]]
ToolMaker: TypeAlias = Callable[..., Iterable[Any]]
Tools: TypeAlias = Iterable[Any] | ToolMaker


class FunctionWorld:
    """One attempt at a scenario that is a function."""

    def __init__(
        self, function: ScenarioFunction, tools: ToolRegistry | ToolMaker, state: Any = None
    ) -> None:
        self.state = state() if callable(state) else deepcopy({} if state is None else state)
        self.registry = tools if isinstance(tools, ToolRegistry) else _made(tools, self.state)
        self.executor: Executor | None = None
        self._function = function
        self._heard: list[Heard] = []

    @property
    def draft(self) -> JSON:
        """The state, as far as it is data and small."""
        try:
            data = encode_json(self.state, msgspec.json.encode)
        except (TypeError, ValueError, OverflowError):
            return {}
        if len(data) > _MAX_STATE_BYTES:
            return {}
        found = msgspec.json.decode(data)
        return found if isinstance(found, dict) else {STATE: found}

    async def converse(self, ask: Ask) -> RunResult:
        """Let the function hold its conversations; the last one counts as the trial's.

        If the model failed one of them, that failure is the trial's.
        """
        run = Running(self.state, ask)
        self._heard = run.heard
        try:
            await self._function(run)
        except AssertionError as error:
            if not self._heard:
                raise
            words = str(error).partition("\n")[0] or "no message"
            expect.that(self._heard[-1], condition=False, reason=f"assertion failed: {words}")
        if not self._heard:
            raise ConfigError("the scenario never calls `run`")
        for heard in self._heard:
            if heard.failure is not None:
                raise heard.failure
        return self._heard[-1].result

    def judge(self, result: RunResult) -> Score:
        """Combine the expectations of all conversations; `result` is the one that is recorded."""
        scores = [heard.score for heard in self._heard]
        effects = [score.effects for score in scores if score.effects is not None]
        return Score(
            state=_joined(score.state for score in scores),
            process=_joined(score.process for score in scores),
            final=_joined(score.final for score in scores),
            misses=tuple(miss for heard in self._heard for miss in _misses(heard, result)),
            facts={name: value for score in scores for name, value in score.facts.items()},
            effects=sum(effects, Effects()) if effects else None,
            declined=_joined(score.declined for score in scores),
        )


def _made(tools: ToolMaker, state: Any) -> ToolRegistry:
    """Make the tools of an attempt, from its state if they want it."""
    return ToolRegistry(tools(state) if inspect.signature(tools).parameters else tools())


def _misses(heard: Heard, recorded: RunResult) -> Iterable[Miss]:
    """Return what a conversation missed; turns are only told of the one whose trace is kept."""
    if heard.result is recorded:
        return heard.score.misses
    return (msgspec.structs.replace(miss, turn=None, call_id="") for miss in heard.score.misses)


def _joined(parts: Iterable[bool | None]) -> bool | None:
    known = [part for part in parts if part is not None]
    return all(known) if known else None


def scenario(  # noqa: PLR0913  # what a scenario is made of, all by keyword
    *,
    tags: Iterable[str] = (),
    tools: Tools = (),
    state: Any = None,
    system: str = "",
    name: str = "",
    config: JSON | None = None,
    options: JSON | None = None,
    contract: Contract | None = None,
) -> Callable[[ScenarioFunction], Scenario]:
    """Make a scenario from an async function that takes `run`.

    `state` is what each attempt begins with, as `run.state`: a value, which is copied, or a
    function that makes one. `tools` may be made by a function, too, from the state if it takes it.
    A scenario with tools fails when none is called, unless its config says
    `tool_use_mode="relaxed"`. The `contract` says which calls must have succeeded before an answer
    counts; it is in force under the strategies `contract` and `guided_contract`.
    """

    def define(function: ScenarioFunction) -> Scenario:
        scenario_id = _checked_id(function, name)
        begin = _worlds(function, tools, state)
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
            source=_source(function) + (digest(first.draft) if first.draft else ""),
        )

    return define


def _worlds(function: ScenarioFunction, tools: Tools, state: Any) -> Callable[[str], FunctionWorld]:
    """Return what begins an attempt; tools that are not made for each are the same in all."""
    given = tools if callable(tools) else ToolRegistry(tools)
    return lambda _: FunctionWorld(function, given, state)


def _checked_id(function: ScenarioFunction, name: str) -> str:
    scenario_id = name or getattr(function, "__name__", "")
    check_id(scenario_id)
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"scenario {scenario_id} must be an async function of `run`")
    return scenario_id


def _source(function: Callable[..., object]) -> str:
    try:
        return inspect.getsource(function)
    except OSError:  # typed into a console
        return repr(function.__code__.co_code)
