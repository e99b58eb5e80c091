"""A failed run opens where it was decided; what was made good on the way is no failure."""

from pathlib import Path

import msgspec
import pytest

from surecall.eval.report.page.files import write_report_at
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Miss, Score, Trial
from surecall.testing import calls, says
from tests.eval.report.page.test_browser_early import Told, told
from tests.support.browser import Browser
from tests.support.eval_results import SAME
from tests.support.viewed import address_of, show

WRONG = calls("book", day="Friday")
UNKNOWN = calls("cancel", day="Monday")
MISS = Miss('day is "Monday"', '"Monday"', '"Friday"', 1, "c")


def judged(run: Told, **fields: object) -> Told:
    """Return the run with another judgement."""
    trial: Trial = msgspec.structs.replace(run.trial, **fields)
    return Told(trial, run.lines, run.requests)


FAILED = judged(
    told("wrong", UNKNOWN, WRONG, says("Done."), final_ladder=()),
    status="failed",
    category="ASSERTION_FAILED",
    score=Score(misses=(MISS,)),
)
ENDED = judged(
    told("ended", WRONG, WRONG, says("Done.")), status="failed", category="LOOP_DETECTED", turn=1
)
OLDER = judged(told("older", WRONG, says("Done.")), status="failed", category="ASSERTION_FAILED")
PASSED = told("passed", UNKNOWN, WRONG, says("Done."), final_ladder=())


@pytest.fixture(name="page")
def page_fixture(blank: Browser, tmp_path: Path) -> Browser:
    with open_or_resume(tmp_path, SAME) as store:
        for each in (FAILED, ENDED, OLDER, PASSED):
            store.add(each.trial, each.lines)
        blank.open(write_report_at(store.directory))
    return blank


@pytest.mark.parametrize(("run", "turn"), [(FAILED, 2), (ENDED, 2), (OLDER, 2), (PASSED, 1)])
def test_a_run_opens_at_the_turn_that_decided(page: Browser, run: Told, turn: int) -> None:
    show(page, address_of(run.trial))

    assert page.text("#wire h2") == f"Turn {turn} on the wire"
    current = "return [...document.querySelectorAll('#turns a')].findIndex((a) => a.ariaCurrent)"
    assert page.run(current) == turn - 1


def test_an_address_with_a_turn_opens_that_one(page: Browser) -> None:
    show(page, address_of(FAILED.trial, 2))

    assert page.text("#wire h2") == "Turn 3 on the wire"


def test_what_was_expected_stands_beside_what_came_and_the_task_is_in_sight(page: Browser) -> None:
    show(page, address_of(FAILED.trial))

    assert page.text("#trace-misses p") == 'Not met: day is "Monday" (turn 2)'
    assert page.texts("#trace-misses dt") == ["Expected", "Got"]
    assert page.texts("#trace-misses dd") == ['"Monday"', '"Friday"']
    tops = page.run(
        "return [...document.querySelectorAll('#trace-misses dd')].map((each) =>"
        " each.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1] < 400
    assert page.texts("#trace-task .text") == ["Book Monday."]


def test_only_what_decided_is_red_and_what_was_made_good_is_amber(page: Browser) -> None:
    show(page, address_of(FAILED.trial))
    signs = [text[0] for text in page.texts("#turns li a > span")]
    colours = page.run(
        "const colour = (each) => getComputedStyle(each).color;"
        "const probe = (name) => { const made = document.createElement('i');"
        " made.className = name; document.body.append(made); const found = colour(made);"
        " made.remove(); return found; };"
        "return [[...document.querySelectorAll('#turns li a > span')].map(colour),"
        " ['warn', 'bad'].map(probe)]"
    )
    (recovered, decided, _), (amber, red) = colours

    assert signs == ["△", "✗", "✓"]
    assert (recovered, decided) == (amber, red)
    assert amber != red
    assert page.texts("#turns .legend span") == [
        "△ went on after trouble",
        "✗ decided it",
        "✓ fine",
    ]
    show(page, address_of(PASSED.trial))
    assert [text[0] for text in page.texts("#turns li a > span")] == ["△", "✓", "✓"]


def test_the_list_and_its_filter_say_of_an_expectation_that_it_was_not_met(page: Browser) -> None:
    said = f"Not met: {MISS.check}"
    assert said in page.texts("#list .why")
    options = "return [...document.querySelectorAll('[name=cause] option')].map((one) => one.text)"
    assert said in page.run(options)
    # The address names the expectation itself.
    page.run("location.hash = `#runs?cause=${encodeURIComponent(arguments[0])}`", MISS.check)
    page.wait("document.getElementById('shown').textContent.includes(' of ')")
    assert set(page.texts("#list .row:not(.head) .why")) == {said}


def test_a_cause_leads_to_an_example_at_the_turn_that_decided(page: Browser) -> None:
    first = page.run(
        "return [...document.querySelectorAll('.cause')].findIndex((each) =>"
        " each.textContent.includes(arguments[0]))",
        MISS.check,
    )
    page.run("document.querySelectorAll('.cause')[arguments[0]].id = 'it'", first)

    assert page.texts("#it .versus dt") == ["Expected", "Got"]
    assert page.texts("#it .versus dd") == ['"Monday"', '"Friday"']
    page.click("#it .what a")
    page.wait("document.querySelector('#wire dl') !== null")
    assert page.text("#wire h2") == "Turn 2 on the wire"
