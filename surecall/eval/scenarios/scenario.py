"""What a scenario is: a text, settings, tools, and a judgement of the result.

    Scenario ─ begin(id) ─► World ─ converse(ask) ─► result ─ judge ─► Score
                            a fresh world for one attempt

A scenario is a value that can be listed, hashed and run any number of times. Its world is the
only part that changes: each attempt gets a new one.

A scenario of one's own is a function:

    @scenario(tags=["mine"], tools=[state_get])
    async def reads_first(run):
        out = await run("Read workspace ws_1, then reply exactly: Done.")
        expect.called(out, "state_get", workspace_id="ws_1")
        expect.text(out, "Done.", lenient=True)
"""

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.eval.storage.trial import CONTROL, Score
from surecall.settings.config import ToolCallingConfig, ToolUseMode, deep_merge
from surecall.settings.contract import Contract, in_words
from surecall.settings.filters import EVERYTHING, check_names, check_unique, select
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, Assistant, ToolResult

_DONE = frozenset({"done", "done.", "done!"})
_QUOTES = "\"'`"
_NOBODY = "-"
_SHOWN = 120
RESERVED: Final = f"a scenario cannot be called {CONTROL!r}: the control has that id"

Ask: TypeAlias = Callable[..., Awaitable[RunResult]]
Executor: TypeAlias = Callable[[str, JSON], Awaitable[Any]]


class World(Protocol):
    """The world of one attempt: its tools, its conversation, and how that is judged."""

    @property
    def registry(self) -> ToolRegistry:
        """The tools that are offered."""

    @property
    def executor(self) -> Executor | None:
        """What runs tools that have no handler of their own."""

    @property
    def draft(self) -> JSON:
        """The state of this world, for the record."""

    async def converse(self, ask: Ask) -> RunResult:
        """Hold the conversation: `ask(text, history=…)` runs the loop once."""

    def judge(self, result: RunResult) -> Score:
        """Judge how it ended, also when the run failed."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of conversation. `tags` are the groups that it can be selected by.

    `config` holds settings that replace the cell's, except that `request_overrides` merge into
    them; `options` are further fields of the request. `source` is code that belongs to the
    scenario, so that its hash changes when that code does. The `contract` is in force under
    strategies that have one.
    """

    id: str
    summary: str
    begin: Callable[[str], World]
    tags: tuple[str, ...] = ()
    system: str = ""
    user: str = ""
    config: JSON = {}
    options: JSON = {}
    contract: Contract | None = None
    uses_tools: bool = True
    source: str = ""

    def __post_init__(self) -> None:
        check_names((self.id, *self.tags))

    @property
    def is_control(self) -> bool:
        """Whether it is the control, which is never mixed into the tool rate."""
        return self.id == CONTROL

    def adapted(self, config: ToolCallingConfig, *, contracted: bool = False) -> ToolCallingConfig:
        """Return a cell's config with this scenario's own settings, and its contract if wanted."""
        changes = dict(self.config)
        if contracted:
            changes["contract"] = self.contract
        overrides = changes.pop("request_overrides", {})
        merged = deep_merge(config.request_overrides, overrides)
        if config.tool_use_mode is ToolUseMode.DISABLED:
            changes["tool_use_mode"] = ToolUseMode.DISABLED
        return config.but(**changes, request_overrides=merged)

    @property
    def prompt_hash(self) -> str:
        """A short hash of everything that the scenario itself puts before a model."""
        tools = [tool.spec for tool in self.begin(_NOBODY).registry.definitions]
        settings = [self.config, self.options, self.contract, self.source]
        return digest([self.id, self.system, self.user, tools, settings])


class Made(msgspec.Struct, frozen=True):
    """A call of a run, with the answer it got."""

    turn: int
    name: str
    arguments: JSON
    result: ToolResult

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.result.ok

    def met(self, code: str) -> bool:
        """Whether it was answered with an error code."""
        return code in self.result.error_codes


def calls_made(run: Run) -> list[Made]:
    """List the calls of a run that were answered, in order."""
    results = {result.call_id: result for result in run.results}
    turns = [message for message in run.own if isinstance(message, Assistant)]
    return [
        Made(turn, call.name, call.arguments, results[call.id])
        for turn, message in enumerate(turns)
        for call in message.calls
        if call.id in results
    ]


