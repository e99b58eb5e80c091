"""What an evaluation reports: the tally of rates so far."""

from surecall.eval.running.harness_events import (
    Tally,
)
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
        ]
    )

    assert (tally.counted(GROK), tally.counted(CLAUDE)) == (2, 0)
    assert tally.undecided(GROK, 0.5)
    assert not tally.undecided(GROK, 0.95)
