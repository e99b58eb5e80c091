"""The tables: in the original's columns, and safe against any text."""

import msgspec

from surecall.eval.analysis.paired import Comparison, Comparisons
from surecall.eval.analysis.stats import newcombe
from surecall.eval.analysis.summary import summarise
from surecall.eval.report.common import Column, Results, Sheet, results_of
from surecall.eval.report.markdown import (
    EARLY_ANSWERS,
    MATRIX_COLUMNS,
    NO_TOOLS,
    READERS,
    SIMULATED,
    STRATEGY,
    comparison_table,
    matrix,
    recommendation_table,
    report,
)
from surecall.eval.report.summary_json import document, summary
from surecall.eval.storage.trial import Cell, Miss, Score, Trial
from surecall.settings.config import all_settings
from surecall.settings.presets import resolve
from tests.support.eval_results import HOSTILE, NAMES, sheet, trial


def failures(cell: Cell, scenario: str, count: int, category: str) -> list[Trial]:
    return [
        trial(
            cell,
            scenario,
            number,
            "failed" if number <= count else "passed",
            category=category,
            elapsed_ms=12,
        )
        for number in range(1, 11)
    ]


def test_the_matrix_has_the_originals_columns_and_words() -> None:
    cell = Cell("deepseek/deepseek-chat-v3-0324:nitro")
    made = [
        *failures(cell, "happy_path", 2, "ASSERTION_FAILED"),
        *failures(cell, "missing_workspace_id", 4, "TOOL_ERROR"),
        *failures(cell, "type_error_recovery", 4, "ASSERTION_FAILED"),
        *failures(cell, "long_arguments_guard", 3, "ASSERTION_FAILED"),
        *(trial(cell, "chat_only", number, elapsed_ms=9999) for number in range(1, 11)),
    ]
    order = ("happy_path", "missing_workspace_id", "type_error_recovery")
    rows = matrix(results_of(sheet(cell, scenarios=order), made)).splitlines()

    hidden = {STRATEGY, READERS, NO_TOOLS, EARLY_ANSWERS}
    names = [name for name in MATRIX_COLUMNS if name not in hidden]
    assert rows[0] == f"| {' | '.join(name.removesuffix(':') for name in names)} |"
    assert rows[1] == "|---|---|---:|---:|---:|---:|---|"
    assert rows[2] == (
        "| `deepseek/deepseek-chat-v3-0324:nitro` | `default` | 27/40 | 67.5% [52.0, 79.9] | 10/10 "
        "| 12 | missing_workspace_id x4; type_error_recovery x4; ASSERTION_FAILED x9 |"
    )


def test_the_report_says_what_is_simulated_spoiled_and_recommended() -> None:
    column = Column(Cell("sim/a", strategy="raw"), simulated=True)
    other = Column(Cell("sim/a"), simulated=True)
    made = [trial(column.cell, status="infra"), trial(other.cell), trial(other.cell, "chat_only")]
    text = report(
        results_of(Sheet((column, other), NAMES), made),
        [("sim/a", "default (no overrides)", "-", "100% of 1 trial", "handled", "-")],
    )

    assert SIMULATED in text
    assert "- Spoiled by the infrastructure, in no tool rate: 1" in text
    assert "| `sim/a` | `default` | `raw` | - | - | - | - | infra x1 (not scored) |" in text
    assert "- Tool scenarios only (without `chat_only`): `1/1` ok (`100.00%`)" in text
    assert "## Simulated: what was handled" in text
    assert "| `sim/a` | default (no overrides) | - | 100% of 1 trial | handled | - |" in text
    assert "| what was on | notes | handled? | +N runs |" in text
    real = report(
        results_of(sheet(Cell("m")), [trial(Cell("m"))]),
        [("m", "default (no overrides)", "-", "Yes", "100% of 1 trial", "use", "+0")],
    )
    assert SIMULATED not in real
    assert "## Recommendations" in real
    assert "| recommended? | notes | decision | +N runs |" in real


def test_the_report_says_what_calls_were_read_from() -> None:
    cells = [Cell("m"), Cell("m", strategy="baseline")]
    read = [resolve(), resolve(strategy="baseline")]
    columns = [
        Column(cell, config=all_settings(config)) for cell, config in zip(cells, read, strict=True)
    ]
    both = report(results_of(Sheet(tuple(columns)), map(trial, cells)))
    one = report(results_of(Sheet((columns[1],)), [trial(cells[1])]))

    assert "| `baseline` | native | 1/1 |" in both
    assert "| `production` | native, tags in text, failed generations | 1/1 |" in both
    assert "Calls were read from" not in both
    assert "- Calls were read from: native\n" in one
    assert READERS not in one


