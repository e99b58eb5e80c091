"""Early answers, from the run to the reports; and which server gave them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from surecall.eval import expect, scenario
from surecall.eval.analysis.summary import summarize
from surecall.eval.report.markdown import (
    CALL_SOURCES,
    MATRIX_COLUMNS,
    NO_TOOLS,
    PREMATURE_ANSWERS,
    markdown_report,
    matrix_table,
)
from surecall.eval.report.run_results import Sheet, SheetColumn, collect_results
from surecall.eval.report.summary_json import (
    results_document,
    summary_by_scenario,
    summary_by_scenario_and_strategy,
    summary_document,
    trial_json,
)
from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import merge, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, FalseFinals, Key, Trial
from surecall.runtime.sqlite_store import transaction
from surecall.settings.contract import Contract
from surecall.settings.presets import CONTRACT_STRATEGIES, Strategy
from surecall.testing import ScriptedModel, calls, says
from tests.support.reports import BUILD, PREMATURE_TRIALS, RAW_CELL, book
from tests.support.trials import CELL, SAME, key, passed, trial


@scenario(tools=[book], contract=Contract(all_of=("book",)))
async def books(run: Any) -> None:
    """Book one day."""
    out = await run("Book Monday, then reply exactly: Done.")
    expect.called(out, "book", day="Monday")
    expect.text(out, "Done.")


def held(*script: Any, strategy: Strategy = "contract", **settings: Any) -> Trial:
    setup = make_cell_setup(
        "m", strategy=strategy, contracted=strategy in CONTRACT_STRATEGIES, **settings
    )
    which = Key(Cell("m", strategy=strategy), books.id, 1)
    found, _ = asyncio.run(run_trial(which, TrialCase(books, setup), ScriptedModel(*script)))
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
            row = into._records.find_by_index(("sim/a", "default", "production", "happy_path", 1))
            assert row is not None
            line = json.loads(row.record)
            del line["false_finals"]
            outcome = (row.status, row.category, row.elapsed_ms, json.dumps(line))
            into._records.replace_trial(row, outcome, None)
        assert merge([old], into) == 0
        other = passed(key(), elapsed_ms=6)
        with pytest.raises(StoreError, match="already has a different result"):
            into.add(other)
    with open_for_reading(into.directory) as store:
        assert list(store.trials()) == [passed(key())]


def test_figures_say_how_many_answers_came_too_early_in_how_many_runs() -> None:
    found = summarize(PREMATURE_TRIALS)

    assert found.totals.false_finals == FalseFinals(6, 3, 1)
    assert found.strategies["production"].false_finals == FalseFinals(5, 2, 1)
    by_scenario = {each.scenario: each.false_finals for each in found.totals.scenarios}
    assert by_scenario["happy_path"] == FalseFinals(5, 2, 1)
    assert by_scenario["chat_only"] == FalseFinals()
    assert found.totals.builds == {BUILD: 1}
    assert {each.cell: each.totals.false_finals.answers for each in found.cells} == {
        CELL: 5,
        RAW_CELL: 1,
    }


def test_the_summaries_hold_them_for_each_cell_scenario_and_all() -> None:
    results = collect_results(Sheet((SheetColumn(CELL), SheetColumn(RAW_CELL))), PREMATURE_TRIALS)
    whole = summary_document(results, ts="", output_dir="")
    of_all = {"answers": 6, "runs": 3, "passed": 1}

    assert whole["false_finals"] == of_all
    assert [each["false_finals"]["answers"] for each in whole["models"]] == [5, 1]
    assert [run["false_finals"] for run in whole["models"][0]["run_results"]] == [0, 2, 3, 0]
    assert whole["system_fingerprints"] == [BUILD]
    assert summary_by_scenario(results)["happy_path"]["false_finals"]["runs"] == 2
    by_strategy = summary_by_scenario_and_strategy(results)
    assert by_strategy["raw"]["other"]["false_finals"]["answers"] == 1
    told = results_document(results, run={})
    assert told["totals"]["false_finals"] == of_all
    assert told["system_fingerprints"] == [BUILD]
    assert trial_json(results, PREMATURE_TRIALS[1], None)["false_finals"] == 3


def test_the_report_has_a_column_for_them_where_there_are_any() -> None:
    results = collect_results(
        Sheet((SheetColumn(CELL), SheetColumn(RAW_CELL)), (), {"served_by": "here 1.0"}),
        PREMATURE_TRIALS,
    )
    text = markdown_report(results)
    names = matrix_table(results).splitlines()[0]

    assert "  - Premature answers: 5, in 2 runs, 1 of which passed" in text
    assert "  - Premature answers: 1, in 1 run, 0 of which passed" in text
    assert f"- Served by: `here 1.0`, `{BUILD}`" in text
    columns = [name for name in MATRIX_COLUMNS if name not in {CALL_SOURCES, NO_TOOLS}]
    assert names == f"| {' | '.join(name.removesuffix(':') for name in columns)} |"
    assert "| 5 in 2 runs | happy_path x1; ASSERTION_FAILED x1 |" in text
    assert "| 1 in 1 run | other x1; ASSERTION_FAILED x1 |" in text
    quiet = markdown_report(collect_results(Sheet((SheetColumn(CELL),)), [trial()]))
    assert PREMATURE_ANSWERS.removesuffix(":") not in quiet
    assert "Served by" not in quiet


def test_the_report_counts_answers_that_claim_what_no_call_did() -> None:
    made = [trial(unsupported_claims=2), trial("failed", 2, unsupported_claims=1)]
    results = collect_results(Sheet((SheetColumn(CELL),)), made)

    assert "- Answers that claim what no call did: 3" in markdown_report(results)
    assert results_document(results, run={})["totals"]["unsupported_claims"] == 3
    assert trial_json(results, made[0], None)["unsupported_claims"] == 2
