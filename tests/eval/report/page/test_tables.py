"""Tables of failures."""

from surecall.eval.report.page.data import FailureRow
from surecall.eval.report.page.tables import tally


def test_a_tally_puts_the_fullest_rows_and_columns_first() -> None:
    rows = [
        FailureRow("A", "one", "m", "", infra=False, count=1),
        FailureRow("B", "two", "m", "", infra=True, count=5),
        FailureRow("A", "two", "n", "", infra=True, count=2),
    ]
    found = tally(rows, "code", "scenario")

    assert (found.rows, found.columns) == (("B", "A"), ("two", "one"))
    assert (found.totals, found.most) == ({"A": 3, "B": 5}, 5)
    assert found.counts["A", "two"] == 2
    assert found.infra == {"B"}
    assert tally([], "code", "model").most == 0
