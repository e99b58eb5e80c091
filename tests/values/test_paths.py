"""Paths into JSON values."""

from typing import Any

import pytest

from surecall.values.errors import ConfigError
from surecall.values.paths import path_steps, values_at

VALUE: Any = {"items": [{"id": 1, "tags": ["a", "b"]}, {"id": 2}], "total": 3}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", [VALUE]),
        ("total", [3]),
        ("items[*].id", [1, 2]),
        ("items[1].id", [2]),
        ("items[0].tags[*]", ["a", "b"]),
        ("items[*].tags[1]", ["b"]),
        ("items[7].id", []),
        ("items.id", []),
        ("total[*]", []),
        ("gone.id", []),
    ],
)
def test_a_path_leads_to_any_number_of_values(path: str, found: list[Any]) -> None:
    assert list(values_at(VALUE, path_steps(path))) == found


def test_a_path_may_begin_in_a_list() -> None:
    assert list(values_at([[1, 2], [3]], path_steps("[*][0]"))) == [1, 3]


@pytest.mark.parametrize("path", ["a.", ".a", "a[", "a[]", "a[*", "a[1", "a]b", "a[x].b", "a[²]"])
def test_a_path_that_cannot_be_read_is_the_callers_error(path: str) -> None:
    with pytest.raises(ConfigError, match="invalid path"):
        path_steps(path)
