"""Runs one trial: a fresh world, one conversation, and the record of the result.

    Key + TrialCase ─► attempt [─► another, after a blank reply or a lost connection] ─► Trial

A `CellSetup` has everything that a cell of the matrix sends and how it parses replies. A
`TrialCase` is a scenario under a setup, shared by its trials. Whatever the endpoint or the model
does ends in a `Trial`; only a cancelled trial raises.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, Final, Protocol

import msgspec

from surecall.core.outcome import RunFailed, RunResult, repairs_in, replies_by_model, total_usage
from surecall.eval.analysis.classification import (
    TOOLS_DISABLED,
    Classification,
    FailureLocation,
    classify_answer,
    classify_crash,
    classify_exception,
    classify_failure,
    locate_failure,
    tool_crash,
)
from surecall.eval.running.cells import PlannedCell
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.scenarios.expectations import admits_failure
from surecall.eval.scenarios.scenario import Scenario, World, short_hash
from surecall.eval.storage.trial import Cell, CellScenario, Key, Score, ServedRequest, Trial, Truth
from surecall.runtime.recording import dump_trace
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import Client
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
from surecall.settings.connection import RetryPolicy
from surecall.settings.fallback import Fallback
from surecall.settings.overlay import deep_merge
from surecall.settings.presets import Strategy, resolve
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.events import (
    FinalEvent,
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    LlmRequestRetryEvent,
    RunFailedEvent,
    UnsupportedClaimEvent,
)
from surecall.values.text import truncate
from surecall.values.trace import Trace
from surecall.values.types import JSON, Usage

# Exceptions of a scenario's own code that must not end the evaluation.
CRASHES: Final = (Exception, SystemExit, asyncio.CancelledError)


class CellSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The complete settings of one cell. With `contracted`, the contracts of scenarios apply.

    `model` is the id to send; `options` are the sampling profile and other fields of every request.
    `extra_attempts` are made after a blank reply or a lost connection. `fallbacks` are the other
    models of a fallback chain, each with its config.
    """

    model: str
    config: ToolCallingConfig
    provider: str = ""
    options: JSON = {}
    contracted: bool = False
    simulated: bool = False
    seed: int = 0
    extra_attempts: int = 1
    retry: RetryPolicy = RetryPolicy()
    fallbacks: tuple[tuple[str, ToolCallingConfig], ...] = ()

    @property
    def tools_disabled(self) -> bool:
        """Whether these settings disable tools."""
        return self.config.tool_use_mode is ToolUseMode.DISABLED


def make_cell_setup(  # noqa: PLR0913  # the dimensions of a cell, all but one by keyword
    model: str,
    *,
    strategy: Strategy = "production",
    provider: str = "openrouter",
    catalog_id: str = "",
    options: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    catalog: ModelCatalog | None = None,
    **settings: Any,
) -> CellSetup:
    """Return the setup of a cell.

    `catalog_id` is the catalog id whose workarounds apply, if it differs from the id to send.
    `overrides` are settings that override the presets, except that a model without tools gets
    none; `settings` are fields of `CellSetup`.
    """
    given = {"tool_failure_policy": ToolFailurePolicy.FATAL} | dict(overrides or {})
    mode = given.pop("tool_use_mode", ToolUseMode.ENFORCED)
    config = resolve(
        provider=provider,
        model=catalog_id or model,
        strategy=strategy,
        catalog=catalog,
        config=ToolCallingConfig().replace(**given),
    )
    if config.tool_use_mode is not ToolUseMode.DISABLED:
        config = config.replace(tool_use_mode=mode)
    return CellSetup(
        model=model, provider=provider, config=config, options=dict(options or {}), **settings
    )


