"""The record of a trial."""

from typing import Any

import msgspec

from surecall.eval.storage.trial import Conduct, Effects, Score, Trial, Truth
from tests.support.trials import trial


def test_a_record_that_knows_neither_is_read_as_none() -> None:
    old = msgspec.to_builtins(trial(requests=[{"turn": 0, "latency_ms": 1, "attempt": 1}]))
    del old["false_finals"], old["requests"][0]["build"]
    del old["truth"], old["after_no"], old["score"]["effects"], old["score"]["declined"]
    found = msgspec.convert(old, Trial)

    assert (found.false_finals, found.builds) == (0, ())
    assert (found.truth, found.score.effects, found.score.declined) == ("", None, None)
    assert Conduct.of(found) == Conduct()


def judged(truth: Truth = "right", effects: Effects | None = None, **rest: Any) -> Trial:
    status = rest.pop("status", "passed" if truth == "right" else "failed")
    score = Score(effects=effects or Effects())
    return trial(status=status, score=score, truth=truth, **rest)


def test_conduct_counts_runs_effects_and_what_they_took() -> None:
    served = [{"turn": 0, "latency_ms": 1, "attempt": 1}]
    runs = [
        judged(requests=served * 3, usage={"total_tokens": 30}),
        judged("silent", Effects(2, 1, 0)),
        judged("false_success", Effects(4, 1, 2), requests=served),
        judged("open", Effects(1, 0, 1), after_no=2),
        judged("", Effects(9, 9, 9), status="infra"),
    ]
    total = sum(map(Conduct.of, runs), Conduct())

    assert total == Conduct(
        runs=4,
        right=1,
        silent=2,
        false_success=1,
        wrong=2,
        repeated=3,
        astray=3,
        requests=4,
        tokens=30,
        after_no=2,
    )
    assert (total.requests_per_run, total.tokens_per_run) == (1.0, 7.5)
    assert (Conduct().requests_per_run, Conduct().tokens_per_run) == (None, None)
