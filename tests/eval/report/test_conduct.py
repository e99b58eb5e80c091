"""What runs did and said, in every report: beside the pass rate, for each strategy on its own."""

import msgspec

from surecall.eval.report.common import results_of
from surecall.eval.report.conduct import conduct_json, conduct_row
from surecall.eval.report.markdown import CONDUCT, conduct_table, report
from surecall.eval.report.page.data import Context, report_of
from surecall.eval.report.page.html import render_page
from surecall.eval.report.summary_json import document, summary_by_scenario_and_strategy
from surecall.eval.report.trial_json import trial_document
from surecall.eval.storage.trial import Cell, Conduct, Effects, Score, Served, Trial, Truth
from surecall.values.types import Usage
from tests.support.eval_results import sheet, trial

RAW, GUIDED = Cell("m", strategy="raw"), Cell("m", strategy="guided")
NAME = "work_pay_invoice"


def run(cell: Cell, number: int, truth: Truth, wrong: int = 0, repeated: int = 0) -> Trial:
    return trial(
        cell,
        NAME,
        number,
        "passed" if truth == "right" else "failed",
        truth=truth,
        score=Score(effects=Effects(1 + repeated, wrong, repeated)),
        requests=(Served(0, 1, 1),) * (2 + number),
        usage=Usage(total_tokens=100 * number),
        after_no=3 if truth == "open" else 0,
    )


TRIALS = [
    run(RAW, 1, "false_success", wrong=1),
    run(RAW, 2, "silent", repeated=2),
    run(GUIDED, 1, "right"),
    run(GUIDED, 2, "open"),
]
RESULTS = results_of(sheet(RAW, GUIDED, scenarios=(NAME,)), TRIALS)
PLAIN = [trial(RAW, status="failed"), trial(GUIDED)]
RAW_ROW = ("0/2", "2", "1", "1", "2", "2", "0", "3.5", "150")
GUIDED_ROW = ("1/2", "0", "0", "0", "0", "0", "3", "3.5", "150")


def test_markdown_has_a_table_of_it_and_none_without_such_runs() -> None:
    text = report(RESULTS)

    assert f"## What was done\n\n{CONDUCT}\n\n{conduct_table(RESULTS)}\n\n" in text
    assert f"| `m` | `default` | `raw` | {' | '.join(RAW_ROW)} |" in text
    assert "What was done" not in report(results_of(sheet(RAW, GUIDED), PLAIN))


def test_the_documents_have_it_by_cell_strategy_and_scenario() -> None:
    found = document(RESULTS, run={})
    wanted = {
        "runs": 2,
        "right": 0,
        "silent_wrong": 2,
        "false_success": 1,
        "wrong_effects": 1,
        "repeated_effects": 2,
        "runs_with_such_effects": 2,
        "requests_after_no": 0,
        "requests": 7,
        "requests_per_run": 3.5,
        "tokens": 300,
        "tokens_per_run": 150.0,
    }
    assert found["strategies"]["raw"]["conduct"] == wanted
    assert found["strategies"]["guided"]["conduct"]["right"] == 1
    assert [cell["conduct"]["silent_wrong"] for cell in found["cells"]] == [2, 0]
    by_strategy = summary_by_scenario_and_strategy(RESULTS)
    assert by_strategy["raw"][NAME]["conduct"] == wanted
    plain = document(results_of(sheet(RAW, GUIDED), PLAIN), run={})
    assert plain["cells"][0]["conduct"] is None
    assert "conduct" not in plain["by_scenario"]["happy_path"]
    assert conduct_json(Conduct()) is None
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_the_file_of_a_trial_says_whether_it_told_the_truth() -> None:
    found = trial_document(RESULTS, TRIALS[0], None)
    assert (found["truth"], found["score"]["effects"].wrong) == ("false_success", 1)
    plain = results_of(sheet(RAW, GUIDED), PLAIN)
    assert trial_document(plain, PLAIN[0], None)["truth"] is None


def test_the_page_has_a_section_of_it_and_none_without_such_runs() -> None:
    page = render_page(report_of(TRIALS, Context(sheet=sheet(RAW, GUIDED))))

    assert '<section id="conduct"' in page
    part = page[page.index('id="conduct"') :]
    row = part[part.index("<td>raw</td>") :]
    figures = [cell.partition("</td>")[0] for cell in row.split('<td class="number">')[1:10]]
    assert figures == list(RAW_ROW)
    assert 'id="conduct"' not in render_page(report_of(PLAIN, Context()))


def test_a_row_without_runs_has_figures_all_the_same() -> None:
    assert conduct_row(Conduct()) == ("0/0", "0", "0", "0", "0", "0", "0", "0.0", "0")
