"""Early answers, from the run to the reports; and which server gave them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from surecall import tool
from surecall.eval import expect, scenario
from surecall.eval.analysis.summary import summarise
from surecall.eval.report.common import Column, Sheet, results_of
from surecall.eval.report.markdown import (
    EARLY_ANSWERS,
    MATRIX_COLUMNS,
    NO_TOOLS,
    READERS,
    matrix,
    report,
)
from surecall.eval.report.summary_json import (
    document,
    summary,
    summary_by_scenario,
    summary_by_scenario_and_strategy,
)
from surecall.eval.report.trial_json import trial_document
from surecall.eval.running.trial_run import Case, run_trial, setup_for
from surecall.eval.storage.store import StoreError, merge, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, FalseFinals, Key, Trial
from surecall.runtime.transactions import transaction
from surecall.settings.contract import Contract
from surecall.settings.presets import CONTRACTED, Strategy
from surecall.testing import ScriptedModel, calls, says
from tests.support.eval_results import SAME, key, passed
from tests.support.trials import CELL, trial

BUILD = "b7710-2bbe4c2cf"


@tool
def book(day: str) -> str:
    """Book a day."""
    return f"booked {day}"


@scenario(tools=[book], contract=Contract(all_of=("book",)))
async def books(run: Any) -> None:
    """Book one day."""
    out = await run("Book Monday, then reply exactly: Done.")
    expect.called(out, "book", day="Monday")
    expect.text(out, "Done.")


def held(*script: Any, strategy: Strategy = "contract", **settings: Any) -> Trial:
    setup = setup_for("m", strategy=strategy, contracted=strategy in CONTRACTED, **settings)
    which = Key(Cell("m", strategy=strategy), books.id, 1)
    found, _ = asyncio.run(run_trial(which, Case(books, setup), ScriptedModel(*script)))
    return found


CALLED = calls("book", day="Monday")


def test_a_trial_counts_the_answers_that_came_too_early_and_may_pass_all_the_same() -> None:
    found = held(says("Done."), says("Done!"), CALLED, says("Done."))

    assert (found.status, found.false_finals) == ("passed", 2)
    assert held(CALLED, says("Done.")).false_finals == 0


def test_done_with_nothing_done_is_the_models_failure_and_names_what_is_missing() -> None:
    found = held(says("Done."), says("Done."), says("Done."))

    assert (found.status, found.category) == ("failed", "CONTRACT_UNMET")
    assert found.error == "CONTRACT_UNMET: contract not met: still missing book"
    assert (found.false_finals, found.score.state) == (3, None)


def test_without_a_contract_only_the_first_call_is_owed() -> None:
    found = held(says("Done."), CALLED, says("Done."), strategy="production")

    assert (found.status, found.false_finals) == ("passed", 1)
    assert held(says("Done."), strategy="raw").category == "NO_TOOL_CALLS"


def test_the_answers_of_every_attempt_are_counted() -> None:
    blank = (says("Done."), CALLED, says(""), says(""))
    found = held(*blank, says("Done."), CALLED, says("Done."))

    assert (found.status, found.attempts, found.false_finals) == ("passed", 2, 2)


@pytest.mark.parametrize(
    ("told", "build"),
    [
        ({"system_fingerprint": f" {BUILD} "}, BUILD),
        ({"system_fingerprint": None}, ""),
        ({"system_fingerprint": 7}, ""),
        ({"system_fingerprint": "x" * 500}, "x" * 79 + "…"),
        ({}, ""),
    ],
)
def test_each_request_tells_which_build_served_it(told: dict[str, Any], build: str) -> None:
    found = held(CALLED | told, says("Done."))

    assert [served.build for served in found.requests] == [build, ""]
    assert found.builds == ((build,) if build else ())


def test_runs_that_an_earlier_version_wrote_can_still_be_put_together(tmp_path: Path) -> None:
    with open_or_resume(tmp_path / "a", SAME) as into, open_or_resume(tmp_path / "b", SAME) as old:
        for store in (into, old):
            store.add(passed(key()))
        with transaction(into._connection):
            row = into._records.find(("sim/a", "default", "production", "happy_path", 1))
            assert row is not None
            line = json.loads(row.record)
            del line["false_finals"]
            outcome = (row.status, row.category, row.elapsed_ms, json.dumps(line))
            into._records.replace_trial(row, outcome, None)
        assert merge([old], into) == 0
        other = passed(key(), elapsed_ms=6)
        with pytest.raises(StoreError, match="holds another result"):
            into.add(other)
    with open_for_reading(into.directory) as store:
        assert list(store.trials()) == [passed(key())]


RAW = Cell(CELL.model, strategy="raw")
TRIALS = [
    trial("passed", 1, false_finals=2, requests=[{"turn": 0, "latency_ms": 1, "attempt": 1}]),
    trial("failed", 2, false_finals=3),
    trial("passed", 3),
    trial("skipped", 4),
    trial("failed", 1, "other", RAW, false_finals=1),
    trial(
        "passed",
        1,
        "chat_only",
        requests=[
            {"turn": 0, "latency_ms": 1, "attempt": 1, "build": BUILD},
            {"turn": 1, "latency_ms": 1, "attempt": 1, "build": BUILD},
        ],
    ),
]


def test_figures_say_how_many_answers_came_too_early_in_how_many_runs() -> None:
    found = summarise(TRIALS)

    assert found.totals.false_finals == FalseFinals(6, 3, 1)
    assert found.strategies["production"].false_finals == FalseFinals(5, 2, 1)
    by_scenario = {each.scenario: each.false_finals for each in found.totals.scenarios}
    assert by_scenario["happy_path"] == FalseFinals(5, 2, 1)
    assert by_scenario["chat_only"] == FalseFinals()
    assert found.totals.builds == {BUILD: 1}
    assert {each.cell: each.totals.false_finals.answers for each in found.cells} == {
        CELL: 5,
        RAW: 1,
    }


def test_the_summaries_hold_them_for_each_cell_scenario_and_all() -> None:
    results = results_of(Sheet((Column(CELL), Column(RAW))), TRIALS)
    whole = summary(results, ts="", output_dir="")
    of_all = {"answers": 6, "runs": 3, "passed": 1}

    assert whole["false_finals"] == of_all
    assert [each["false_finals"]["answers"] for each in whole["models"]] == [5, 1]
    assert [run["false_finals"] for run in whole["models"][0]["run_results"]] == [0, 2, 3, 0]
    assert whole["system_fingerprints"] == [BUILD]
    assert summary_by_scenario(results)["happy_path"]["false_finals"]["runs"] == 2
    by_strategy = summary_by_scenario_and_strategy(results)
    assert by_strategy["raw"]["other"]["false_finals"]["answers"] == 1
    told = document(results, run={})
    assert told["totals"]["false_finals"] == of_all
    assert told["system_fingerprints"] == [BUILD]
    assert trial_document(results, TRIALS[1], None)["false_finals"] == 3


def test_the_report_has_a_column_for_them_where_there_are_any() -> None:
    results = results_of(Sheet((Column(CELL), Column(RAW)), (), {"served_by": "here 1.0"}), TRIALS)
    text = report(results)
    names = matrix(results).splitlines()[0]

    assert "  - Early answers: 5, in 2 runs, 1 of which passed" in text
    assert "  - Early answers: 1, in 1 run, 0 of which passed" in text
    assert f"- Served by: `here 1.0`, `{BUILD}`" in text
    columns = [name for name in MATRIX_COLUMNS if name not in {READERS, NO_TOOLS}]
    assert names == f"| {' | '.join(name.removesuffix(':') for name in columns)} |"
    assert "| 5 in 2 runs | happy_path x1; ASSERTION_FAILED x1 |" in text
    assert "| 1 in 1 run | other x1; ASSERTION_FAILED x1 |" in text
    quiet = report(results_of(Sheet((Column(CELL),)), [trial()]))
    assert EARLY_ANSWERS.removesuffix(":") not in quiet
    assert "Served by" not in quiet