def test_scenarios_without_tools_are_shown_apart() -> None:
    cell = Cell("m")
    made = [
        trial(cell),
        trial(cell, "mine", 1, tools=False),
        trial(cell, "mine", 2, "failed", tools=False),
    ]
    text = report(results_of(sheet(cell), made))
    item = document(results_of(sheet(cell), made), run={})

    assert "- Scenarios without tools (other than `chat_only`), in no tool rate: `1/2` ok" in text
    assert "| `m` | `default` | 1/1 | 100.0% [20.7, 100.0] | - | 1/2 |" in text
    assert "ASSERTION_FAILED x" not in text
    assert item["totals"]["no_tools_runs"] == item["cells"][0]["no_tools_runs"] == 2
    assert item["cells"][0]["no_tools_ok_rate"] == 0.5
    assert item["cells"][0]["runs"] == 3


def comparison(name: str) -> Comparison:
    return Comparison(
        model=name, profile=name, first=name, second=name, both=0, fixed=0, broken=0, neither=1
    )


def of_two_strategies() -> Results:
    """Ten pairs, of which eight are fixed and none is broken; in one more, a run was spoiled."""
    before, after = Cell("m", strategy="baseline"), Cell("m")
    made = [
        *failures(before, "happy_path", 8, "ASSERTION_FAILED"),
        *failures(after, "happy_path", 0, ""),
        trial(after, "happy_path", 11, "infra"),
        trial(before, "happy_path", 11),
    ]
    return results_of(sheet(before, after), made)


def test_the_report_compares_strategies_pair_by_pair() -> None:
    text = report(of_two_strategies())

    assert "## Strategies, on the same conversations" in text
    low, high = newcombe(2, 8, 0, 0)
    row = (
        "| `baseline` to `production` | 2/10 to 10/10 | 8 | 0 "
        f"| +80.0 [{100 * low:+.1f}, {100 * high:+.1f}] | 0.0078 | 0.0078 | better |"
    )
    assert f"| `m` | `default` {row}" in text
    assert f"| all | all {row}" in text
    assert "## Strategies" not in report(results_of(sheet(Cell("m")), [trial(Cell("m"))]))


def test_without_pairs_there_is_no_difference() -> None:
    row = comparison_table(Comparisons((comparison("m"), unpaired("m")))).splitlines()[-1]

    assert row.endswith("| 0/0 to 0/0 | 0 | 0 | - | 1 | 1 | no evidence |")


def unpaired(name: str) -> Comparison:
    return msgspec.structs.replace(comparison(name), neither=0, unpaired=1)


def test_the_report_has_the_end_to_end_rate_and_the_chance_of_a_row() -> None:
    whole = of_two_strategies()
    text = report(results_of(whole.sheet, under_production(whole)))

    assert text.splitlines()[2] == "- Overall: `10/11` ok (`90.91%`)"
    assert "- The same end to end (what the infrastructure spoiled is a failure): `10/11`" in text
    assert "a scenario passes k times in a row: 1: 100.0%, 2: 100.0%" in text
    assert "pass^k" not in report(results_of(sheet(), [trial(Cell("m"), status="infra")]))


def under_production(results: Results) -> list[Trial]:
    return [
        trial(one.key.cell, one.key.scenario, one.key.trial, one.status)
        for one in results.all
        if one.key.cell.strategy == "production"
    ]


def test_strategies_have_their_own_sums_and_chances_and_nothing_is_pooled() -> None:
    text = report(of_two_strategies())
    head = text[: text.index("## Model")]

    assert head.count("- Under `") == 2
    assert head.count("  - Overall: ") == head.count("Overall") == 2
    assert head.count("  - pass^k") == head.count("pass^k") == 2
    assert "`13/22`" not in head


