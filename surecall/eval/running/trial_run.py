"""One trial: a fresh world, one conversation over a client, and the record of the result.

    Key + Case ─► attempt [─► one more, after a blank reply or a broken line] ─► Trial

A `Setup` is what a cell of the matrix means in full: what is sent, and how it is read. A `Case` is
a scenario under a setup: all that its trials share, worked out once. Whatever the endpoint or the
model does ends in a `Trial`; only a cancelled trial raises.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

import msgspec

from surecall.core.outcome import RunFailed, RunResult, fired_in, replies_by_model, usage_of
from surecall.eval.analysis.category import (
    TOOLS_DISABLED,
    Verdict,
    crash_in,
    of_answer,
    of_crash,
    of_exception,
    of_failure,
    shortened,
)
from surecall.eval.analysis.culprit import Place, place_of
from surecall.eval.scenarios.answers import says_no
from surecall.eval.scenarios.scenario import Scenario, World, digest
from surecall.eval.storage.trial import Key, Score, Served, Trial, Truth
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import Client
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
from surecall.settings.connection import RetryPolicy
from surecall.settings.fallback import Fallback
from surecall.settings.overlay import deep_merge
from surecall.settings.presets import Strategy, resolve
from surecall.values.errors import ConfigError
from surecall.values.events import (
    FinalEvent,
    LlmRequestEndEvent,
    LlmRequestRetryEvent,
    RunFailedEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import JSON, Usage

_KEPT_CHARS = 200
_MAX_TEXT = 4_000
_MAX_BUILD = 80
# What a scenario's own code may raise; it must not end the evaluation.
CRASHES: Final = (Exception, SystemExit, asyncio.CancelledError)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What one cell of the matrix means. `contracted` puts the contracts of scenarios in force.

    `model` is the id that is sent; `options` are the sampling profile and whatever else goes into
    every request. `extra_attempts` follow a blank reply or a line that broke. `fallbacks` are the
    other models of a chain, each with its config.
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
    def tools_off(self) -> bool:
        """Whether the model is for chat only, under these settings."""
        return self.config.tool_use_mode is ToolUseMode.DISABLED


EVAL_DEFAULTS: JSON = {"tool_failure_policy": ToolFailurePolicy.FATAL}


def setup_for(  # noqa: PLR0913  # the dimensions of a cell, all but one by keyword
    model: str,
    *,
    strategy: Strategy = "production",
    provider: str = "openrouter",
    known_as: str = "",
    options: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    catalog: ModelCatalog | None = None,
    **settings: Any,
) -> Setup:
    """Return the setup of a cell.

    `known_as` is the catalog id whose workarounds apply, when it is not the id that is sent.
    `overrides` are settings that are laid over the presets, except that a model without tools gets
    none; `settings` are fields of `Setup`.
    """
    given = EVAL_DEFAULTS | dict(overrides or {})
    mode = given.pop("tool_use_mode", ToolUseMode.ENFORCED)
    config = resolve(
        provider=provider,
        model=known_as or model,
        strategy=strategy,
        catalog=catalog,
        config=ToolCallingConfig().replace(**given),
    )
    if config.tool_use_mode is not ToolUseMode.DISABLED:
        config = config.replace(tool_use_mode=mode)
    return Setup(
        model=model, provider=provider, config=config, options=dict(options or {}), **settings
    )


class Case:
    """A scenario under the setup of a cell: what all its trials share. No trial changes it.

    The `config` and the `options` of a run are the cell's with those of the scenario.
    """

    def __init__(self, scenario: Scenario, setup: Setup) -> None:
        self.scenario = scenario
        self.setup = setup
        self.config = scenario.adapted(setup.config, contracted=setup.contracted)
        self.options = deep_merge(setup.options, scenario.options)
        contracted = setup.contracted
        self.models: list[str | Fallback] = [
            setup.model,
            *(
                Fallback(name, config=scenario.adapted(config, contracted=contracted))
                for name, config in setup.fallbacks
            ),
        ]
        self.prompt_hash = scenario.prompt_hash

    @property
    def skip_reason(self) -> str:
        """Why the scenario cannot apply; blank when it can."""
        skipped = self.scenario.uses_tools and self.setup.tools_off
        return "tools are disabled for this model" if skipped else ""

    @property
    def tools_on(self) -> bool:
        """Whether the model is offered tools."""
        return self.scenario.uses_tools and self.config.tool_use_mode is not ToolUseMode.DISABLED

    def runner(self, world: World, client: Client) -> ToolLoopRunner:
        """Return a runner for one attempt: what it learns and what it leaves running is its own."""
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


def world_id(key: Key, setup: Setup, attempt: int = 1) -> str:
    """Name the workspace of an attempt, always the same for the same key and seed.

    It does not depend on the strategy: the strategies are compared on the same conversations, and
    a model must not learn which one it is measured with. Only the simulator is told, behind a
    tilde that its personas do not read: it must know a retry from another strategy's first try.
    """
    cell = key.cell
    world = digest([cell.model, cell.profile, key.scenario, key.trial, setup.seed, attempt])
    return f"ws_{world}~{cell.strategy}" if setup.simulated else f"ws_{world}"


def is_cancelled(error: BaseException) -> bool:
    """Whether an error means that the task was cancelled, not that its own code raised it."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class Attempt(msgspec.Struct, frozen=True):
    """One conversation and its judgement."""

    verdict: Verdict
    score: Score
    trace: Trace
    text: str
    draft: JSON
    truth: Truth = ""
    place: Place = Place()


