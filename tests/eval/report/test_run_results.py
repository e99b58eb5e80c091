"""Tests of `surecall.eval.report.run_results`."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.stats import StoppingRule
from surecall.eval.report.run_results import (
    SHEET_KEY,
    LazyRows,
    RunResults,
    Sheet,
    SheetColumn,
    collect_results,
    make_sheet,
    merge_sheets,
    pretty_json,
)
from surecall.eval.report.summary_json import summary_document
from surecall.eval.running.cells import Model, PlannedCell
from surecall.eval.running.matrix import MAX_TRIALS, EvaluationPlan
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.trial import Cell
from surecall.settings.config import all_settings
from surecall.settings.presets import Strategy, raw, resolve, without_text_calls
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from surecall.wire.chat_format import encode
from tests.support.spec import proves
from tests.support.trials import CELLS, NAMES, many, report_trial, sheet

# The order of results, and what each of them is called


@proves("C128")
def test_the_order_is_the_plans_whatever_finished_first() -> None:
    made = many()
    first = summary_document(collect_results(sheet(*CELLS), made), ts="", output_dir="")
    again = summary_document(collect_results(sheet(*CELLS), reversed(made)), ts="", output_dir="")

    assert b"".join(pretty_json(first)) == b"".join(pretty_json(again))
    assert [item["model"] for item in first["models"]] == [
        "z/last:default:production",
        "a/first:warm:production",
        "a/first:default:production",
        "z/last:warm:raw",
    ]
    listed = [(one["trial"], one["scenario"]) for one in first["models"][0]["run_results"]]
    assert listed == sorted(listed, key=lambda pair: (pair[0], NAMES.index(pair[1])))


def test_cells_and_scenarios_that_no_plan_knows_come_last() -> None:
    stray = [
        report_trial(Cell("b"), "zz"),
        report_trial(Cell("a"), "yy"),
        report_trial(Cell("z/last")),
    ]
    results = collect_results(sheet(Cell("z/last"), Cell("never/ran")), stray)

    assert [cell.model for cell in results.entries] == ["z/last", "a", "b"]
    assert results.scenarios == ("happy_path", "yy", "zz")


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
    results = collect_results(sheet(*cells), map(report_trial, cells))
    assert list(results.labels.values()) == labels


def names_of(results: RunResults) -> list[str]:
    return [results.file_name(entry.key) for entry in results.all_entries]


def test_file_names_are_those_of_the_original() -> None:
    cell = Cell("anthropic/claude-opus-4.6:nitro")
    results = collect_results(sheet(cell), [report_trial(cell, number=7)])
    assert names_of(results) == ["anthropic__claude-opus-4.6__nitro__happy_path__trial_07.json"]


def test_file_names_stay_different_when_the_names_differ_only_in_odd_characters() -> None:
    cells = [Cell("a/b"), Cell("a:b"), Cell("A/b"), Cell("a"), Cell("x" * 300), Cell("x" * 301)]
    names = names_of(
        collect_results(
            sheet(*cells), [*map(report_trial, cells[:3]), *(report_trial(c) for c in cells[3:])]
        )
    )
    strange = names_of(
        collect_results(sheet(), [report_trial(Cell("a"), "b__c"), report_trial(Cell("a__b"), "c")])
    )

    assert len({name.casefold() for name in names}) == len(cells)
    assert len(set(strange)) == 2
    assert max(map(len, names)) < 250


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_name_leads_out_of_the_directory(model: str, scenario: str) -> None:
    (name,) = names_of(collect_results(sheet(), [report_trial(Cell(model), scenario)]))
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.json", name)


def test_a_plan_is_described_without_the_key() -> None:
    config = raw()
    settings = Settings(api_key=Secret("sk-1234567890"), trials=3)
    model = Model("m", simulated=True, imitates="a/model")
    planned = PlannedCell(Cell("m", "warm"), model, config, {"top_p": 1})
    endpoint = Endpoint("http://localhost", "/v1", "custom")
    found = make_sheet(EvaluationPlan(settings, (planned,), SCENARIOS[:2]), endpoint)

    assert found.columns == (
        SheetColumn(
            planned.cell, {"top_p": 1}, all_settings(config), simulated=True, imitates="a/model"
        ),
    )
    assert found.simulated_models == {"m": "a/model"}
    assert found.scenarios == tuple(scenario.id for scenario in SCENARIOS[:2])
    assert (found.settings["base_url"], found.settings["trials"]) == ("http://localhost", 3)
    assert b"1234567890" not in msgspec.json.encode(found)
    assert merge_sheets([{SHEET_KEY: msgspec.to_builtins(found)}]).settings == found.settings


def test_a_run_that_was_topped_up_keeps_the_cells_of_earlier_commands() -> None:
    old = Sheet(
        (SheetColumn(Cell("a")), SheetColumn(Cell("b"), {"old": 1})), ("x", "y"), {"trials": 1}
    )
    new = Sheet(
        (SheetColumn(Cell("b"), {"new": 1}), SheetColumn(Cell("c"))), ("z", "x"), {"trials": 2}
    )
    both = merge_sheets([{SHEET_KEY: msgspec.to_builtins(one)} for one in (old, new)])

    assert both.columns == (*new.columns, old.columns[0])
    assert (both.scenarios, both.settings) == (("z", "x", "y"), {"trials": 2})
    assert [command["trials"] for command in both.commands] == [1, 2]
    once_more = [{SHEET_KEY: msgspec.to_builtins(one)} for one in (both, new)]
    assert merge_sheets(once_more).commands == both.commands
    assert merge_sheets([]) == merge_sheets([{}]) == Sheet()
    with pytest.raises(ConfigError, match="stored with this run is invalid"):
        merge_sheets([{SHEET_KEY: {"columns": 1}}])


@pytest.mark.parametrize(
    ("asked", "stopping"),
    [
        ((), StoppingRule()),
        ((10,), StoppingRule()),
        ((10, 10), StoppingRule()),
        ((10, 20), StoppingRule(sequential=True)),
        (("auto",), StoppingRule(sequential=True, max_trials=MAX_TRIALS)),
        ((10, "auto"), StoppingRule(sequential=True, max_trials=MAX_TRIALS)),
        (("auto", 200), StoppingRule(sequential=True)),
    ],
)
def test_who_changed_the_number_of_trials_has_looked_more_than_once(
    asked: tuple[int | str, ...], stopping: StoppingRule
) -> None:
    sheets = [Sheet(settings={"trials": number}) for number in asked]

    assert (
        merge_sheets([{SHEET_KEY: msgspec.to_builtins(one)} for one in sheets]).stopping == stopping
    )


def column_of(strategy: Strategy, fallback: str = "") -> SheetColumn:
    config = resolve(provider="groq", model="qwen/qwen3-235b-a22b-2507", strategy=strategy)
    config = {"off": without_text_calls, "": lambda same: same}[fallback](config)
    return SheetColumn(Cell("m", strategy=strategy), config=all_settings(config))


@pytest.mark.parametrize(
    ("column", "readers"),
    [
        (SheetColumn(Cell("m")), ()),
        (column_of("raw"), ("native",)),
        (column_of("baseline"), ("native",)),
        (column_of("production", "off"), ("native",)),
        (
            column_of("production"),
            ("native", "tags in text", "any form in text", "failed generations"),
        ),
        (
            column_of("guided", "off"),
            ("guided", "tags in text"),
        ),
        (
            SheetColumn(Cell("m"), config=all_settings(resolve(model="unknown"))),
            ("native", "tags in text", "failed generations"),
        ),
    ],
)
def test_a_column_says_what_calls_are_read_from(
    column: SheetColumn, readers: tuple[str, ...]
) -> None:
    assert column.call_sources == readers


# JSON piece by piece: the same bytes as at once


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def at_once(value: object) -> bytes:
    return msgspec.json.format(encode(value)) + b"\n"


@given(VALUES)
def test_pieces_are_what_is_written_at_once(value: object) -> None:
    assert b"".join(pretty_json(value)) == at_once(value)


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=2), max_size=4))
def test_rows_are_written_like_a_list_of_what_they_make(items: list[dict[str, object]]) -> None:
    rows = LazyRows(items, lambda item: {"is": item})
    made = [{"is": item} for item in items]

    assert b"".join(pretty_json({"a": [rows], "b": rows})) == at_once({"a": [made], "b": made})


def test_rows_are_made_when_they_are_read() -> None:
    seen: list[int] = []

    def made(item: int) -> dict[str, int]:
        seen.append(item)
        return {"n": item}

    rows = LazyRows([1, 2, 3], made)
    assert (len(rows), seen) == (3, [])
    assert (rows[1], rows[:1], seen) == ({"n": 2}, [{"n": 1}], [2, 1])
