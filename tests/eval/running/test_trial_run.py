"""Tests of `surecall.eval.running.trial_run`."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from surecall import (
    ConfigError,
    ModelCatalog,
    RetryPolicy,
    RunResult,
    ToolRegistry,
    tool,
)
from surecall.core.outcome import run_error as run_failure
from surecall.core.state import Fail
from surecall.eval import expect, scenario
from surecall.eval.running.cells import Model
from surecall.eval.running.trial_run import (
    CellSetup,
    TrialCase,
    last_request_error,
    make_cell_setup,
    run_trial,
    setup_for_cell,
    world_id,
)
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.scenario import AskModel, Scenario
from surecall.eval.storage.trial import Cell, Key, Miss, Score, Trial
from surecall.runtime.recording import dump_trace
from surecall.settings.presets import Strategy
from surecall.settings.presets import raw as raw_config
from surecall.simulator.personas.behaviors import CONVERSATION_BEHAVIORS
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedModel, calls, failure, hangs_up, raw, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestErrorEvent, PolicyErrorEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON
from surecall.wire.dialects import WRITERS
from tests.support.evaluations import GROK, Memory, Trials, a_trial, planned, run
from tests.support.persona_trials import (
    BY_ID,
    PREDICTED,
    UNREPAIRED,
    WEAK_MODEL,
    expected,
    held_trial,
    judged,
    trials,
)
from tests.support.spec import proves

# Tests of `surecall.eval.running.trial_run`


# One trial over real HTTP: what is recorded, and whether it is exactly what a fault predicts


ONCE = RetryPolicy(attempts=1)
TOOLS = tuple(scenario.id for scenario in SCENARIOS if scenario.uses_tools)
HAPPY = BY_ID["happy_path"]
STRATEGIES: tuple[Strategy, ...] = ("raw", "baseline", "production")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_trial_ends_exactly_as_its_fault_predicts(
    simulator: Simulator, strategy: Strategy
) -> None:
    held = asyncio.run(trials(simulator.url, judged(), strategy))
    surprises = [
        (persona.id, one.key.scenario, one.status, one.category, one.error)
        for persona, one in held
        if (one.status, one.category) != expected(persona, one.key.scenario, strategy)
    ]
    assert surprises == []
    assert len(held) == len(judged()) * len(SCENARIOS)


def test_the_oracle_predicts_something_for_every_manner_and_names_only_what_exists() -> None:
    assert CONVERSATION_BEHAVIORS.keys() <= PREDICTED.keys() | UNREPAIRED.keys()
    assert {f"sim/{name}" for name in (*PREDICTED, *UNREPAIRED)} <= PERSONAS.keys()
    for name, manner in CONVERSATION_BEHAVIORS.items():
        predicted = PREDICTED.get(name, {}) | UNREPAIRED.get(name, {})
        assert manner.outcome in predicted.values()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.id)
def test_the_clean_persona_does_what_each_scenario_is_named_for(
    simulator: Simulator, scenario: Scenario
) -> None:
    one, trace = held_trial(simulator, scenario)
    assert (one.ok, one.first_ok, one.attempts, one.score.warnings) == (True, True, 1, ())
    assert one.score.process is (None if scenario.is_control else True)
    assert 0 < len(one.requests) == len(trace.turns)


def test_a_model_that_ignores_instructions_passes_where_only_the_process_can_tell(
    simulator: Simulator,
) -> None:
    for name in ("missing_workspace_id", "long_arguments_guard"):
        one, _ = held_trial(simulator, BY_ID[name], "sim/forgetful")
        assert (one.ok, one.score.process) == (True, False)


@proves("I27")
def test_a_record_says_what_was_served_and_what_it_took(simulator: Simulator) -> None:
    one, trace = held_trial(simulator, HAPPY, "sim/arguments_fenced")
    assert [served.turn for served in one.requests] == [0, 1, 2]
    first = one.requests[0]
    assert (first.finish_reason, first.model) == ("tool_calls", "sim/arguments_fenced")
    assert first.generation_id.startswith("chatcmpl-sim-")
    assert (one.assistant_text, one.draft) == ("Done.", {"foo": "bar"})
    assert one.fired.count("code_fence") == 2
    assert one.usage.total_tokens > 0
    assert one.prompt_hash == HAPPY.prompt_hash
    assert one.started_at > 0
    assert len(trace.turns) == 3
    assert msgspec.json.decode(msgspec.json.encode(one), type=Trial) == one


def test_long_texts_of_the_state_are_cut_in_the_record(simulator: Simulator) -> None:
    one, _ = held_trial(simulator, BY_ID["tool_output_truncation"])
    assert len(one.draft["big"]) == 200


def test_a_retried_request_is_counted(simulator: Simulator) -> None:
    one, _ = held_trial(simulator, HAPPY, "sim/http-500")
    assert (one.ok, one.retries, one.requests[0].attempt) == (True, 3, 2)


def same(one: Trial) -> Trial:
    """Return a trial without its times."""
    served = tuple(msgspec.structs.replace(item, latency_ms=0) for item in one.requests)
    return msgspec.structs.replace(one, elapsed_ms=0, started_at=0.0, requests=served)


def test_the_same_seed_gives_the_same_trials_however_many_run_at_once() -> None:
    personas = [PERSONAS["sim/like-glm-flash"], PERSONAS["sim/like-free-route"]]
    records = []
    for _ in range(2):
        with Simulator(seed=3) as simulator:
            held = asyncio.run(trials(simulator.url, personas, "production"))
        records.append([same(one) for _, one in held])
    assert records[0] == records[1]


def test_a_workspace_is_named_by_its_key_but_for_the_strategy() -> None:
    key = Key(Cell("m", "default", "baseline"), "happy_path", 1)
    other = Key(Cell("m", "default", "production"), "happy_path", 1)
    again = Key(Cell("m", "default", "baseline"), "happy_path", 2)
    setup, seeded = make_cell_setup("m"), make_cell_setup("m", seed=1)
    name = world_id(key, setup)
    assert world_id(other, setup) == name
    assert len({name, world_id(key, seeded), world_id(key, setup, 2), world_id(again, setup)}) == 4
    # The simulator alone is told, where its personas do not read it.
    assert world_id(key, make_cell_setup("m", simulated=True)) == f"{name}~baseline"


def test_a_model_cannot_tell_the_strategy_from_what_is_sent() -> None:
    sent = []
    for strategy in STRATEGIES:
        model = ScriptedModel(*GOOD)
        setup = make_cell_setup("m", provider="custom", strategy=strategy, retry=ONCE)
        key = Key(Cell("m", strategy=strategy), HAPPY.id, 1)
        asyncio.run(run_trial(key, TrialCase(HAPPY, setup), model))
        sent.append(model.requests[0]["messages"])
    assert sent[0] == sent[1] == sent[2]


def scripted(*script: Any, scenario: Scenario = HAPPY, **settings: Any) -> Trial:
    setup = make_cell_setup("m", provider="custom", **({"retry": ONCE} | settings))
    key = Key(Cell("m"), scenario.id, 1)
    return asyncio.run(run_trial(key, TrialCase(scenario, setup), ScriptedModel(*script)))[0]


OP = {"op": "set", "path": "/draft/foo", "value": "bar"}
GET, PATCH = calls("state_get"), calls("state_patch", "b", request_id="r1", ops=[OP])
GOOD = (GET, PATCH, says("Done."))


@proves("C135")
def test_a_blank_answer_gets_one_more_attempt_that_does_not_hide_the_first() -> None:
    blank = (GET, PATCH, says(""), says(""))
    one = scripted(*blank, *GOOD)
    assert (one.status, one.first_ok, one.attempts, len(one.requests)) == ("passed", False, 2, 7)
    twice = scripted(*blank, *blank)
    assert (twice.category, twice.attempts) == ("EMPTY_ASSISTANT_TEXT", 2)
    assert scripted(*blank, extra_attempts=0).attempts == 1


@pytest.mark.parametrize(
    ("broken", "category"), [(hangs_up(), "CONNECTION_ERROR"), (raw(b"oops"), "DECODE_ERROR")]
)
def test_a_broken_line_gets_one_more_attempt_and_is_not_the_models_fault(
    broken: Any, category: str
) -> None:
    mended = scripted(broken, *GOOD)
    assert (mended.ok, mended.attempts, mended.first_ok) == (True, 2, False)
    lost = scripted(broken, broken)
    assert (lost.status, lost.category, lost.attempts) == ("infra", category, 2)


def test_an_answer_with_a_status_gets_no_further_attempt() -> None:
    one = scripted(failure(503))
    assert (one.status, one.category, one.http_status) == ("infra", "UPSTREAM_5XX", 503)
    assert one.attempts == 1


def test_a_model_without_tools_skips_the_tool_scenarios_in_production_only() -> None:
    model = "minimax/minimax-m2-her"
    off, on = make_cell_setup(model), make_cell_setup(model, strategy="baseline")
    assert [bool(TrialCase(one, off).skip_reason) for one in SCENARIOS] == [True] * len(TOOLS) + [
        False
    ]
    assert not any(TrialCase(one, on).skip_reason for one in SCENARIOS)
    key = Key(Cell(model), HAPPY.id, 1)
    one, trace = asyncio.run(run_trial(key, TrialCase(HAPPY, off), ScriptedModel()))
    assert (one.status, one.category, len(trace)) == ("skipped", "TOOLS_DISABLED", 0)


def test_a_setup_is_enforced_and_fatal_unless_overridden() -> None:
    plain = make_cell_setup("m", strategy="raw")
    assert plain.config.tool_use_mode == "enforced"
    assert plain.config.tool_failure_policy == "fatal"
    assert "parallel_tool_calls" not in plain.config.request_overrides
    given = {"tool_use_mode": "relaxed", "request_overrides": {"route": "x"}}
    changed = make_cell_setup(
        "m", strategy="baseline", overrides=given, options={"temperature": 0.5}
    )
    assert changed.config.tool_use_mode == "relaxed"
    assert changed.config.request_overrides == {"route": "x", "parallel_tool_calls": False}
    assert changed.options == {"temperature": 0.5}


def test_a_callers_mistake_is_raised_and_not_counted_as_a_trial() -> None:
    with pytest.raises(ConfigError):
        scripted(*GOOD, options={"messages": []})


def test_every_model_of_the_catalog_has_a_likeness() -> None:
    imitated = {one.imitates for one in PERSONAS.values() if one.id.startswith("sim/like-")}

    assert {model.id for model in ModelCatalog.builtin().models} < imitated


def test_production_fixes_what_was_planted_and_breaks_nothing() -> None:
    persona = next(one for one in PERSONAS.values() if one.imitates == WEAK_MODEL)
    asked: dict[str, int] = {}
    for strategy in ("baseline", "production"):
        with Simulator(seed=5) as simulator:
            held = asyncio.run(trials(simulator.url, [persona], strategy, range(1, 9)))
        assert all(one.ok for _, one in held if not one.is_control) or strategy == "baseline"
        asked[strategy] = sum(len(one.requests) for _, one in held)
    # A question makes up for what only looks like a call, but it costs a request.
    assert asked["production"] < asked["baseline"]


# A run that fails with a no has passed where a no is the right answer, and only there


class GivesUp:
    """A world whose run fails with a no."""

    def __init__(self, score: Score) -> None:
        self.registry = ToolRegistry()
        self.executor: Any = None
        self.draft: JSON = {}
        self._score = score

    async def converse(self, ask: AskModel) -> RunResult:
        """Fail after the answer."""
        raise run_failure(Fail(ErrorCode.TOOL_ERROR, "it cannot be done"), await ask("Burn it."))

    def judge(self, result: RunResult) -> Score:  # noqa: ARG002  # it is known beforehand
        """Return what is known beforehand."""
        return self._score


@pytest.mark.parametrize(
    ("score", "ended"),
    [
        (Score(declined=True), ("passed", "", "right")),
        (Score(), ("failed", "TOOL_ERROR", "open")),
        (Score(declined=False, misses=(Miss("no reason"),)), ("failed", "TOOL_ERROR", "open")),
        (Score(declined=True, misses=(Miss("it is burnt"),)), ("failed", "TOOL_ERROR", "open")),
    ],
)
def test_a_failure_that_is_the_right_no_has_passed(score: Score, ended: tuple[str, ...]) -> None:
    one = Scenario(id="burns", summary="", begin=lambda _: GivesUp(score), uses_tools=False)
    setup = CellSetup(model="m", config=raw_config(), extra_attempts=0)
    model = ScriptedModel(says("It is too wet."))
    trial, _ = asyncio.run(run_trial(Key(Cell("m"), one.id, 1), TrialCase(one, setup), model))

    assert (trial.status, trial.category, trial.truth) == ended


# Models that call in text alone: they pass every scenario, and nobody asks them anything


DIALECTS = [f"sim/dialect-{row.lower()}" for row in WRITERS]


def requests_of(simulator: Simulator, names: list[str]) -> dict[str, list[int]]:
    """Let models hold every scenario; return how many requests each took, and see that all pass."""
    models = [PERSONAS[name] for name in names]
    scenarios = [name for name, scenario in BY_ID.items() if not scenario.is_control]
    held = asyncio.run(trials(simulator.url, models, "production", scenarios=scenarios))
    assert [(trial.key, trial.category) for _, trial in held if not trial.ok] == []
    counted: dict[str, list[int]] = {}
    for persona, trial in held:
        counted.setdefault(persona.id, []).append(len(trial.requests))
    return counted


@pytest.mark.slow
def test_a_model_that_never_calls_natively_needs_no_request_more(simulator: Simulator) -> None:
    counted = requests_of(simulator, ["sim/clean", *DIALECTS])
    clean = counted.pop("sim/clean")

    assert {name: requests for name, requests in counted.items() if requests != clean} == {}
    assert len(counted) == len(WRITERS)


# Which turn of a run decided, as far as no expectation did


def test_a_record_knows_the_turn_in_which_a_run_ended_without_an_answer() -> None:
    early = says("Done.")
    one = scripted(*[early] * 9)
    assert (one.category, one.turn) == ("NO_TOOL_CALLS", len(one.requests) - 1)
    judged = scripted(GET, PATCH, says("All set."))
    assert (judged.category, judged.turn) == ("ASSERTION_FAILED", None)
    assert [miss.turn for miss in judged.score.misses] == [2]
    refused = scripted(GET, failure(400, "no"))
    assert (refused.status, refused.turn, scripted(*GOOD).turn) == ("failed", 1, None)


# Tests of `surecall.eval.running.trial_run`


# One trial, guarded: crashes and limits of time are records, and concern no other trial


@proves("I28")
def test_a_crash_spoils_its_own_trial_and_no_other() -> None:
    def outcome(key: Key) -> Trial:
        if key.trial == 2 and key.cell == GROK:
            raise RuntimeError("boom")
        return a_trial(key)

    store = Memory()
    report, _ = run(planned(trials=3), Trials(outcome), store)
    crashed = [trial for trial in store.found.values() if not trial.ok]

    assert (report.end_reason, report.passed, report.infra) == ("complete", 10, 2)
    assert {(each.status, each.category, each.error) for each in crashed} == {
        ("infra", "EXCEPTION", "RuntimeError: boom")
    }


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError()])
def test_a_trial_that_ends_itself_spoils_no_other(error: BaseException) -> None:
    def outcome(key: Key) -> Trial:
        if key.trial == 2 and key.cell == GROK:
            raise error
        return a_trial(key)

    report, _ = run(planned(trials=3, jobs=1), Trials(outcome))

    assert (report.end_reason, report.passed, report.infra) == ("complete", 10, 2)


def test_a_trial_that_takes_too_long_is_spoiled_and_the_others_go_on() -> None:
    def pause(key: Key) -> Awaitable[Any]:
        return asyncio.Event().wait() if key.trial == 1 else asyncio.sleep(0)

    store = Memory()
    report, _ = run(planned(trials=2, timeout=0.02), Trials(a_trial, pause), store)
    late = [trial for trial in store.found.values() if not trial.ok]

    assert (report.passed, report.infra) == (4, 4)
    assert {(each.category, each.error) for each in late} == {
        ("TIMEOUT", "not finished within 0.02 s")
    }


def test_a_timeout_of_something_else_is_a_crash() -> None:
    def outcome(key: Key) -> Trial:
        raise TimeoutError(key.scenario)

    store = Memory()
    run(planned(trials=1, timeout=None), Trials(outcome), store)

    assert {trial.category for trial in store.found.values()} == {"EXCEPTION"}


def test_simulated_models_are_asked_again_without_delay() -> None:
    what = planned(seed=7, empty_response_retry_count=0)
    real = what.cells[0]
    sim = msgspec.structs.replace(real, model=Model("sim/clean", simulated=True))

    assert setup_for_cell(real, what).retry == RetryPolicy()
    assert setup_for_cell(sim, what).retry.longest_wait_s < 0.1
    assert (setup_for_cell(sim, what).seed, setup_for_cell(sim, what).extra_attempts) == (7, 0)


def test_a_trace_is_recorded_line_by_line() -> None:
    event = PolicyErrorEvent(run_id="r", turn=0, at=1.0, stage="visible", message="a\nb")
    store = Memory()

    async def trials(key: Key, *_: object) -> tuple[Trial, Trace]:
        return a_trial(key), Trace((event, event))

    run(planned(trials=1), trials, store)
    assert set(store.traces.values()) == {dump_trace(Trace((event, event)))}
    lines = dump_trace(Trace((event, event))).splitlines()
    assert [msgspec.json.decode(line)["message"] for line in lines] == ["a\nb", "a\nb"]


def test_what_the_endpoint_said_last_is_kept() -> None:
    faults = [Fault(ErrorCode.AUTH, name, status=401, hint="Check it.") for name in ("a", "b")]
    events = [
        LlmRequestErrorEvent(fault=fault, attempt=1, elapsed_ms=1, run_id="r", turn=0, at=0.0)
        for fault in faults
    ]

    assert last_request_error(Trace(tuple(events))) == "AUTH (HTTP 401): b. Check it."
    assert last_request_error(Trace(())) == ""


# A scenario whose own code ends in something odd spoils its own trial, and nothing else


SETUP = CellSetup(model="m", config=raw_config())


def raising(error: BaseException) -> Scenario:
    @scenario()
    async def ends(_run: Any) -> None:
        raise error

    return ends


async def trial_of(one: Scenario) -> Trial:
    return (await run_trial(Key(Cell("m"), one.id, 1), TrialCase(one, SETUP), ScriptedModel()))[0]


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError("made up")])
def test_a_scenario_that_ends_itself_is_a_crash(error: BaseException) -> None:
    trial = asyncio.run(trial_of(raising(error)))

    assert (trial.status, trial.category) == ("infra", "EXCEPTION")
    assert trial.error.startswith(type(error).__name__)


def test_a_trial_that_somebody_cancels_is_cancelled() -> None:
    @scenario()
    async def waits(_run: Any) -> None:
        await asyncio.Event().wait()

    async def go() -> bool:
        task = asyncio.create_task(trial_of(waits))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(go())


def with_tool(function: Any, *script: Any) -> Trial:
    @scenario(tools=[function])
    async def uses_it(run: Any) -> None:
        expect.that(await run("Use it."), condition=True, reason="")

    key = Key(Cell("m"), uses_it.id, 1)
    return asyncio.run(run_trial(key, TrialCase(uses_it, SETUP), ScriptedModel(*script)))[0]


def raises_key_error() -> str:
    """Look for something that is not there."""
    nothing: dict[str, str] = {}
    return nothing["missing"]


def returns_nan() -> float:
    """Return what is no number."""
    return float("nan")


def refuses() -> str:
    """Say no, as a tool may."""
    raise ValueError("not today")


@pytest.mark.parametrize("answer", ["Done.", "It does not work."])
def test_a_crash_in_a_tool_of_the_scenario_is_nobodys_failure(answer: str) -> None:
    found = with_tool(tool(raises_key_error), calls("raises_key_error"), says(answer))
    assert (found.status, found.category) == ("infra", "EXCEPTION")
    assert found.error == "raises_key_error raised KeyError: 'missing'"
    spoiled = with_tool(tool(returns_nan), calls("returns_nan"), says(answer))
    assert (spoiled.status, spoiled.error) == (
        "infra",
        "returns_nan returned a value that cannot be serialized to JSON",
    )


def test_a_refusal_by_a_tool_is_for_the_model_to_deal_with() -> None:
    assert with_tool(tool(refuses), calls("refuses"), says("Not today.")).status == "passed"
