"""The reports: equal to a recomputation, in the order of the plan, and safe against any text."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.summary import summarise
from surecall.eval.report.common import (
    SHEET,
    Column,
    Results,
    Sheet,
    results_of,
    sheet_for,
    sheet_in,
)
from surecall.eval.report.files import results_in, write_reports, write_trials
from surecall.eval.report.summary_json import (
    cell_summary,
    document,
    summary,
    summary_by_scenario,
    summary_by_scenario_and_strategy,
    totals,
)
from surecall.eval.report.trial_json import trial_document
from surecall.eval.running.cells import Model, PlannedCell
from surecall.eval.running.matrix import Plan
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import Invocation, Store, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Served, Trial
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import TAG_FALLBACK
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, Secret
from tests.support.eval_results import (
    CALL,
    CELLS,
    EVENTS,
    HOSTILE,
    NAMES,
    START,
    lines,
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
        times = sorted(one.elapsed_ms for one in ran if not one.is_control)
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
        for prefix, timing in (("", figures.latency.runs), ("control_", figures.latency.control)):
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


@proves("C128")
def test_the_order_is_the_plans_whatever_finished_first() -> None:
    made = many()
    first = summary(results_of(sheet(*CELLS), made), ts="", output_dir="")
    again = summary(results_of(sheet(*CELLS), reversed(made)), ts="", output_dir="")

    assert first == again
    assert [item["model"] for item in first["models"]] == [
        "z/last:default:production",
        "a/first:warm:production",
        "a/first:default:production",
        "z/last:warm:raw",
    ]
    listed = [(one["trial"], one["scenario"]) for one in first["models"][0]["run_results"]]
    assert listed == sorted(listed, key=lambda pair: (pair[0], NAMES.index(pair[1])))


def test_cells_and_scenarios_that_no_plan_knows_come_last() -> None:
    stray = [trial(Cell("b"), "zz"), trial(Cell("a"), "yy"), trial(Cell("z/last"))]
    results = results_of(sheet(Cell("z/last"), Cell("never/ran")), stray)

    assert [cell.model for cell in results.entries] == ["z/last", "a", "b"]
    assert results.scenarios == ("happy_path", "yy", "zz")


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
TRIAL_KEYS = """
model model_base strategy fallback_profile sampling_profile empty_response_retry
llm_options_defaults content_tag_tool_call_fallback scenario trial ok elapsed_ms tool_use_mode
tools_enabled context_tool_calling assistant_text draft error error_status error_body error_raw_body
error_category history trace
"""


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


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        ([Cell("m/a")], ["m/a"]),
        ([Cell("m/a", "warm")], ["m/a:warm"]),
        ([Cell("a"), Cell("b", "warm")], ["a:default", "b:warm"]),
        ([Cell("a"), Cell("a", strategy="raw")], ["a:production", "a:raw"]),
        (
            [Cell("a", strategy="raw+fallback_on"), Cell("a", strategy="raw+fallback_off")],
            ["a:fallback_on", "a:fallback_off"],
        ),
    ],
)
def test_a_label_names_only_what_tells_cells_apart(cells: list[Cell], labels: list[str]) -> None:
    results = results_of(sheet(*cells), map(trial, cells))
    assert list(results.labels.values()) == labels


def names_of(results: Results) -> list[str]:
    return [results.file_name(entry.key) for entry in results.all]


def test_file_names_are_those_of_the_original() -> None:
    cell = Cell("anthropic/claude-opus-4.6:nitro")
    results = results_of(sheet(cell), [trial(cell, number=7)])
    assert names_of(results) == ["anthropic__claude-opus-4.6__nitro__happy_path__trial_07.json"]


def test_file_names_stay_different_when_the_names_differ_only_in_odd_characters() -> None:
    cells = [Cell("a/b"), Cell("a:b"), Cell("A/b"), Cell("a"), Cell("x" * 300), Cell("x" * 301)]
    names = names_of(
        results_of(sheet(*cells), [*map(trial, cells[:3]), *(trial(c) for c in cells[3:])])
    )
    strange = names_of(results_of(sheet(), [trial(Cell("a"), "b__c"), trial(Cell("a__b"), "c")]))

    assert len({name.casefold() for name in names}) == len(cells)
    assert len(set(strange)) == 2
    assert max(map(len, names)) < 250


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_name_leads_out_of_the_directory(model: str, scenario: str) -> None:
    (name,) = names_of(results_of(sheet(), [trial(Cell(model), scenario)]))
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.json", name)


def test_a_trials_file_holds_the_conversation_and_what_it_went_by() -> None:
    one = trial(Cell("m"), requests=(Served(0, 12, 1, "stop", "prov"),), prompt_hash="abc")
    results = results_of(sheet(Cell("m"), empty_response_retry_count=1), [one])
    found = trial_document(results, one, lines(*EVENTS))

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


def test_without_a_trace_a_trials_file_says_what_the_cell_says() -> None:
    config = {"tool_use_mode": "enforced", "response_transforms": [TAG_FALLBACK]}
    column = Column(Cell("m"), {"top_p": 0.5}, config, simulated=True)
    one = trial(Cell("m"))
    found = trial_document(results_of(Sheet((column,)), [one]), one, None)

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
    one = trial(
        Cell("m"), status="infra", category="AUTH", error="401", hint="prov: no", http_status=401
    )
    results = results_of(sheet(Cell("m")), [one])
    found = trial_document(results, one, lines(START, fault))

    assert (found["error_raw_body"], found["error_body"]) == (body, parsed)
    assert (found["error"], found["error_status"], found["error_category"]) == ("401", 401, "AUTH")
    assert found["error_hint"] == "prov: no"


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


def test_a_plan_is_described_without_the_key() -> None:
    config = ToolCallingConfig()
    settings = Settings(api_key=Secret("sk-1234567890"), trials=3)
    model = Model("m", simulated=True, imitates="a/model")
    planned = PlannedCell(Cell("m", "warm"), model, config, {"top_p": 1})
    endpoint = Endpoint("http://localhost", "/v1", "custom")
    found = sheet_for(Plan(settings, (planned,), SCENARIOS[:2]), endpoint)

    assert found.columns == (
        Column(planned.cell, {"top_p": 1}, config.to_mapping(), simulated=True, imitates="a/model"),
    )
    assert found.known_as == {"m": "a/model"}
    assert found.scenarios == tuple(scenario.id for scenario in SCENARIOS[:2])
    assert (found.settings["base_url"], found.settings["trials"]) == ("http://localhost", 3)
    assert b"1234567890" not in msgspec.json.encode(found)
    assert sheet_in([{SHEET: msgspec.to_builtins(found)}]).settings == found.settings


def test_a_run_that_was_topped_up_keeps_the_cells_of_earlier_commands() -> None:
    old = Sheet((Column(Cell("a")), Column(Cell("b"), {"old": 1})), ("x", "y"), {"trials": 1})
    new = Sheet((Column(Cell("b"), {"new": 1}), Column(Cell("c"))), ("z", "x"), {"trials": 2})
    both = sheet_in([{SHEET: msgspec.to_builtins(one)} for one in (old, new)])

    assert both == Sheet((*new.columns, old.columns[0]), ("z", "x", "y"), {"trials": 2})
    assert sheet_in([]) == sheet_in([{}]) == Sheet()
    with pytest.raises(ConfigError, match="description of a run cannot be read"):
        sheet_in([{SHEET: {"columns": 1}}])


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    about = Invocation(config={SHEET: msgspec.to_builtins(sheet(*CELLS))})
    with open_or_resume(tmp_path / "base", {}, about) as opened:
        opened.add(trial(Cell(HOSTILE.replace("\ud800", ""))), lines(*EVENTS))
        for one in many():
            opened.add(one)
    return opened


@proves("C136")
def test_reports_can_be_made_again_from_the_store_alone(filled: Store) -> None:
    with open_for_reading(filled.directory) as store:
        written = write_reports(filled.directory, results_in(store), store.meta)
        first = {path.name: path.read_bytes() for path in written}
        for path in written:
            path.unlink()
        write_reports(filled.directory, results_in(store), store.meta)
        count = write_trials(filled.directory, results_in(store), store.trials(), store.trace)

    assert {path.name: path.read_bytes() for path in written} == first
    assert sorted(first) == [
        "junit.xml",
        "report.md",
        "summary.json",
        "summary_by_scenario.json",
        "summary_by_scenario_and_strategy.json",
    ]
    head = msgspec.json.decode(first["summary.json"])
    files = [
        msgspec.json.decode(path.read_bytes()) for path in (filled.directory / "trials").iterdir()
    ]
    assert count == len(files) == len(many()) + 1
    listed = [one for item in head["models"] for one in item["run_results"]]
    for one in listed:
        kept = msgspec.json.decode((filled.directory / one["report_path"]).read_bytes())
        same = ("model", "model_base", "scenario", "trial", "ok", "elapsed_ms", "error_category")
        assert {key: kept[key] for key in same} == {key: one[key] for key in same}
    assert sum(one["ok"] for one in files) == sum(item["ok"] for item in head["models"])
    assert sum(one["trace"] is not None for one in files) == 1
    assert sorted(path.name for path in filled.directory.parent.iterdir()) == [
        filled.directory.name
    ]


def test_a_directory_that_cannot_be_written_is_one_sentence(filled: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with open_for_reading(filled.directory) as store:
        results, meta = results_in(store), store.meta
    with pytest.raises(StoreError, match="cannot use "):
        write_reports(tmp_path / "file", results, meta)
    with pytest.raises(StoreError, match="cannot use "):
        write_trials(tmp_path / "file", results, (), lambda _: None)