async def run_trial(key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
    """Run one trial; return its record, and the trace of its last attempt."""
    started_at, started = time.time(), time.perf_counter()
    if reason := case.skip_reason:
        skipped = Trial(
            key=key, status="skipped", category=TOOLS_DISABLED, error=reason, started_at=started_at
        )
        return skipped, Trace(())
    attempts = [await _attempt(key, case, client, 1)]
    while attempts[-1].verdict.transient and len(attempts) <= case.setup.extra_attempts:
        attempts.append(await _attempt(key, case, client, len(attempts) + 1))
    elapsed_ms = round((time.perf_counter() - started) * 1000)
    trial = _record(key, attempts, elapsed_ms, started_at)
    known = {"prompt_hash": case.prompt_hash, "tools": case.scenario.uses_tools}
    if case.setup.fallbacks:
        known["models"] = _answered_by(attempts)
    return msgspec.structs.replace(trial, **known), attempts[-1].trace


def _answered_by(attempts: Iterable[Attempt]) -> tuple[str, ...]:
    """Name the models of a chain that answered, each once."""
    found = (pair for attempt in attempts for pair in replies_by_model(attempt.trace))
    return tuple(dict.fromkeys(name for name, replies in found if replies))


async def _attempt(key: Key, case: Case, client: Client, number: int) -> Attempt:
    world = case.scenario.begin(world_id(key, case.setup, number))
    runner = case.runner(world, client)
    try:
        result = await world.converse(runner.run)
    except RunFailed as failure:
        score = world.judge(failure.result)
        fails = not (score.declined and score.ok)
        verdict = of_failure(failure) if fails else Verdict("passed")
        return _judged(world, failure.result, verdict, score, failure)
    except ConfigError:
        raise  # the caller's mistake: every other trial of the cell would make it again
    except CRASHES as error:  # a scenario may be a user's own code
        if is_cancelled(error):
            raise
        return Attempt(of_exception(error), Score(), Trace(()), "", world.draft)
    score = world.judge(result)
    return _judged(world, result, of_answer(result, score, tools_on=case.tools_on), score)


def _judged(
    world: World,
    result: RunResult,
    verdict: Verdict,
    score: Score,
    failure: RunFailed | None = None,
) -> Attempt:
    """Put an attempt together; one in which a tool of the scenario itself broke says nothing."""
    text = result.assistant_text
    if crash := crash_in(result.trace):
        verdict = of_crash(crash)
    truth = _truth(verdict, score, text, ended=failure is None)
    place = place_of(verdict, result, failure.details if failure else None)
    return Attempt(verdict, score, result.trace, text, world.draft, truth, place)


def _truth(verdict: Verdict, score: Score, text: str, *, ended: bool) -> Truth:
    """Judge what somebody who only sees how a run ended would believe."""
    if verdict.status != "failed":
        return "right" if verdict.status == "passed" else ""
    if not ended or not text.strip() or says_no(text):
        return "open"
    return "false_success" if False in {score.state, score.declined} else "silent"


def _record(key: Key, attempts: list[Attempt], elapsed_ms: int, started_at: float) -> Trial:
    last = attempts[-1]
    traces = [attempt.trace for attempt in attempts]
    verdict = last.verdict
    return Trial(
        key=key,
        status=verdict.status,
        category=verdict.category,
        error=verdict.error,
        hint=verdict.hint,
        http_status=verdict.http_status,
        score=last.score,
        first_ok=attempts[0].verdict.status == "passed",
        attempts=len(attempts),
        elapsed_ms=elapsed_ms,
        started_at=started_at,
        requests=tuple(served for trace in traces for served in served_in(trace)),
        usage=sum(map(usage_of, traces), Usage()),
        assistant_text=shortened(last.text, _MAX_TEXT),
        draft=_brief(last.draft),
        fired=tuple(name for trace in traces for name in fired_in(trace)),
        retries=sum(isinstance(event, LlmRequestRetryEvent) for trace in traces for event in trace),
        false_finals=sum(map(_false_finals, traces)),
        truth=last.truth,
        after_no=_after_no(last.trace),
        turn=last.place.turn,
        call_id=last.place.call_id,
    )


def _replies(trace: Trace) -> Iterable[LlmRequestEndEvent]:
    return (event for event in trace if isinstance(event, LlmRequestEndEvent))


def _after_no(trace: Trace) -> int:
    """Count the requests that were answered after the first answer that says no."""
    replies = [event.reply for event in _replies(trace)]
    refusals = (at for at, reply in enumerate(replies) if not reply.calls and says_no(reply.text))
    first = next(refusals, None)
    return 0 if first is None else len(replies) - first - 1


def served_in(trace: Trace) -> tuple[Served, ...]:
    """List the requests of a trace that were answered, as they were served."""
    return tuple(
        Served(
            turn=event.turn,
            latency_ms=event.elapsed_ms,
            attempt=event.attempt,
            finish_reason=event.reply.finish_reason or "",
            provider=event.reply.provider or "",
            model=event.reply.model or "",
            generation_id=event.reply.response_id or "",
            cost=event.reply.usage.cost if event.reply.usage else None,
            build=_build(event.body),
        )
        for event in _replies(trace)
    )


def _build(body: Any) -> str:
    """Return what a reply says about the server that wrote it, such as llama.cpp's build."""
    match body:
        case {"system_fingerprint": str(build)}:
            return shortened(build.strip(), _MAX_BUILD)
        case _:
            return ""


def _false_finals(trace: Trace) -> int:
    ends = (event for event in trace if isinstance(event, FinalEvent | RunFailedEvent))
    return sum(event.false_finals for event in ends)


def _brief(draft: JSON) -> JSON:
    """Keep a record small: long texts of the state are cut."""
    return {
        key: shortened(value, _KEPT_CHARS) if isinstance(value, str) else value
        for key, value in draft.items()
    }
