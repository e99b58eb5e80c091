"""Look-ups that were made already: they are known until something is changed."""

from surecall.testing import calls
from surecall.values.types import JSON
from tests.core.test_early_answers import DONE, Desk

BLOCKED: JSON = {"block_repeated_success": True}


def test_a_look_up_is_known_until_something_is_changed() -> None:
    desk = Desk()
    script = (calls("get"), calls("get", key="b"), calls("get"))
    _, model = desk.run(*script, calls("put", value="good"), calls("get"), DONE, **BLOCKED)
    assert desk.ran == ["get a", "get b", "put good", "get a"]
    assert "made this exact call already, and its result" in str(model.requests[3]["messages"])


def test_a_look_up_that_found_nothing_asks_for_another_one() -> None:
    desk = Desk()
    _, model = desk.run(calls("get", key=""), calls("get", key=""), DONE, **BLOCKED)
    assert desk.ran == ["get "]
    assert "there was nothing. Use other arguments." in str(model.requests[2]["messages"])