def digest(value: Any, length: int = 12) -> str:
    """Return a short hash of plain data."""
    data = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(data).hexdigest()[:length]


def is_done(text: str) -> bool:
    """Whether a text is the one word that the prompts ask for, whatever its case and quotes."""
    return text.strip().strip(_QUOTES).strip().casefold() in _DONE


def select_scenarios(
    expression: str, scenarios: Iterable[Scenario], default: str = "default"
) -> tuple[Scenario, ...]:
    """Return the scenarios that ids, groups, globs and `!exclusions` pick, in their own order.

    A blank expression means the default group, never everything.
    """
    known = tuple(scenarios)
    check_unique(known, lambda scenario: scenario.id)
    return select(known, expression.strip(" ,") or default, lambda item: (item.id, *item.tags))


def check_id(scenario_id: str) -> None:
    """Refuse an id that is not legal in file names, filters and reports, or is the control's."""
    plain = all(char.isalnum() or char in "_-." for char in scenario_id)
    if not plain or not scenario_id[:1].isalnum() or scenario_id.casefold() in EVERYTHING:
        raise ConfigError(
            f"a scenario cannot be called {scenario_id!r}: use letters, digits, _ - ."
        )
    if scenario_id == CONTROL:
        raise ConfigError(RESERVED)


def check_contract(scenario_id: str, contract: Contract | None, offered: Sequence[str]) -> None:
    """Refuse a contract that no model could meet: it names a tool that is not offered."""
    if contract is not None and (missing := contract.progress(()).out_of_reach(offered)):
        raise ConfigError(
            f"the contract of {scenario_id} needs tools that are not on offer: {in_words(missing)}"
        )


class Heard:
    """The result of one `run(…)` in a scenario, and what was expected of it."""

    def __init__(self, result: RunResult) -> None:
        self.result = result
        self.calls = calls_made(result.run)
        self.score = Score()

    @property
    def text(self) -> str:
        """The final answer."""
        return self.result.assistant_text

    @property
    def history(self) -> list[Any]:
        """The conversation, to be handed to the next `run`."""
        return self.result.history

    def note(self, part: str, reason: str, *, met: bool, **facts: bool) -> bool:
        """Add to one part of the score; what is not met gives a reason."""
        before = getattr(self.score, part)
        reasons = self.score.reasons if met else (*self.score.reasons, reason)
        changes = {part: met and before is not False, "reasons": reasons}
        merged = self.score.facts | facts
        self.score = msgspec.structs.replace(self.score, **changes, facts=merged)
        return met


class Expect:
    """Expectations. One that is not met becomes a reason of the score; none of them raises."""

    def called(self, out: Heard, name: str, /, **arguments: Any) -> bool:
        """Expect that a tool was called with at least these arguments, and that it succeeded."""
        met = any(
            one.name == name and one.ok and one.arguments | arguments == one.arguments
            for one in out.calls
        )
        wanted = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        reason = f"{name}({wanted[:_SHOWN]}) was not called with success"
        return out.note("process", reason, met=met)

    def not_called(self, out: Heard, name: str, /) -> bool:
        """Expect that a tool was not called at all."""
        met = all(one.name != name for one in out.calls)
        return out.note("process", f"{name} was called", met=met)

    def text(self, out: Heard, wanted: str, *, lenient: bool = False) -> bool:
        """Expect a final answer; a lenient one ignores case, quotes and the last mark.

        Whether it was right to the letter is kept as the fact `text_exact`.
        """
        exact = out.text.strip() == wanted.strip()
        met = _loose(out.text) == _loose(wanted) if lenient else exact
        reason = f"the answer is {out.text[:_SHOWN]!r}, not {wanted[:_SHOWN]!r}"
        return out.note("final", reason, met=met, text_exact=exact)

    def contains(self, out: Heard, wanted: str) -> bool:
        """Expect that the final answer contains a text, whatever the case."""
        met = wanted.casefold() in out.text.casefold()
        return out.note("final", f"the answer does not contain {wanted[:_SHOWN]!r}", met=met)

    def state(self, out: Heard, actual: Any, wanted: Any) -> bool:
        """Expect that something the tools have changed is now as it should be."""
        reason = f"the state is {actual!r:.{_SHOWN}}, not {wanted!r:.{_SHOWN}}"
        return out.note("state", reason, met=bool(actual == wanted))

    def that(self, out: Heard, condition: object, reason: str) -> bool:
        """Expect anything else about the course of the run."""
        return out.note("process", reason, met=bool(condition))


