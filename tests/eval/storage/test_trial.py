"""The record of a trial."""

from typing import Any

import msgspec
import pytest

from surecall.eval.storage.trial import Conduct, Effects, Miss, Score, Trial, Truth, parse_trial
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


def test_a_miss_is_told_in_a_sentence() -> None:
    miss = Miss('the answer is "Done."', '"Done."', '"All set."', turn=2)
    silent = Miss("ping() succeeds", "a call that succeeds")

    assert Score(misses=(miss, silent, Miss("the mail was sent twice"))).reasons == (
        'expected that the answer is "Done.", got "All set."',
        "expected that ping() succeeds: a call that succeeds, got nothing",
        "the mail was sent twice",
    )


def test_a_record_is_read_as_it_was_written() -> None:
    miss = Miss("the state is 1", "1", "2", turn=0, call_id="c")
    whole = trial("failed", score=Score(misses=(miss,)), draft={"reasons": []})

    assert parse_trial(msgspec.json.encode(whole).decode()) == whole
    assert not whole.score.ok


@pytest.mark.parametrize("reasons", [[], ["not Done.", "not bar"]])
def test_the_sentences_of_an_older_record_become_misses(reasons: list[str]) -> None:
    plain = msgspec.to_builtins(trial("failed"))
    del plain["score"]["misses"]
    plain["score"]["reasons"] = reasons
    found = parse_trial(msgspec.json.encode(plain).decode())

    assert found.score.misses == tuple(map(Miss, reasons))
    assert (found.score.reasons, found.score.ok) == (tuple(reasons), not reasons)


def test_a_record_with_other_things_in_place_of_a_score_is_refused() -> None:
    plain = msgspec.to_builtins(trial("failed")) | {"score": {"reasons": [1]}}

    with pytest.raises(msgspec.ValidationError):
        parse_trial(msgspec.json.encode(plain).decode())
