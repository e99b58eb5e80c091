"""Tests of `surecall.eval.report.markdown`."""

from typing import Any

import msgspec
import pytest

from surecall.eval.analysis.comparisons import Comparison, Comparisons
from surecall.eval.analysis.stats import newcombe_interval
from surecall.eval.analysis.summary import summarize
from surecall.eval.report.markdown import (
    CALL_SOURCES,
    MATRIX_COLUMNS,
    NO_TOOLS,
    PREMATURE_ANSWERS,
    SIMULATED_NOTICE,
    STRATEGY,
    agreement_heads,
    agreement_json,
    agreement_notices,
    agreement_rows,
    agreement_section,
    compare_endpoints,
    comparison_table,
    escape_text,
    markdown_report,
    matrix_table,
    recommendation_table,
    request_count_lines,
    short_endpoint_names,
)
from surecall.eval.report.run_results import RunResults, Sheet, SheetColumn, collect_results
from surecall.eval.report.summary_json import results_document, summary_document
from surecall.eval.storage.trial import Cell, Miss, Score, Trial
from surecall.settings.config import all_settings
from surecall.settings.presets import resolve
from tests.support.trials import HOSTILE, NAMES, report_trial, sheet, trial

# The tables: in the original's columns, and safe against any text


def failures(cell: Cell, scenario: str, count: int, category: str) -> list[Trial]:
    return [
        report_trial(
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
        *(report_trial(cell, "chat_only", number, elapsed_ms=9999) for number in range(1, 11)),
    ]
    order = ("happy_path", "missing_workspace_id", "type_error_recovery")
    rows = matrix_table(collect_results(sheet(cell, scenarios=order), made)).splitlines()

    hidden = {STRATEGY, CALL_SOURCES, NO_TOOLS, PREMATURE_ANSWERS}
    names = [name for name in MATRIX_COLUMNS if name not in hidden]
    assert rows[0] == f"| {' | '.join(name.removesuffix(':') for name in names)} |"
    assert rows[1] == "|---|---|---:|---:|---:|---:|---|"
    assert rows[2] == (
        "| `deepseek/deepseek-chat-v3-0324:nitro` | `default` | 27/40 | 67.5% [52.0, 79.9] | 10/10 "
        "| 12 | missing_workspace_id x4; type_error_recovery x4; ASSERTION_FAILED x9 |"
    )


def test_the_report_says_what_is_simulated_spoiled_and_recommended() -> None:
    column = SheetColumn(Cell("sim/a", strategy="raw"), simulated=True)
    other = SheetColumn(Cell("sim/a"), simulated=True)
    made = [
        report_trial(column.cell, status="infra"),
        report_trial(other.cell),
        report_trial(other.cell, "chat_only"),
    ]
    text = markdown_report(
        collect_results(Sheet((column, other), NAMES), made),
        [("sim/a", "default (no overrides)", "-", "100% of 1 trial", "handled", "-")],
    )

    assert SIMULATED_NOTICE in text
    assert "- Infrastructure errors, not in the tool rate: 1" in text
    assert "| `sim/a` | `default` | `raw` | - | - | - | - | infra x1 (not scored) |" in text
    assert "- Tool scenarios only (without `chat_only`): `1/1` ok (`100.00%`)" in text
    assert "## Simulated: what surecall handled" in text
    assert "| `sim/a` | default (no overrides) | - | 100% of 1 trial | handled | - |" in text
    assert "| active workarounds | notes | handled? | +N runs |" in text
    real = markdown_report(
        collect_results(sheet(Cell("m")), [report_trial(Cell("m"))]),
        [("m", "default (no overrides)", "-", "Yes", "100% of 1 trial", "use", "+0")],
    )
    assert SIMULATED_NOTICE not in real
    assert "## Recommendations" in real
    assert "| recommended? | notes | decision | +N runs |" in real


def test_the_report_says_what_calls_were_read_from() -> None:
    cells = [Cell("m"), Cell("m", strategy="baseline")]
    read = [resolve(), resolve(strategy="baseline")]
    columns = [
        SheetColumn(cell, config=all_settings(config))
        for cell, config in zip(cells, read, strict=True)
    ]
    both = markdown_report(collect_results(Sheet(tuple(columns)), map(report_trial, cells)))
    one = markdown_report(collect_results(Sheet((columns[1],)), [report_trial(cells[1])]))

    assert "| `baseline` | native | 1/1 |" in both
    assert "| `production` | native, tags in text, failed generations | 1/1 |" in both
    assert "Calls parsed from" not in both
    assert "- Calls parsed from: native\n" in one
    assert CALL_SOURCES not in one


def test_scenarios_without_tools_are_shown_apart() -> None:
    cell = Cell("m")
    made = [
        report_trial(cell),
        report_trial(cell, "mine", 1, tools=False),
        report_trial(cell, "mine", 2, "failed", tools=False),
    ]
    text = markdown_report(collect_results(sheet(cell), made))
    item = results_document(collect_results(sheet(cell), made), run={})

    assert (
        "- Scenarios without tools (other than `chat_only`), not in the tool rate: `1/2` ok" in text
    )
    assert "| `m` | `default` | 1/1 | 100.0% [20.7, 100.0] | - | 1/2 |" in text
    assert "ASSERTION_FAILED x" not in text
    assert item["totals"]["no_tools_runs"] == item["cells"][0]["no_tools_runs"] == 2
    assert item["cells"][0]["no_tools_ok_rate"] == 0.5
    assert item["cells"][0]["runs"] == 3


def comparison(name: str) -> Comparison:
    return Comparison(
        model=name, profile=name, first=name, second=name, both=0, fixed=0, broken=0, neither=1
    )


def of_two_strategies() -> RunResults:
    """Ten pairs, of which eight are fixed and none is broken; in one more, a run was spoiled."""
    before, after = Cell("m", strategy="baseline"), Cell("m")
    made = [
        *failures(before, "happy_path", 8, "ASSERTION_FAILED"),
        *failures(after, "happy_path", 0, ""),
        report_trial(after, "happy_path", 11, "infra"),
        report_trial(before, "happy_path", 11),
    ]
    return collect_results(sheet(before, after), made)


def test_the_report_compares_strategies_pair_by_pair() -> None:
    text = markdown_report(of_two_strategies())

    assert "## Strategies on the same conversations" in text
    low, high = newcombe_interval(2, 8, 0, 0)
    row = (
        "| `baseline` to `production` | 2/10 to 10/10 | 8 | 0 "
        f"| +80.0 [{100 * low:+.1f}, {100 * high:+.1f}] | 0.0078 | 0.0078 | better |"
    )
    assert f"| `m` | `default` {row}" in text
    assert f"| all | all {row}" in text
    assert "## Strategies" not in markdown_report(
        collect_results(sheet(Cell("m")), [report_trial(Cell("m"))])
    )


def test_without_pairs_there_is_no_difference() -> None:
    row = comparison_table(Comparisons((comparison("m"), unpaired("m")))).splitlines()[-1]

    assert row.endswith("| 0/0 to 0/0 | 0 | 0 | - | 1 | 1 | no evidence |")


def unpaired(name: str) -> Comparison:
    return msgspec.structs.replace(comparison(name), neither=0, unpaired=1)


def test_the_report_has_the_end_to_end_rate_and_the_chance_of_a_row() -> None:
    whole = of_two_strategies()
    text = markdown_report(collect_results(whole.sheet, under_production(whole)))

    assert text.splitlines()[2] == "## Totals"
    assert text.splitlines()[4] == "- Overall: `10/11` ok (`90.91%`)"
    assert "- The same end to end (infrastructure errors count as failures): `10/11`" in text
    assert "a scenario passes k times in a row): 1: 100.0%, 2: 100.0%" in text
    assert "pass^k" not in markdown_report(
        collect_results(sheet(), [report_trial(Cell("m"), status="infra")])
    )


def under_production(results: RunResults) -> list[Trial]:
    return [
        report_trial(one.key.cell, one.key.scenario, one.key.trial, one.status)
        for one in results.all_entries
        if one.key.cell.strategy == "production"
    ]


def test_strategies_have_their_own_sums_and_chances_and_nothing_is_pooled() -> None:
    text = markdown_report(of_two_strategies())
    head = text[: text.index("## Model")]

    assert head.count("- Under `") == 2
    assert head.count("  - Overall: ") == head.count("Overall") == 2
    assert head.count("  - pass^k") == head.count("pass^k") == 2
    assert "`13/22`" not in head


def test_the_document_has_the_figures_of_the_report() -> None:
    results = of_two_strategies()
    found = results_document(results, run={})
    figures = summarize(
        [
            report_trial(one.key.cell, one.key.scenario, one.key.trial, one.status)
            for one in results.all_entries
        ]
    )

    assert (found["totals"]["end_to_end"], found["totals"]["pass_hat"]) == (None, None)
    for name, totals in figures.strategies.items():
        own = found["strategies"][name]
        assert own["tool"] == msgspec.structs.asdict(totals.tool)
        assert own["end_to_end"] == msgspec.structs.asdict(totals.end_to_end)
        assert (own["pass_hat"], own["conduct"]) == (list(totals.pass_hat), None)
    alone = results_document(collect_results(results.sheet, under_production(results)), run={})
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
    made = [report_trial(cell, HOSTILE, status="failed", category=HOSTILE)]
    for table in (
        matrix_table(collect_results(sheet(), made)),
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


def test_plain_sentences_and_intervals_are_not_escaped() -> None:
    said = "25 of 25 passed: 100.0% [86.7, 100.0] (long_arguments_guard); draft.foo is {1}!"

    assert escape_text(said) == said
    assert escape_text("_a_ x:y [1](z) #3 @you") == (
        "&#95;a&#95; x&#58;y &#91;1&#93;(z) &#35;3 &#64;you"
    )


def test_the_verdict_is_first_and_the_recommendations_come_before_the_totals() -> None:
    verdict = "Use m with guided_contract (profile default)."
    rows = [("m", "default (no overrides)", "-", "Yes", "100% of 1 trial", "use", "-")]
    text = markdown_report(of_two_strategies(), rows, verdict=verdict)

    assert text.splitlines()[2] == f"**Verdict.** {verdict}"
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads[:2] == ["## Recommendations", "## Totals"]


def test_a_cell_in_which_nothing_could_run_has_no_rates() -> None:
    cell = Cell("minimax/minimax-m2-her")
    results = collect_results(sheet(cell), [report_trial(cell, status="skipped")])
    (item,) = summary_document(results, ts="", output_dir="")["models"]

    assert (item["runs"], item["skipped"], list(item["run_results"])) == (0, 1, [])
    assert (item["ok_rate"], item["tool_ok_rate"], item["tool_ok_interval"]) == (None, None, None)
    assert "| `minimax/minimax-m2-her` | `default` | - | - | - | - | - |" in matrix_table(results)
    assert "- Skipped because they do not apply: 1" in markdown_report(results)
    assert "- Overall: none" in markdown_report(results)


def missed(number: int, check: str, got: str, cell: Cell) -> Trial:
    score = Score(misses=(Miss(check, "expected|this", got),))
    return report_trial(cell, "happy_path", number, "failed", score=score)


def test_a_table_says_why_runs_failed_by_what_was_not_met() -> None:
    one, other = Cell("a"), Cell("b")
    made = [
        *(missed(at, 'the answer is "Done."', "hm", one) for at in (1, 2)),
        missed(1, 'the answer is "Done."', "no <b>", other),
        report_trial(one, "chat_only", 1, "infra", error="TIMEOUT: it took too long"),
        report_trial(one, "chat_only", 2),
    ]
    text = markdown_report(collect_results(sheet(one, other), made))

    assert (
        "## Why runs failed\n\n| unmet expectation or error | expected | got | runs | scenarios |"
        in text
    )
    assert (
        '| the answer is "Done." | expected&#124;this | hm x2; no &#60;b&#62; x1 | 3 | '
        "happy_path | a x2; b x1 | `ASSERTION_FAILED` |"
    ) in text
    assert "| - | it took too long | 1 |" in text
    assert "| `TIMEOUT` (infrastructure, not scored) |" in text
    assert "Why runs failed" not in markdown_report(collect_results(sheet(one), made[-1:]))


def test_the_rarest_causes_and_texts_are_only_counted() -> None:
    cell = Cell("m")
    many = [missed(at, f"check {at:02}", "x", cell) for at in range(1, 25)]
    text = markdown_report(collect_results(sheet(cell), many))
    assert ("check 20" in text, "check 21" in text) == (True, False)
    assert "4 less frequent causes are not shown." in text
    varied = [missed(at, "check", f"text {at}", cell) for at in range(1, 9)]
    assert "text 1 x1; text 2 x1; text 3 x1; … |" in markdown_report(
        collect_results(sheet(cell), varied)
    )


# How endpoints compare, in reports: from the store alone


GOOD, CHEAP = "m@good", "m@cheap"
ADDRESSES = {GOOD: "http://good", CHEAP: "http://cheap"}
SHEET = Sheet(settings={"endpoints": ADDRESSES, "reference": GOOD, "against": CHEAP})


def replied(name: str, request: int, number: int, *calls: str, **fields: Any) -> Trial:
    about = {
        "requests": [{"turn": 0, "latency_ms": 1, "attempt": 1}],
        "draft": {"calls": [{"name": each, "arguments": {}, "fits": True} for each in calls]},
    }
    status = fields.pop("status", "passed")
    return trial(status, number, f"r{request}", Cell(name, "default", "raw"), **(about | fields))


TRIALS = [
    replied(name, request, number, *(("f",) if name == GOOD else ()))
    for name in (GOOD, CHEAP)
    for request in range(9)
    for number in (1, 2)
]
FAILED = [
    replied(CHEAP, 9, 1, status="infra", category="TIMEOUT"),
    replied(CHEAP, 9, 2, status="failed", category="BAD_REQUEST", requests=[]),
    replied("other@there", 1, 1, "f"),
]


def test_a_run_without_a_reference_compares_nothing() -> None:
    assert compare_endpoints(Sheet(), TRIALS) == ()
    assert agreement_section(()) == ""


def test_the_endpoints_of_a_run_are_compared_by_its_trials() -> None:
    (found,) = compare_endpoints(SHEET, [*TRIALS, *FAILED])

    assert (found.name, found.reference, found.verdict) == ("cheap", "good", "worse")
    assert agreement_heads(found) == ("", "cheap", "good", "difference", "")
    table = agreement_rows(found)
    assert table[1] == (
        *("call or not", "0.0% [0.0, 37.1]", "100% [62.9, 100]"),
        *("-100 [-100, -59.1]", "worse"),
    )
    assert table[2] == ("  precision", "unknown", "", "", "")
    assert table[5] == ("calls fit", "unknown", "100% [62.9, 100]", "", "open")
    assert request_count_lines([found]) == [
        "good: 18 of 18 answered, 18 calls",
        "cheap: 18 of 20 answered, 0 calls, 1 refused, 1 failed (TIMEOUT)",
    ]


def test_it_is_a_section_of_the_report_and_a_document() -> None:
    found = compare_endpoints(SHEET, TRIALS)
    text = agreement_section(found)

    assert text.startswith("## Endpoints on the same requests\n\ncheap is worse than good")
    assert "| call or not | 0.0%" in text
    assert "- good: 18 of 18 answered" in text
    document = agreement_json(found, ADDRESSES)
    (row,) = document["comparisons"]
    assert document["endpoints"] == ADDRESSES
    assert (row["verdict"], row["verdicts"]["decision"]) == ("worse", "worse")
    assert row["sentence"].startswith("cheap is worse than good")
    assert row["calls"]["value"] == {
        "value": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.37, abs=0.01),
        "n": 9,
    }


def test_a_page_says_it_in_sentences_and_what_else_it_shows() -> None:
    first, second = agreement_notices(compare_endpoints(SHEET, TRIALS))

    assert first.startswith("cheap is worse than good: ")
    assert "each endpoint separately" in second
    assert agreement_notices(()) == []


def test_an_endpoint_goes_by_its_own_name_if_that_is_enough() -> None:
    assert short_endpoint_names(["a@x", "a@y"]) == {"a@x": "x", "a@y": "y"}
    assert short_endpoint_names(["a@x", "b@x"]) == {"a@x": "a@x", "b@x": "b@x"}
    assert short_endpoint_names(["v@1@x", "v@2@y"]) == {"v@1@x": "x", "v@2@y": "y"}
