"""What makes a run: settings and matrix, and when two of them belong together."""

from surecall.eval.storage.identity import (
    MATRIX,
    differences,
    digest,
    settings_in,
    united,
    with_matrix,
)
from surecall.eval.storage.trial import Cell
from surecall.values.types import JSON

SETTINGS: JSON = {"seed": 1, "base_url": "sim"}
ONE = with_matrix(SETTINGS, [Cell("a"), Cell("b")], ["x", "y"])


def test_the_order_of_cells_and_scenarios_makes_no_other_run() -> None:
    turned = with_matrix(SETTINGS, [Cell("b"), Cell("a")], ["y", "x"])

    assert digest(turned) == digest(ONE)
    assert settings_in(ONE) == SETTINGS


def test_another_cell_scenario_or_setting_makes_another_run() -> None:
    others = [
        with_matrix(SETTINGS, [Cell("a")], ["x", "y"]),
        with_matrix(SETTINGS, [Cell("a"), Cell("b", "warm")], ["x", "y"]),
        with_matrix(SETTINGS, [Cell("a"), Cell("b", strategy="raw")], ["x", "y"]),
        with_matrix(SETTINGS, [Cell("a"), Cell("b")], ["x"]),
        with_matrix(SETTINGS | {"seed": 2}, [Cell("a"), Cell("b")], ["x", "y"]),
        SETTINGS,
    ]

    assert len({digest(one) for one in (ONE, *others)}) == 7


def test_runs_that_are_put_together_keep_every_matrix_once() -> None:
    two = with_matrix(SETTINGS, [Cell("c")], ["x"])

    assert united([ONE, ONE]) == ONE
    assert united([two, ONE, two]) == united([ONE, two])
    assert [len(united(them)[MATRIX]) for them in ([ONE, two], [ONE, SETTINGS])] == [2, 2]
    assert united([SETTINGS, SETTINGS]) == SETTINGS


def test_differences_are_those_of_the_settings() -> None:
    assert differences(ONE, with_matrix(SETTINGS, [Cell("c")], ["x"])) == []
    assert differences(ONE, SETTINGS) == []
    assert differences({"seed": 1, "a": None}, {"seed": 2}) == [
        "a: null and nothing",
        "seed: 1 and 2",
    ]
