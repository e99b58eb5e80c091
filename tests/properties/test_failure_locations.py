"""Whatever a model does wrong, a failed trial says what was expected, what came, and where.

The turn is one of the run's trace. A call that failed and was repaired later is never to blame.
"""

import asyncio

import pytest

from surecall import OpenAICompatible, RetryPolicy
from surecall.eval.analysis.classification import ASSERTION_FAILED, MEANINGS
from surecall.eval.analysis.failure_causes import Cause, causes_of
from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.settings.presets import Strategy
from surecall.simulator.server import Simulator
from surecall.testing import calls, says
from surecall.values.events import LlmRequestStartEvent, ToolCallEndEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON
from tests.support.scenario_packs import scripted

BAD = (
    "sim/sloppy",
    "sim/shortcut",
    "sim/apologetic",
    "sim/talkative",
    "sim/premature",
    "sim/chatty-final",
    "sim/obeys-injection",
    "sim/circling",
    "sim/stubborn",
    "sim/unmoved",
    "sim/mute",
    "sim/http-400-context",
)
EVERY = (*SCENARIOS, *WORK)
QUICK = RetryPolicy(first_wait_s=0.001, longest_wait_s=0.002)


async def held(url: str, strategy: Strategy) -> list[tuple[Trial, Trace]]:
    gate = asyncio.Semaphore(16)
    client = OpenAICompatible(url)

    async def one(model: str, scenario: Scenario) -> tuple[Trial, Trace]:
        setup = make_cell_setup(model, strategy=strategy, retry=QUICK, simulated=True)
        key = Key(Cell(model, strategy=strategy), scenario.id, 1)
        async with gate:
            return await run_trial(key, TrialCase(scenario, setup), client)

    async with client:
        return await asyncio.gather(*(one(model, each) for model in BAD for each in EVERY))


@pytest.fixture(scope="module", params=["raw", "production"])
def failed(request: pytest.FixtureRequest) -> list[tuple[Trial, Trace]]:
    with Simulator(seed=11) as simulator:
        ended = asyncio.run(held(simulator.url, request.param))
    return [(trial, trace) for trial, trace in ended if trial.status == "failed"]


def repaired(cause: Cause, trace: Trace) -> bool:
    """Whether the call that is blamed failed, and the same tool succeeded later."""
    ends = [event.result for event in trace if isinstance(event, ToolCallEndEvent)]
    at = next(at for at, result in enumerate(ends) if result.call_id == cause.call_id)
    later = ends[at + 1 :]
    return not ends[at].ok and any(one.ok and one.name == ends[at].name for one in later)


@pytest.mark.slow
def test_every_scenario_is_failed_by_some_bad_model(failed: list[tuple[Trial, Trace]]) -> None:
    assert {trial.key.scenario for trial, _ in failed} == {scenario.id for scenario in EVERY}
    judged = {trial.key.scenario for trial, _ in failed if trial.category == ASSERTION_FAILED}
    # No simulated model gives these a wrong answer: they are left without one.
    unharmed = {"common_knowledge", "told_already", "missing_booking", "full_course"}
    assert {scenario.id for scenario in EVERY} - judged == {f"work_{name}" for name in unharmed}


@pytest.mark.parametrize(
    ("name", "script", "got", "turn"),
    [
        ("work_common_knowledge", [], "Porto", 0),
        ("work_told_already", [], "0000", 0),
        ("work_missing_booking", [calls("find_bookings", guest="Nadia Rahimi")], "Cancelled.", 1),
        ("work_full_course", [calls("find_courses", topic="Spanish")], "Enrolled.", 1),
    ],
)
def test_a_wrong_answer_is_blamed_on_the_last_turn(
    name: str, script: list[JSON], got: str, turn: int
) -> None:
    found = scripted(name, *script, says(got))
    (cause,) = causes_of(found)
    assert (found.status, cause.got, cause.turn) == ("failed", f'"{got}"', turn)


@pytest.mark.slow
def test_every_miss_says_what_was_expected_and_what_came(
    failed: list[tuple[Trial, Trace]],
) -> None:
    for trial, _ in failed:
        assert trial.score.misses
        for miss in trial.score.misses:
            assert miss.check, trial
            assert miss.expected, trial
            assert miss.got, trial


@pytest.mark.slow
def test_every_cause_lies_in_a_turn_of_the_trace(failed: list[tuple[Trial, Trace]]) -> None:
    for trial, trace in failed:
        turns = {event.turn for event in trace if isinstance(event, LlmRequestStartEvent)}
        assert causes_of(trial), trial
        assert {cause.turn for cause in causes_of(trial)} <= turns, trial


@pytest.mark.slow
def test_no_repaired_call_is_to_blame(failed: list[tuple[Trial, Trace]]) -> None:
    blamed = [(cause, trace) for trial, trace in failed for cause in causes_of(trial)]
    by_call = [(cause, trace) for cause, trace in blamed if cause.call_id]
    assert by_call
    assert not [cause for cause, trace in by_call if repaired(cause, trace)]


@pytest.mark.slow
def test_the_words_of_a_check_are_the_same_in_every_trial_of_a_scenario(
    failed: list[tuple[Trial, Trace]],
) -> None:
    checks: dict[str, set[str]] = {}
    for trial, _ in failed:
        checks.setdefault(trial.key.scenario, set()).update(m.check for m in trial.score.misses)
    assert max(map(len, checks.values())) <= 6, checks


@pytest.mark.slow
def test_a_run_that_ended_for_another_reason_is_told_in_a_sentence(
    failed: list[tuple[Trial, Trace]],
) -> None:
    others = [trial for trial, _ in failed if trial.category != ASSERTION_FAILED]
    assert len({trial.category for trial in others}) >= 4
    for trial in others:
        assert causes_of(trial)[0].check == MEANINGS[trial.category]
        assert causes_of(trial)[0].turn == trial.turn
        assert trial.turn is not None
