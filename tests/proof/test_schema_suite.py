"""The proof about schemas fails as soon as one is judged, refused or fetched as it must not be."""

from collections.abc import Callable

import pytest

from proof import schema_suite
from surecall.tools import registry
from surecall.values.types import JSON


def test_the_suite_is_judged_right_and_every_bomb_is_dealt_with() -> None:
    outcome = schema_suite.attempt(1, 1)
    # How long a bomb takes depends on the machine; a test does not.
    assert [each for each in outcome.failures if not each.endswith(" ms")] == []
    assert "draft 7 913/913, 2020-12 1257/1257" in outcome.figures


def test_a_validator_that_accepts_everything_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compile_schema(_schema: JSON) -> Callable[[JSON], tuple[str, ...]]:
        return lambda _value: ()

    monkeypatch.setattr(schema_suite, "compile_schema", compile_schema)
    outcome = schema_suite.attempt(1, 1)
    assert "draft7/additionalItems" in outcome.failures[0]


def test_a_tool_that_forgets_its_schema_breaks_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "portable", lambda _schema: {"type": "object"})
    outcome = schema_suite.attempt(1, 1)
    assert "as a tool" in outcome.failures[0]


def test_a_bomb_that_is_accepted_breaks_the_claim() -> None:
    bomb = schema_suite.Bomb({"type": "object"}, {}, accepted=None)
    assert schema_suite.set_off(bomb)[1] == "accepted, not refused as a schema"
