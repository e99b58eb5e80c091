"""The verdict on an endpoint, in one sentence."""

import pytest

from surecall.eval.analysis.agreement import Agreement, Answers, Side, agreements
from surecall.eval.analysis.agreement_words import agreement_sentence, percent, points
from surecall.eval.analysis.ratios import UNKNOWN, Ratio
from tests.eval.analysis.test_agreement import side

NAMES = [str(number) for number in range(60)]
WHOLE = side({name: ["a", "a"] for name in NAMES})


def of(other: Side, reference: Side = WHOLE) -> Agreement:
    (found,) = agreements("A", {"A": reference, "B": other})
    return found


@pytest.mark.parametrize(
    ("found", "begin", "parts"),
    [
        (
            of(WHOLE),
            "No difference between B and A can be seen: B makes A's calls with an F1 of 100%",
            ("A itself with 100%", "(n = 60 requests)", "cannot be ruled out"),
        ),
        (
            of(side({name: ["A", "A"] for name in NAMES})),
            "B is worse than A: it makes A's calls with an F1 of 0.0%",
            ("0.0% [0.0, 6.3] of its calls fit their schemas, 100% [93.7, 100] of A's do",),
        ),
        (
            of(side({name: [(), ()] for name in NAMES})),
            "B is worse than A: it decides to call as A does with an F1 of 0.0%",
            ("A itself with 100%",),
        ),
        (
            of({**WHOLE} | {name: Answers(refused=2) for name in NAMES[:30]}),
            "B is worse than A: it answers 50.0% [37.4, 62.6] of the requests, A 100%",
            ("A 100% [93.7, 100] (n = 60 requests).",),
        ),
        (
            of(WHOLE, side({name: ["a", "a", "b"] for name in NAMES})),
            "B is no worse than A: B makes A's calls with an F1 of 66.7%",
            ("A itself with 33.3%",),
        ),
        (
            of(side({"1": ["a"]}), side({"1": ["a"]})),
            "Open: B makes A's calls with an F1 of 100%",
            ("(n = 1 request), but how well A agrees with itself is not known", "-n 2"),
        ),
        (
            of(side({"1": ["a", "a"]}), side({"1": ["a", "a"]})),
            "Open: B makes A's calls with an F1 of 100%",
            ("(n = 1 request), but fewer than 8 requests decide nothing",),
        ),
        (
            of(*[side({name: [(), ()] for name in NAMES})] * 2),
            "Open: neither B nor A made a call (n = 60 requests).",
            (),
        ),
        (of({}), "Open: no request was answered by both B and A.", ()),
    ],
)
def test_the_sentence_says_what_was_seen_and_what_it_rests_on(
    found: Agreement, begin: str, parts: tuple[str, ...]
) -> None:
    sentence = agreement_sentence(found)

    assert sentence.startswith(begin)
    assert all(part in sentence for part in parts), sentence


def test_figures_are_written_with_their_intervals() -> None:
    assert percent(Ratio(0.8123, 0.7, 1.0, 9)) == "81.2% [70.0, 100]"
    assert points(Ratio(-0.028, -1.0, 0.025, 9)) == "-2.8 [-100, +2.5]"
    assert (percent(UNKNOWN), points(UNKNOWN)) == ("unknown", "")
