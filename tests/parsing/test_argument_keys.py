"""Keys are renamed only to the one declared key that they can stand for."""

import pytest

from surecall.parsing.argument_keys import with_own_keys
from surecall.values.types import JSON


@pytest.mark.parametrize(
    ("given", "declared", "expected"),
    [
        ({"calendarId": 1}, ["calendar_id"], {"calendar_id": 1}),
        ({"Calendar-ID": 1, "a": 2}, ["a", "calendar_id"], {"calendar_id": 1, "a": 2}),
        ({"path</arg_key>": 1}, ["path"], {"path": 1}),
        ({"pathName": 1, "other": 2}, ["path_name"], {"path_name": 1, "other": 2}),
    ],
)
def test_a_key_with_the_words_of_one_declared_key_is_that_key(
    given: JSON, declared: list[str], expected: JSON
) -> None:
    assert with_own_keys(given, declared) == expected


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        ({"calendar_id": 1}, ["calendar_id"]),  # nothing to rename
        ({"file_path": 1}, ["path"]),  # it only resembles
        ({"calendarId": 1, "calendar_id": 2}, ["calendar_id"]),  # it is given already
        ({"calendarId": 1, "CalendarID": 2}, ["calendar_id"]),  # two claim it
        ({"userId": 1}, ["user_id", "userid"]),  # it can be both
        ({"K" * 200: 1}, ["k" * 200]),  # too long to be looked at
        ({"naïveKey": 1}, ["naïve_key"]),  # only ASCII is folded
        ({}, ["a"]),
    ],
)
def test_any_other_key_stays_as_it_is(given: JSON, declared: list[str]) -> None:
    assert with_own_keys(given, declared) is None
