"""JSON piece by piece: the same bytes as at once."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.report.pretty import Rows, pretty
from surecall.wire.messages import encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def at_once(value: object) -> bytes:
    return msgspec.json.format(encode(value)) + b"\n"


@given(VALUES)
def test_pieces_are_what_is_written_at_once(value: object) -> None:
    assert b"".join(pretty(value)) == at_once(value)


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=2), max_size=4))
def test_rows_are_written_like_a_list_of_what_they_make(items: list[dict[str, object]]) -> None:
    rows = Rows(items, lambda item: {"is": item})
    made = [{"is": item} for item in items]

    assert b"".join(pretty({"a": [rows], "b": rows})) == at_once({"a": [made], "b": made})


def test_rows_are_made_when_they_are_read() -> None:
    seen: list[int] = []

    def made(item: int) -> dict[str, int]:
        seen.append(item)
        return {"n": item}

    rows = Rows([1, 2, 3], made)
    assert (len(rows), seen) == (3, [])
    assert (rows[1], rows[:1], seen) == ({"n": 2}, [{"n": 1}], [2, 1])