class TrialCase:
    """A scenario under the setup of a cell. Its trials share it, and none changes it.

    `config` and `options` are those of the cell, updated with those of the scenario.
    """

    def __init__(self, scenario: Scenario, setup: CellSetup) -> None:
        self.scenario = scenario
        self.setup = setup
        self.config = scenario.effective_config(setup.config, contracted=setup.contracted)
        self.options = deep_merge(setup.options, scenario.options)
        contracted = setup.contracted
        self.models: list[str | Fallback] = [
            setup.model,
            *(
                Fallback(name, config=scenario.effective_config(config, contracted=contracted))
                for name, config in setup.fallbacks
            ),
        ]
        self.prompt_hash = scenario.prompt_hash

    @property
    def skip_reason(self) -> str:
        """Why the scenario does not apply; blank if it does."""
        skipped = self.scenario.uses_tools and self.setup.tools_disabled
        return "tools are disabled for this model" if skipped else ""

    @property
    def offers_tools(self) -> bool:
        """Whether tools are exposed to the model."""
        return self.scenario.uses_tools and self.config.tool_use_mode is not ToolUseMode.DISABLED

    def build_runner(self, world: World, client: Client) -> ToolLoopRunner:
        """Return a runner for one attempt; attempts share no learned lessons or running tools."""
        return ToolLoopRunner(
            client=client,
            model=self.models if self.setup.fallbacks else self.setup.model,
            registry=world.registry,
            executor=world.executor,
            config=self.config,
            system=self.scenario.system,
            llm_options_defaults=deepcopy(self.options),
            retry=self.setup.retry,
        )


def world_id(key: Key, setup: CellSetup, attempt: int = 1) -> str:
    """Return the workspace id of an attempt, which the key and the seed determine.

    It does not depend on the strategy: strategies are compared on the same conversations, and a
    model must not see which one is measured. Only the simulator gets the strategy, after a tilde
    that its personas ignore: it must distinguish a retry from another strategy's first attempt.
    """
    cell = key.cell
    world = short_hash([cell.model, cell.profile, key.scenario, key.trial, setup.seed, attempt])
    return f"ws_{world}~{cell.strategy}" if setup.simulated else f"ws_{world}"


