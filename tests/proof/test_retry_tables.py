"""The tables of retries say what follows each answer."""

from proof.retry_tables import AVAILABILITY, KINDS, OPENAI, Row, rows
from surecall.testing import failure
from surecall.values.errors import ErrorCode

ANSWER = failure(429)


def _row(**rest: float | bool | None) -> Row:
    return Row("a row", ANSWER, ErrorCode.RATE_LIMIT, again=True, **rest)  # type: ignore[arg-type]  # short


def test_a_row_says_how_long_is_waited() -> None:
    assert _row().waits(2) == [0.5, 1.0]
    assert _row(wait=7.0).waits(2) == [7.0, 7.0]
    assert _row(wait=7.0, dated=True).waits(2) == [7.0, 1.0]
    assert _row()._replace(again=False).waits(2) == []


def test_every_table_has_its_rows() -> None:
    names = [row.name for row in rows()]
    assert len(names) == len(set(names))
    assert len(names) > len(OPENAI) + 6 * len(AVAILABILITY) + 4 * len(KINDS)
