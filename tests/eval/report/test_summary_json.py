"""Tests of `surecall.eval.report.summary_json`."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from surecall.eval.analysis.summary import summarize
from surecall.eval.report.markdown import BEHAVIOR_NOTE, behavior_table, markdown_report
from surecall.eval.report.page.data import ReportContext, build_report
from surecall.eval.report.page.html import render_page
from surecall.eval.report.run_results import Sheet, SheetColumn, collect_results
from surecall.eval.report.summary_json import (
    behavior_json,
    behavior_row,
    cell_json,
    results_document,
    summary_by_scenario,
    summary_by_scenario_and_strategy,
    summary_document,
    totals_json,
    trial_json,
)
from surecall.eval.storage.trial import BehaviorMetrics, Cell, Miss, Score, ServedRequest, Trial
from surecall.settings.presets import TAG_FALLBACK
from surecall.values.types import JSON
from tests.support.reports import (
    CONDUCT_GUIDED,
    CONDUCT_PLAIN,
    CONDUCT_RAW,
    CONDUCT_SCENARIO,
    CONDUCT_TRIALS,
    RAW_ROW,
)
from tests.support.spec import proves
from tests.support.trials import CALL, CELLS, EVENTS, NAMES, START, lines, many, report_trial, sheet

# The summaries: equal to a recomputation, with every key of the original


def pick(made: list[Trial], wanted: Callable[[Trial], bool]) -> list[Trial]:
    return [one for one in made if one.status != "skipped" and wanted(one)]


def test_the_figures_of_a_cell_equal_a_recomputation_from_the_trials() -> None:
    made = many()
    found = summary_document(collect_results(sheet(*CELLS), made), ts="", output_dir="")["models"]

    for cell, item in zip(CELLS, found, strict=True):
        ran = pick(made, lambda one, cell=cell: one.key.cell == cell)  # type: ignore[misc]
        groups = {
            "": ran,
            "tool_": pick(ran, lambda one: not one.is_control and one.status != "infra"),
            "control_": pick(ran, lambda one: one.is_control and one.status != "infra"),
        }
        for prefix, group in groups.items():
            ok = sum(one.status == "passed" for one in group)
            assert item[f"{prefix}runs"] == len(group) > 0
            assert item[f"{prefix}ok"] == ok
            assert item[f"{prefix}ok_rate"] == ok / len(group)
        times = sorted(one.elapsed_ms for one in groups["tool_"])
        assert item["tool_ms_p50"] == times[len(times) // 2]
        assert item["tool_ms_p95"] == times[int(len(times) * 0.95)]
        assert item["runs"] == item["tool_runs"] + item["control_runs"] + item["infra"]
        assert len(item["run_results"]) == item["runs"] == 36 - item["skipped"]
        low, high = item["tool_ok_interval"]
        assert 0 < low < item["tool_ok_rate"] < high < 1


def test_the_files_and_the_figures_of_a_report_agree() -> None:
    made = many()
    results = collect_results(sheet(*CELLS), made)
    for each in summarize(made).cells:
        item, figures = cell_json(results, each.cell), each.totals
        assert (item["tool_ok"], item["tool_runs"]) == (figures.tool.k, figures.tool.n)
        assert (item["control_ok"], item["control_runs"]) == (figures.control.k, figures.control.n)
        assert item["tool_ok_interval"] == [figures.tool.low, figures.tool.high]
        assert (item["infra"], item["skipped"]) == (figures.infra, figures.skipped)
        latency = figures.latency
        for prefix, timing in (("tool_", latency.tool), ("control_", latency.control)):
            assert (item[f"{prefix}ms_p50"], item[f"{prefix}ms_p95"]) == (timing.p50, timing.p95)


@proves("C128")
def test_the_sums_by_scenario_and_strategy_equal_a_recomputation() -> None:
    made = many()
    results = collect_results(sheet(*CELLS), made)
    by_scenario, by_strategy = (
        summary_by_scenario(results),
        summary_by_scenario_and_strategy(results),
    )

    assert list(by_scenario) == list(NAMES)
    assert list(by_strategy) == ["production", "raw"]
    for name, counts in by_scenario.items():
        ran = pick(made, lambda one, name=name: one.key.scenario == name)  # type: ignore[misc]
        assert counts["runs"] == len(ran)
        assert counts["ok"] == sum(one.ok for one in ran)
        assert counts["errors"] == Counter(one.category for one in ran if not one.ok)
        for key in ("runs", "ok"):
            assert counts[key] == sum(found[name][key] for found in by_strategy.values())
    assert totals_json(results.summary.totals)["runs"] == len(pick(made, lambda _: True))
    assert totals_json(results.summary.totals)["skipped"] == len(made) - len(
        pick(made, lambda _: True)
    )


SUMMARY_KEYS = """
ts base_url api_prefix http_adapter client_timeout client_open_timeout client_read_timeout
fix_empty_final tool_use_mode tool_failure_policy tool_calling_fallback_retry_count tool_allowlist
request_overrides sampling_profile_filter sampling_profiles sampling_profile_enforce_applicability
llm_options_defaults_overrides model_filter selected_models strategy_filter strategy_matrix
strategies content_tag_tool_call_fallback_global_override
best_effort_content_tag_tool_call_fallback_models fallback_matrix fallback_profiles jobs
trials_per_model scenarios output_dir models
"""


CELL_KEYS = """
model model_base strategy fallback_profile sampling_profile content_tag_tool_call_fallback runs ok
ok_rate ms_p50 ms_p95 tool_runs tool_ok tool_ok_rate tool_ms_p50 tool_ms_p95 control_runs control_ok
control_ok_rate control_ms_p50 control_ms_p95 scenarios run_results failure_samples
"""


RUN_KEYS = """
model model_base strategy fallback_profile sampling_profile empty_response_retry_attempts
content_tag_tool_call_fallback scenario trial ok elapsed_ms error error_hint error_status
error_category report_path
"""


def test_a_summary_of_several_commands_claims_no_filter_of_one_of_them() -> None:
    asked: list[JSON] = [
        {"model_filter": "a", "scenarios": "simple", "trials": 4},
        {"model_filter": "b", "scenarios": "simple", "trials": 10},
    ]

    def head(*commands: JSON) -> JSON:
        whole = Sheet((), (), {"model_filter": "b", "seed": 7}, commands)
        return summary_document(collect_results(whole, []), ts="", output_dir="")

    found = head(*asked)
    assert found["commands"] == asked
    assert (found["model_filter"], found["seed"], found["trials_per_model"]) == (None, 7, 10)
    assert head(asked[0], asked[1] | {"trials": "auto"})["trials_per_model"] == "auto"
    alone = head(asked[0], asked[0] | {"trials": 1})
    assert (alone["model_filter"], alone["trials_per_model"]) == ("a", 4)


def test_the_summary_has_every_key_of_the_original() -> None:
    cell = Cell("m")
    settings: JSON = {"open_timeout": 10, "trials": 4, "base_url": "http://localhost/v1"}
    failed = [
        report_trial(cell, number=n, status="failed", error="no", attempts=2) for n in range(1, 6)
    ]
    found = summary_document(
        collect_results(sheet(cell, **settings), failed), ts="now", output_dir="here"
    )
    (item,) = found["models"]

    assert set(SUMMARY_KEYS.split()) <= found.keys()
    assert set(CELL_KEYS.split()) <= item.keys()
    assert set(RUN_KEYS.split()) <= item["run_results"][0].keys()
    assert (found["client_open_timeout"], found["trials_per_model"]) == (10, 4)
    assert [one["trial"] for one in item["failure_samples"]] == [1, 2, 3]
    assert item["run_results"][0]["empty_response_retry_attempts"] == 1
    assert item["run_results"][0]["error_category"] == "ASSERTION_FAILED"
    assert (item["control_ok_rate"], item["control_ms_p95"], item["tool_ok_rate"]) == (None, 0, 0.0)


def test_the_document_for_programs_says_its_version_and_what_is_simulated() -> None:
    results = collect_results(
        Sheet((SheetColumn(Cell("m"), simulated=True),)), [report_trial(Cell("m"))]
    )
    found = results_document(results, run={"name": "otter"}, recommendations=[{"model": "m"}])

    assert (found["schema_version"], found["simulated"], found["run"]) == (
        1,
        True,
        {"name": "otter"},
    )
    assert found["cells"][0]["tool_ok"] == found["totals"]["ok"] == 1
    assert found["recommendations"] == [{"model": "m"}]
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_both_summaries_say_why_runs_failed_and_where_to_look() -> None:
    cell = Cell("m")
    misses = (Miss("the state is 1", "1", "2", turn=0),)
    made = [
        report_trial(cell, "happy_path", at, "failed", score=Score(misses=misses))
        for at in range(1, 25)
    ]
    results = collect_results(sheet(cell), made)
    for found in (
        results_document(results, run={}),
        summary_document(results, ts="t", output_dir="o"),
    ):
        (cause,) = found["causes"]
        assert (cause["check"], cause["expected"], cause["got"]) == (
            "the state is 1",
            {"1": 24},
            {"2": 24},
        )
        assert (cause["times"], cause["scenarios"], cause["models"]) == (
            24,
            {"happy_path": 24},
            {"m": 24},
        )
        assert (cause["code"], cause["infra"]) == ("ASSERTION_FAILED", False)
        assert cause["runs"][0] == {
            "model": "m",
            "profile": "default",
            "strategy": "production",
            "scenario": "happy_path",
            "trial": 1,
        }
        assert len(cause["runs"]) == 20


# What runs did and said, in every report: beside the pass rate, for each strategy on its own


RESULTS = collect_results(
    sheet(CONDUCT_RAW, CONDUCT_GUIDED, scenarios=(CONDUCT_SCENARIO,)), CONDUCT_TRIALS
)


def test_markdown_has_a_table_of_it_and_none_without_such_runs() -> None:
    text = markdown_report(RESULTS)

    assert f"## Behavior metrics\n\n{BEHAVIOR_NOTE}\n\n{behavior_table(RESULTS)}\n\n" in text
    assert f"| `m` | `default` | `raw` | {' | '.join(RAW_ROW)} |" in text
    assert "Behavior metrics" not in markdown_report(
        collect_results(sheet(CONDUCT_RAW, CONDUCT_GUIDED), CONDUCT_PLAIN)
    )


def test_the_documents_have_it_by_cell_strategy_and_scenario() -> None:
    found = results_document(RESULTS, run={})
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
    assert by_strategy["raw"][CONDUCT_SCENARIO]["conduct"] == wanted
    plain = results_document(
        collect_results(sheet(CONDUCT_RAW, CONDUCT_GUIDED), CONDUCT_PLAIN), run={}
    )
    assert plain["cells"][0]["conduct"] is None
    assert "conduct" not in plain["by_scenario"]["happy_path"]
    assert behavior_json(BehaviorMetrics()) is None
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_the_file_of_a_trial_says_whether_it_told_the_truth() -> None:
    found = trial_json(RESULTS, CONDUCT_TRIALS[0], None)
    assert (found["truth"], found["score"]["effects"].wrong) == ("false_success", 1)
    plain = collect_results(sheet(CONDUCT_RAW, CONDUCT_GUIDED), CONDUCT_PLAIN)
    assert trial_json(plain, CONDUCT_PLAIN[0], None)["truth"] is None


def test_the_page_has_a_section_of_it_and_none_without_such_runs() -> None:
    page = render_page(
        build_report(CONDUCT_TRIALS, ReportContext(sheet=sheet(CONDUCT_RAW, CONDUCT_GUIDED)))
    )

    assert '<section id="conduct"' in page
    part = page[page.index('id="conduct"') :]
    row = part[part.index("<td>raw</td>") :]
    figures = [cell.partition("</td>")[0] for cell in row.split('<td class="number">')[1:10]]
    assert figures == list(RAW_ROW)
    assert 'id="conduct"' not in render_page(build_report(CONDUCT_PLAIN, ReportContext()))


def test_a_row_without_runs_has_figures_all_the_same() -> None:
    assert behavior_row(BehaviorMetrics()) == ("0/0", "0", "0", "0", "0", "0", "0", "0.0", "0")


# The file of one trial: the conversation, the settings, the error


TRIAL_KEYS = """
model model_base strategy fallback_profile sampling_profile empty_response_retry
llm_options_defaults content_tag_tool_call_fallback scenario trial ok elapsed_ms tool_use_mode
tools_enabled context_tool_calling assistant_text draft error error_status error_body error_raw_body
error_category history trace
"""


def test_a_trials_file_holds_the_conversation_and_what_it_went_by() -> None:
    one = report_trial(
        Cell("m"), requests=(ServedRequest(0, 12, 1, "stop", "prov"),), prompt_hash="abc"
    )
    results = collect_results(sheet(Cell("m"), empty_response_retry_count=1), [one])
    found = trial_json(results, one, lines(*EVENTS))

    assert set(TRIAL_KEYS.split()) <= found.keys()
    assert found["history"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "", "metadata": {"tool_calls": [CALL]}},
        {
            "role": "tool",
            "content": '{"ok":true}',
            "name": "state_get",
            "metadata": {"tool_call_id": "c1"},
        },
        {"role": "assistant", "content": "Done."},
    ]
    assert found["trace"] == EVENTS
    assert (found["tool_use_mode"], found["tools_enabled"]) == ("disabled", False)
    assert found["llm_options_defaults"] == {"temperature": 1}
    assert found["empty_response_retry"] == {"max_retries": 1, "attempts": 0}
    assert "error_hint" not in found
    assert (found["error"], found["error_body"], found["requests"]) == (None, None, one.requests)


def test_a_trials_file_says_what_was_missed_also_in_sentences() -> None:
    miss = Miss('the answer is "Done."', '"Done."', '"Hm."', turn=1)
    one = report_trial(Cell("m"), status="failed", score=Score(final=False, misses=(miss,)))
    score = trial_json(collect_results(sheet(Cell("m")), [one]), one, None)["score"]

    assert (score["final"], score["misses"]) == (False, (miss,))
    assert score["reasons"] == ('expected that the answer is "Done.", got "Hm."',)


def test_without_a_trace_a_trials_file_says_what_the_cell_says() -> None:
    config = {"tool_use_mode": "enforced", "response_transforms": [TAG_FALLBACK]}
    column = SheetColumn(Cell("m"), {"top_p": 0.5}, config, simulated=True)
    one = report_trial(Cell("m"))
    found = trial_json(collect_results(Sheet((column,)), [one]), one, None)

    assert (found["history"], found["trace"]) == (None, None)
    assert (found["context_tool_calling"], found["tools_enabled"]) == (config, True)
    assert found["llm_options_defaults"] == {"top_p": 0.5}
    assert found["content_tag_tool_call_fallback"]
    assert found["simulated"]


@pytest.mark.parametrize(
    ("body", "parsed"),
    [('{"error":{"message":"no"}}', {"error": {"message": "no"}}), ("<html>", None)],
)
def test_the_body_of_an_error_is_kept_raw_and_parsed(body: str, parsed: Any) -> None:
    fault = {"type": "llm_request_error", "fault": {"code": "AUTH", "body": body}}
    one = report_trial(
        Cell("m"), status="infra", category="AUTH", error="401", hint="prov: no", http_status=401
    )
    results = collect_results(sheet(Cell("m")), [one])
    found = trial_json(results, one, lines(START, fault))

    assert (found["error_raw_body"], found["error_body"]) == (body, parsed)
    assert (found["error"], found["error_status"], found["error_category"]) == ("401", 401, "AUTH")
    assert found["error_hint"] == "prov: no"
