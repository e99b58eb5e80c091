"""A decision is a value: what it says can be written down and read."""

import msgspec
import pytest

from surecall import Decision


@pytest.mark.parametrize(
    ("decision", "written"),
    [
        (Decision.approve(), {"outcome": "allow"}),
        (Decision.deny("too dear"), {"outcome": "deny", "reason": "too dear"}),
        (Decision.confirm("dear"), {"outcome": "confirm", "reason": "dear"}),
        (Decision.replace({"n": 1}), {"outcome": "replace", "arguments": {"n": 1}}),
    ],
)
def test_a_decision_is_written_in_few_words_and_read_again(
    decision: Decision, written: object
) -> None:
    assert msgspec.to_builtins(decision) == written
    assert msgspec.convert(written, Decision) == decision
