"""What a scenario is: a text, settings, tools, and a judgement of the result.

    Scenario ─ begin(id) ─► World ─ converse(ask) ─► result ─ judge ─► Score
                            a fresh world for one attempt

A scenario is a value that can be listed, hashed and run any number of times. Its world is the
only part that changes: each attempt gets a new one.

A scenario of one's own is a function: see `functions`.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.eval.storage.trial import CONTROL, Score
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.contract import Contract, in_words
from surecall.settings.filters import EVERYTHING, check_names, check_unique, select
from surecall.settings.overlay import deep_merge
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, Assistant, ToolResult

_DONE = frozenset({"done", "done.", "done!"})
_QUOTES = "\"'`"
_NOBODY = "-"
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
        return config.replace(**changes, request_overrides=merged)

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
