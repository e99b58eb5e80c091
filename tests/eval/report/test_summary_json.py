"""The summaries: equal to a recomputation, with every key of the original."""

from collections import Counter
from collections.abc import Callable

import msgspec

from surecall.eval.analysis.summary import summarise
from surecall.eval.report.common import (
    Column,
    Sheet,
    results_of,
)
from surecall.eval.report.summary_json import (
    cell_summary,
    document,
    summary,
    summary_by_scenario,
    summary_by_scenario_and_strategy,
    totals,
)
from surecall.eval.storage.trial import Cell, Miss, Score, Trial
from surecall.values.types import JSON
from tests.support.eval_results import (
    CELLS,
    NAMES,
    many,
    sheet,
    trial,
)
from tests.support.spec import proves


def pick(made: list[Trial], wanted: Callable[[Trial], bool]) -> list[Trial]:
    return [one for one in made if one.status != "skipped" and wanted(one)]


def test_the_figures_of_a_cell_equal_a_recomputation_from_the_trials() -> None:
    made = many()
    found = summary(results_of(sheet(*CELLS), made), ts="", output_dir="")["models"]

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
    results = results_of(sheet(*CELLS), made)
    for each in summarise(made).cells:
        item, figures = cell_summary(results, each.cell), each.totals
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
    results = results_of(sheet(*CELLS), made)
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
    assert totals(results)["runs"] == len(pick(made, lambda _: True))
    assert totals(results)["skipped"] == len(made) - len(pick(made, lambda _: True))


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
        return summary(results_of(whole, []), ts="", output_dir="")

    found = head(*asked)
    assert found["commands"] == asked
    assert (found["model_filter"], found["seed"], found["trials_per_model"]) == (None, 7, 10)
    assert head(asked[0], asked[1] | {"trials": "auto"})["trials_per_model"] == "auto"
    alone = head(asked[0], asked[0] | {"trials": 1})
    assert (alone["model_filter"], alone["trials_per_model"]) == ("a", 4)


def test_the_summary_has_every_key_of_the_original() -> None:
    cell = Cell("m")
    settings: JSON = {"open_timeout": 10, "trials": 4, "base_url": "http://localhost/v1"}
    failed = [trial(cell, number=n, status="failed", error="no", attempts=2) for n in range(1, 6)]
    found = summary(results_of(sheet(cell, **settings), failed), ts="now", output_dir="here")
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
    results = results_of(Sheet((Column(Cell("m"), simulated=True),)), [trial(Cell("m"))])
    found = document(results, run={"name": "otter"}, recommendations=[{"model": "m"}])

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
        trial(cell, "happy_path", at, "failed", score=Score(misses=misses)) for at in range(1, 25)
    ]
    results = results_of(sheet(cell), made)
    for found in (document(results, run={}), summary(results, ts="t", output_dir="o")):
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