def test_the_document_has_the_figures_of_the_report() -> None:
    results = of_two_strategies()
    found = document(results, run={})
    figures = summarise(
        [trial(one.key.cell, one.key.scenario, one.key.trial, one.status) for one in results.all]
    )

    assert (found["totals"]["end_to_end"], found["totals"]["pass_hat"]) == (None, None)
    for name, totals in figures.strategies.items():
        own = found["strategies"][name]
        assert own["tool"] == msgspec.structs.asdict(totals.tool)
        assert own["end_to_end"] == msgspec.structs.asdict(totals.end_to_end)
        assert (own["pass_hat"], own["conduct"]) == (list(totals.pass_hat), None)
    alone = document(results_of(results.sheet, under_production(results)), run={})
    assert alone["totals"]["pass_hat"] == found["strategies"]["production"]["pass_hat"]
    (row,), (overall,) = found["comparisons"]["rows"], found["comparisons"]["overall"]
    assert (row["first"], row["second"], row["verdict"]) == ("baseline", "production", "better")
    assert (row["p"], row["p_adjusted"]) == (0.0078125, 0.0078125)
    assert (row["low"], row["high"], overall["difference"]) == (
        figures.comparisons.rows[0].low,
        figures.comparisons.rows[0].high,
        0.8,
    )
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_no_text_breaks_out_of_a_table_or_becomes_markup() -> None:
    cell = Cell(HOSTILE, HOSTILE)
    made = [trial(cell, HOSTILE, status="failed", category=HOSTILE)]
    for table in (
        matrix(results_of(sheet(), made)),
        recommendation_table([(HOSTILE, HOSTILE, HOSTILE, "", HOSTILE, HOSTILE, HOSTILE)]),
        recommendation_table([(HOSTILE, HOSTILE, "", HOSTILE, HOSTILE, HOSTILE)], simulated=True),
        comparison_table(Comparisons((comparison(HOSTILE),))),
    ):
        _, ruler, row = table.splitlines()
        assert row.count("|") == ruler.count("|")
        assert not set("<\x1b\n\\[]") & set(
            row.replace(" [0.0, 79.3]", "").replace("[-84.2, +84.2]", "")
        )
        assert "`" not in row


def test_a_cell_in_which_nothing_could_run_has_no_rates() -> None:
    cell = Cell("minimax/minimax-m2-her")
    results = results_of(sheet(cell), [trial(cell, status="skipped")])
    (item,) = summary(results, ts="", output_dir="")["models"]

    assert (item["runs"], item["skipped"], list(item["run_results"])) == (0, 1, [])
    assert (item["ok_rate"], item["tool_ok_rate"], item["tool_ok_interval"]) == (None, None, None)
    assert "| `minimax/minimax-m2-her` | `default` | - | - | - | - | - |" in matrix(results)
    assert "- Skipped, because they cannot apply: 1" in report(results)
    assert "- Overall: none" in report(results)


def missed(number: int, check: str, got: str, cell: Cell) -> Trial:
    score = Score(misses=(Miss(check, "expected|this", got),))
    return trial(cell, "happy_path", number, "failed", score=score)


def test_a_table_says_why_runs_failed_by_what_was_not_met() -> None:
    one, other = Cell("a"), Cell("b")
    made = [
        *(missed(at, 'the answer is "Done."', "hm", one) for at in (1, 2)),
        missed(1, 'the answer is "Done."', "no <b>", other),
        trial(one, "chat_only", 1, "infra", error="TIMEOUT: it took too long"),
        trial(one, "chat_only", 2),
    ]
    text = report(results_of(sheet(one, other), made))

    assert "## Why runs failed\n\n| not met | expected | got | runs | scenarios | models |" in text
    assert (
        '| the answer is "Done." | expected&#124;this | hm x2; no &#60;b&#62; x1 | 3 | '
        "happy_path | a x2; b x1 | `ASSERTION_FAILED` |"
    ) in text
    assert "| - | it took too long | 1 |" in text
    assert "| `TIMEOUT` (infrastructure, not scored) |" in text
    assert "Why runs failed" not in report(results_of(sheet(one), made[-1:]))


def test_the_rarest_causes_and_texts_are_only_counted() -> None:
    cell = Cell("m")
    many = [missed(at, f"check {at:02}", "x", cell) for at in range(1, 25)]
    text = report(results_of(sheet(cell), many))
    assert ("check 20" in text, "check 21" in text) == (True, False)
    assert "And 4 more, each in fewer runs or as many." in text
    varied = [missed(at, "check", f"text {at}", cell) for at in range(1, 9)]
    assert "text 1 x1; text 2 x1; text 3 x1; … |" in report(results_of(sheet(cell), varied))