def is_cancelled(error: BaseException) -> bool:
    """Whether the task itself was cancelled, rather than its code raising `CancelledError`."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class TrialAttempt(msgspec.Struct, frozen=True):
    """One conversation and its verdict."""

    verdict: Classification
    score: Score
    trace: Trace
    text: str
    draft: JSON
    truth: Truth = ""
    place: FailureLocation = FailureLocation()


async def run_trial(key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
    """Run one trial; return its record, and the trace of its last attempt."""
    started_at, started = time.time(), time.perf_counter()
    if reason := case.skip_reason:
        skipped = Trial(
            key=key, status="skipped", category=TOOLS_DISABLED, error=reason, started_at=started_at
        )
        return skipped, Trace(())
    attempts = [await _run_attempt(key, case, client, 1)]
    while attempts[-1].verdict.is_transient and len(attempts) <= case.setup.extra_attempts:
        attempts.append(await _run_attempt(key, case, client, len(attempts) + 1))
    elapsed_ms = round((time.perf_counter() - started) * 1000)
    trial = _build_trial(key, attempts, elapsed_ms, started_at)
    known = {"prompt_hash": case.prompt_hash, "tools": case.scenario.uses_tools}
    if case.setup.fallbacks:
        known["models"] = _answering_models(attempts)
    return msgspec.structs.replace(trial, **known), attempts[-1].trace


def _answering_models(attempts: Iterable[TrialAttempt]) -> tuple[str, ...]:
    """Return the models of a fallback chain that answered, each once."""
    found = (pair for attempt in attempts for pair in replies_by_model(attempt.trace))
    return tuple(dict.fromkeys(name for name, replies in found if replies))


async def _run_attempt(
    key: Key, case: TrialCase, client: Client, attempt_number: int
) -> TrialAttempt:
    world = case.scenario.begin(world_id(key, case.setup, attempt_number))
    runner = case.build_runner(world, client)
    try:
        result = await world.converse(runner.run)
    except RunFailed as failure:
        score = world.judge(failure.result)
        fails = not (score.declined and score.ok)
        verdict = classify_failure(failure) if fails else Classification("passed")
        return _build_attempt(world, failure.result, verdict, score, failure)
    except ConfigError:
        raise  # an error of the user: every other trial of the cell would fail, too
    except CRASHES as error:  # a scenario may be user code
        if is_cancelled(error):
            raise
        return TrialAttempt(classify_exception(error), Score(), Trace(()), "", world.draft)
    score = world.judge(result)
    return _build_attempt(
        world, result, classify_answer(result, score, tools_on=case.offers_tools), score
    )


def _build_attempt(
    world: World,
    result: RunResult,
    verdict: Classification,
    score: Score,
    failure: RunFailed | None = None,
) -> TrialAttempt:
    """Return the attempt; a crash in a tool of the scenario replaces the verdict."""
    text = result.assistant_text
    if crash := tool_crash(result.trace):
        verdict = classify_crash(crash)
    truth = _judge_truth(verdict, score, text, has_answer=failure is None)
    place = locate_failure(verdict, result, failure.details if failure else None)
    return TrialAttempt(verdict, score, result.trace, text, world.draft, truth, place)


def _judge_truth(verdict: Classification, score: Score, text: str, *, has_answer: bool) -> Truth:
    """Return what a user who sees only the end of the run would believe."""
    if verdict.status != "failed":
        return "right" if verdict.status == "passed" else ""
    if not has_answer or not text.strip() or admits_failure(text):
        return "open"
    return "false_success" if False in {score.state, score.declined} else "silent"


def _build_trial(
    key: Key, attempts: list[TrialAttempt], elapsed_ms: int, started_at: float
) -> Trial:
    last = attempts[-1]
    traces = [attempt.trace for attempt in attempts]
    return Trial(
        key=key,
        **msgspec.structs.asdict(last.verdict),
        score=last.score,
        first_ok=attempts[0].verdict.status == "passed",
        attempts=len(attempts),
        elapsed_ms=elapsed_ms,
        started_at=started_at,
        requests=tuple(served for trace in traces for served in served_requests(trace)),
        usage=sum(map(total_usage, traces), Usage()),
        assistant_text=truncate(last.text, 4_000),
        draft={
            key: truncate(value, 200) if isinstance(value, str) else value
            for key, value in last.draft.items()
        },
        fired=tuple(name for trace in traces for name in repairs_in(trace)),
        retries=sum(isinstance(event, LlmRequestRetryEvent) for trace in traces for event in trace),
        false_finals=sum(map(_count_false_finals, traces)),
        unsupported_claims=sum(
            isinstance(event, UnsupportedClaimEvent) for trace in traces for event in trace
        ),
        truth=last.truth,
        after_no=_count_after_refusal(last.trace),
        turn=last.place.turn,
        call_id=last.place.call_id,
    )


def _reply_events(trace: Trace) -> Iterable[LlmRequestEndEvent]:
    return (event for event in trace if isinstance(event, LlmRequestEndEvent))


def _count_after_refusal(trace: Trace) -> int:
    """Count the replies after the first answer that admits failure."""
    replies = [event.reply for event in _reply_events(trace)]
    refusals = (
        at for at, reply in enumerate(replies) if not reply.calls and admits_failure(reply.text)
    )
    first = next(refusals, None)
    return 0 if first is None else len(replies) - first - 1


def served_requests(trace: Trace) -> tuple[ServedRequest, ...]:
    """Return the answered requests of a trace, with who served them and how fast."""
    return tuple(
        ServedRequest(
            turn=event.turn,
            latency_ms=event.elapsed_ms,
            attempt=event.attempt,
            finish_reason=event.reply.finish_reason or "",
            provider=event.reply.provider or "",
            model=event.reply.model or "",
            generation_id=event.reply.response_id or "",
            cost=event.reply.usage.cost if event.reply.usage else None,
            build=_server_build(event.body),
        )
        for event in _reply_events(trace)
    )


def _server_build(body: Any) -> str:
    """Return the `system_fingerprint` of a reply, such as llama.cpp's build."""
    match body:
        case {"system_fingerprint": str(build)}:
            return truncate(build.strip(), 80)
        case _:
            return ""


def _count_false_finals(trace: Trace) -> int:
    """Count the premature answers of a run."""
    ends = (event for event in trace if isinstance(event, FinalEvent | RunFailedEvent))
    return sum(event.false_finals for event in ends)


# Every engine runs its trials through `TrialRunner`, so records do not depend on the engine.

# A run enforces its own deadline; this margin is for code that does not.
_TIMEOUT_MARGIN: Final = 1.05
# The simulator needs no long waits between retries.
_SIMULATOR_RETRY: Final = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.02)


