"""The record of a trial."""

import msgspec

from surecall.eval.storage.trial import Trial
from tests.support.trials import trial


def test_a_record_that_knows_neither_is_read_as_none() -> None:
    old = msgspec.to_builtins(trial(requests=[{"turn": 0, "latency_ms": 1, "attempt": 1}]))
    del old["false_finals"], old["requests"][0]["build"]
    found = msgspec.convert(old, Trial)

    assert (found.false_finals, found.builds) == (0, ())