expect = Expect()


def _loose(text: str) -> str:
    return text.strip().strip(_QUOTES).strip().rstrip(".!").casefold()


ScenarioFunction: TypeAlias = Callable[[Callable[..., Awaitable[Heard]]], Awaitable[object]]
Tools: TypeAlias = Iterable[Any] | Callable[[], Iterable[Any]]


class FunctionWorld:
    """One attempt at a scenario that is a function."""

    def __init__(self, function: ScenarioFunction, tools: Tools) -> None:
        self.registry = ToolRegistry(tools() if callable(tools) else tools)
        self.executor: Executor | None = None
        self.draft: JSON = {}
        self._function = function
        self._heard: list[Heard] = []

    async def converse(self, ask: Ask) -> RunResult:
        """Let the function hold its conversations; the last one counts as the trial's."""

        async def run(text: str | list[Any] = "", **settings: Any) -> Heard:
            self._heard.append(Heard(await ask(text, **settings)))
            return self._heard[-1]

        try:
            await self._function(run)
        except AssertionError as error:
            if not self._heard:
                raise
            words = str(error).partition("\n")[0] or "no message"
            expect.that(self._heard[-1], condition=False, reason=f"assertion failed: {words}")
        if not self._heard:
            raise ConfigError("the scenario never calls `run`")
        return self._heard[-1].result

    def judge(self, result: RunResult) -> Score:  # noqa: ARG002  # all is in what was heard
        """Combine the expectations of all conversations."""
        scores = [heard.score for heard in self._heard]
        facts = {name: value for score in scores for name, value in score.facts.items()}
        reasons = tuple(reason for score in scores for reason in score.reasons)
        return Score(
            state=_joined(score.state for score in scores),
            process=_joined(score.process for score in scores),
            final=_joined(score.final for score in scores),
            reasons=reasons,
            facts=facts,
        )


def _joined(parts: Iterable[bool | None]) -> bool | None:
    known = [part for part in parts if part is not None]
    return all(known) if known else None


def scenario(  # noqa: PLR0913  # what a scenario is made of, all by keyword
    *,
    tags: Iterable[str] = (),
    tools: Tools = (),
    system: str = "",
    name: str = "",
    config: JSON | None = None,
    options: JSON | None = None,
    contract: Contract | None = None,
) -> Callable[[ScenarioFunction], Scenario]:
    """Make a scenario from an async function that takes `run`.

    `tools` may be a function that makes them, so that each attempt gets fresh ones. A scenario
    with tools fails when none is called, unless its config says `tool_use_mode="relaxed"`. The
    `contract` says which calls must have succeeded before an answer counts; it is in force under
    the strategies `contract` and `guided_contract`.
    """

    def define(function: ScenarioFunction) -> Scenario:
        scenario_id = name or getattr(function, "__name__", "")
        check_id(scenario_id)
        if not inspect.iscoroutinefunction(function):
            raise ConfigError(f"scenario {scenario_id} must be an async function of `run`")
        offered = [tool.name for tool in FunctionWorld(function, tools).registry.definitions]
        check_contract(scenario_id, contract, offered)
        chat: JSON = {} if offered else {"tool_use_mode": "disabled"}
        return Scenario(
            id=scenario_id,
            summary=(inspect.getdoc(function) or "").partition("\n")[0],
            begin=lambda _: FunctionWorld(function, tools),
            tags=tuple(tags),
            system=system,
            config=chat | (config or {}),
            options=options or {},
            contract=contract,
            uses_tools=bool(offered),
            source=_source(function),
        )

    return define


def _source(function: Callable[..., object]) -> str:
    try:
        return inspect.getsource(function)
    except OSError:  # typed into a console
        return repr(function.__code__.co_code)