class RunTrial(Protocol):
    """A function that runs one trial."""

    async def __call__(self, key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
        """Run one trial, and return its record and its trace."""
        ...


class TrialResult(msgspec.Struct, frozen=True):
    """The result of a trial: its record, and its trace as JSON lines.

    `endpoint_message` is the error of the last refused request, with the remedy if one is known.
    """

    trial: Trial
    trace_lines: bytes | None = None
    endpoint_message: str = ""


class CellContext(msgspec.Struct, frozen=True):
    """What the trials of one cell share: their lane, setup, and client."""

    lane: str
    setup: CellSetup
    client: Client


class TrialRunner:
    """Runs the trials of a plan by key; crashes and timeouts become records."""

    def __init__(
        self,
        contexts: Mapping[Cell, CellContext],
        scenarios: Iterable[Scenario],
        run_trial: RunTrial,
        limit_s: float | None,
    ) -> None:
        self._contexts = contexts
        self._scenarios = {scenario.id: scenario for scenario in scenarios}
        self._cases: dict[CellScenario, TrialCase] = {}
        self._run_trial = run_trial
        self._limit_s = limit_s

    async def run(self, key: Key) -> TrialResult:
        """Run one trial. Only cancellation and errors of the user raise."""
        client = self._contexts[key.cell].client
        guard = None if self._limit_s is None else self._limit_s * _TIMEOUT_MARGIN
        started_at, started = time.time(), time.perf_counter()
        trace, limit = Trace(()), asyncio.timeout(guard)
        try:
            async with limit:
                trial, trace = await self._run_trial(key, self._find_case(key), client)
        except ConfigError:
            raise  # an error of the user: every other trial would fail, too
        except CRASHES as error:  # recorded for this trial only
            if is_cancelled(error):
                raise
            late = isinstance(error, TimeoutError) and limit.expired()
            trial = msgspec.structs.replace(
                _infra_failure(key, f"not finished within {self._limit_s:g} s" if late else error),
                started_at=started_at,
                elapsed_ms=round((time.perf_counter() - started) * 1000),
                tools=self._scenarios[key.scenario].uses_tools,
            )
        return TrialResult(
            trial, dump_trace(trace) if len(trace) else None, last_request_error(trace)
        )

    def _find_case(self, key: Key) -> TrialCase:
        """Return the case of a cell and scenario, created on first use."""
        place = (key.cell, key.scenario)
        if place not in self._cases:
            scenario, setup = self._scenarios[key.scenario], self._contexts[key.cell].setup
            self._cases[place] = TrialCase(scenario, setup)
        return self._cases[place]


def setup_for_cell(planned_cell: PlannedCell, plan: EvaluationPlan) -> CellSetup:
    """Return the setup of a planned cell."""
    model = planned_cell.model
    return CellSetup(
        model=model.sent_id,
        config=planned_cell.config,
        fallbacks=planned_cell.fallbacks,
        provider=model.provider,
        options=planned_cell.options,
        contracted=planned_cell.contracted,
        simulated=model.simulated,
        seed=plan.settings.seed,
        extra_attempts=plan.settings.empty_response_retry_count,
        retry=_SIMULATOR_RETRY if model.simulated else RetryPolicy(),
    )


def build_trial_runner(
    plan: EvaluationPlan, run_trial: RunTrial, client_of: Callable[[PlannedCell], Client]
) -> TrialRunner:
    """Return the trial runner of a plan; `client_of` returns the client of a cell."""
    benches = {
        each.cell: CellContext(each.model.lane, setup_for_cell(each, plan), client_of(each))
        for each in plan.cells
    }
    return TrialRunner(benches, plan.scenarios, run_trial, plan.settings.timeout)


def last_request_error(trace: Trace) -> str:
    """Return the error of the last refused request; blank if there was none."""
    faults = [event.fault for event in trace if isinstance(event, LlmRequestErrorEvent)]
    return str(faults[-1]) if faults else ""


def _infra_failure(key: Key, cause: BaseException | str) -> Trial:
    """Return the record of an infrastructure failure: a timeout message or an exception."""
    if isinstance(cause, str):
        return Trial(key=key, status="infra", category=ErrorCode.TIMEOUT, error=cause)
    return Trial(key=key, **msgspec.structs.asdict(classify_exception(cause)))
