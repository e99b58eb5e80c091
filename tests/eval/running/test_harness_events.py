"""What an evaluation reports: the tally of rates so far."""

import msgspec

from surecall.eval.analysis.stats import Rate, interval, leaves
from surecall.eval.running.harness_events import Tally
from surecall.eval.storage.trial import Key
from tests.support.eval_fakes import CLAUDE, GROK, a_trial


def test_a_tally_counts_what_the_tool_rate_counts() -> None:
    key = Key(GROK, "happy_path", 1)
    tally = Tally(
        [
            a_trial(key),
            a_trial(key, "failed", "X"),
            a_trial(key, "infra", "AUTH"),
            a_trial(Key(GROK, "chat_only", 1)),
            msgspec.structs.replace(a_trial(Key(GROK, "mine", 1)), tools=False),
        ]
    )

    assert (tally.counted(GROK), tally.counted(CLAUDE)) == (2, 0)


def test_a_tally_decides_only_what_holds_at_every_look() -> None:
    keys = [Key(GROK, "happy_path", number) for number in range(1, 61)]
    forty, sixty = Tally(map(a_trial, keys[:40])), Tally(map(a_trial, keys))

    assert leaves(interval([Rate(40, 40)]), 0.9)
    assert forty.undecided(GROK, 0.9)
    assert not sixty.undecided(GROK, 0.9)
    assert Tally().undecided(GROK, 0.9)
