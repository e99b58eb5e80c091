"""Defines scenarios: prompt, settings, tools, and how the result is judged.

    Scenario ─ begin(id) ─► World ─ converse(ask) ─► result ─ judge ─► Score
                            new for each attempt

A scenario is an immutable value that can be listed, hashed, and run any number of times. All state
is in its world, which is new for each attempt.

To write your own scenarios as functions, see `function_scenarios`.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.eval.storage.trial import CONTROL, Score
from surecall.settings.catalog import EVERYTHING, check_names, check_unique, select
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.contract import Contract, describe_missing
from surecall.settings.overlay import deep_merge
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, Assistant, ToolResult

_DONE_ANSWERS = frozenset({"done", "done.", "done!"})
_QUOTES = "\"'`"
_PLACEHOLDER_ID = "-"
RESERVED_ID_ERROR: Final = (
    f"the scenario id {CONTROL!r} is reserved for the control: choose another id"
)

AskModel: TypeAlias = Callable[..., Awaitable[RunResult]]
Executor: TypeAlias = Callable[[str, JSON], Awaitable[Any]]


class World(Protocol):
    """The state of one attempt: its tools, its conversation, and how that is judged."""

    @property
    def registry(self) -> ToolRegistry:
        """The tools exposed to the model."""

    @property
    def executor(self) -> Executor | None:
        """The function that runs tools without handlers."""

    @property
    def draft(self) -> JSON:
        """The state of this world, to be recorded."""

    async def converse(self, ask: AskModel) -> RunResult:
        """Hold the conversation: `ask(text, history=…)` runs the loop once."""

    def judge(self, result: RunResult) -> Score:
        """Score the result, also of a failed run."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of conversation. `tags` are groups that select it.

    `config` has settings that replace the cell's, except that `request_overrides` are merged;
    `options` are further fields of the request. `source` is code that is part of the scenario's
    hash. The `contract` applies under strategies that use contracts.
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
        """Whether it is the control, which is excluded from the tool rate."""
        return self.id == CONTROL

    def effective_config(
        self, config: ToolCallingConfig, *, contracted: bool = False
    ) -> ToolCallingConfig:
        """Return the config of a cell and this scenario, with its contract if `contracted`."""
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
        """A short hash of everything that the scenario sends to a model."""
        tools = [tool.spec for tool in self.begin(_PLACEHOLDER_ID).registry.definitions]
        settings = [self.config, self.options, self.contract, self.source]
        return short_hash([self.id, self.system, self.user, tools, settings])


class AnsweredCall(msgspec.Struct, frozen=True):
    """A call of a run with its result."""

    turn: int
    name: str
    arguments: JSON
    result: ToolResult

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.result.ok

    def has_error(self, code: str) -> bool:
        """Whether the result has an error code."""
        return code in self.result.error_codes


def answered_calls(run: Run) -> list[AnsweredCall]:
    """Return the calls of a run that have results, in order."""
    results = {result.call_id: result for result in run.results}
    turns = [message for message in run.own_messages if isinstance(message, Assistant)]
    return [
        AnsweredCall(turn, call.name, call.arguments, results[call.id])
        for turn, message in enumerate(turns)
        for call in message.calls
        if call.id in results
    ]


def short_hash(value: Any, length: int = 12) -> str:
    """Return a short hash of plain data."""
    data = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(data).hexdigest()[:length]


def is_done_answer(text: str) -> bool:
    """Whether a text is the answer "Done.", ignoring case and quotes."""
    return text.strip().strip(_QUOTES).strip().casefold() in _DONE_ANSWERS


def select_scenarios(
    expression: str, scenarios: Iterable[Scenario], default: str = "default"
) -> tuple[Scenario, ...]:
    """Return the scenarios that ids, groups, globs, and `!exclusions` select, in their order.

    A blank expression selects the default group.
    """
    known = tuple(scenarios)
    check_unique(known, lambda scenario: scenario.id)
    return select(known, expression.strip(" ,") or default, lambda item: (item.id, *item.tags))


def check_scenario_id(scenario_id: str) -> None:
    """Raise `ConfigError` for an id that is the control's, or not valid in files and filters."""
    plain = all(char.isalnum() or char in "_-." for char in scenario_id)
    if not plain or not scenario_id[:1].isalnum() or scenario_id.casefold() in EVERYTHING:
        raise ConfigError(f"invalid scenario id {scenario_id!r}: use letters, digits, _ - .")
    if scenario_id == CONTROL:
        raise ConfigError(RESERVED_ID_ERROR)


def check_contract(scenario_id: str, contract: Contract | None, offered: Sequence[str]) -> None:
    """Raise `ConfigError` for a contract that requires a tool that is not exposed."""
    if contract is not None and (missing := contract.progress(()).unreachable(offered)):
        raise ConfigError(
            f"the contract of {scenario_id} requires tools that are not exposed: "
            f"{describe_missing(missing)}"
        )
