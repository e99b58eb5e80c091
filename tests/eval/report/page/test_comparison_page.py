"""The page of two runs: every figure in it, what changed, and nothing that could act."""

import re

import pytest

from surecall.eval.analysis.comparisons import Comparisons, ToolOutcomes, compare_runs
from surecall.eval.report.page.comparison_page import (
    ComparedRun,
    UnmatchedTrials,
    changed_conversations,
    render_comparison,
    unmatched_trials,
)
from surecall.eval.report.page.formatting import DifferenceAxis, difference_axis_for
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from tests.support.hostile_texts import PAYLOADS
from tests.support.reports import Page, hashed
from tests.support.trials import CELL, ONE_SCENARIO, rich_trials, series, trial

SECTIONS = ["top", "cells", "changes", "unmatched", "settings"]
GOOD, BAD = "." * 12, "x" * 10 + ".."
OTHER, THIRD = Cell("other/model", "warm", "raw"), Cell("third/model")


def side(trials: list[Trial], name: str = "run", *, simulated: bool = False) -> ComparedRun:
    cells = tuple(dict.fromkeys(each.key.cell for each in trials))
    return ComparedRun(name, f"/runs/{name}", {}, simulated, cells, tuple(trials))


def compared(before: ComparedRun, after: ComparedRun) -> Comparisons:
    return compare_runs(ToolOutcomes(before.trials), ToolOutcomes(after.trials))


def page_of(before: list[Trial], after: list[Trial], **texts: tuple[str, ...]) -> Page:
    one, two = side(before, "one"), side(after, "two")
    return Page(render_comparison(one, two, compared(one, two), **texts))


def rows_of(text: str, section: str) -> list[str]:
    """Return the words of each row in the body of a section's table."""
    part = text.partition(f'<section id="{section}"')[2].partition("</section>")[0]
    body = part.partition("<tbody>")[2].partition("</tbody>")[0]
    return [Page(row).words for row in body.split("<tr")[1:]]


def test_the_page_has_its_sections_no_script_and_a_policy_that_allows_none() -> None:
    page = page_of(series("..x"), series(".x."))
    (style,) = page.styles

    assert [section["id"] for section in page.all("section")] == SECTIONS
    assert page.scripts == []
    assert page.policy.split("; ") == [
        "default-src 'none'",
        f"style-src {hashed(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_the_page_asks_for_nothing_and_handles_no_event() -> None:
    page = page_of(rich_trials(), rich_trials()[::-1])
    names = {name for _, attributes in page.tags for name in attributes}

    assert not [name for name in names if name.startswith("on") or name in {"src", "style"}]
    assert {link["href"] for link in page.all("link")} == {"data:,"}
    assert {(link["href"] or "")[:1] for link in page.all("a")} == {"#"}


def test_a_row_tells_both_rates_what_changed_and_how_sure_that_is() -> None:
    sides = side(series(BAD)), side(series(GOOD))
    text = render_comparison(*sides, compared(*sides))
    overall, row = rows_of(text, "cells")

    assert text.startswith("<!doctype html>")
    assert overall.startswith('class="all"> All cells all production 2/12 16.7%')
    assert "maker/model default production" in row
    assert "2/12 16.7% [4.7–44.8] 12/12 100.0% [75.8–100.0] +83.3 [" in row  # noqa: RUF001
    assert row.endswith("10 0 0.002 ▲ better")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BAD, GOOD, "From A to B: ▲ better +83.3 points"),
        (GOOD, BAD, "From A to B: ▼ worse −83.3 points"),  # noqa: RUF001
        ("....xx", "...xxx", "≈ no evidence of a difference −16.7 points"),  # noqa: RUF001
        ("i", ".", "No conversation was scored in both runs"),
    ],
)
def test_the_verdict_is_a_sign_and_words(before: str, after: str, said: str) -> None:
    words = page_of(series(before), series(after)).words

    assert said in words
    assert ("not significant after correction" in words) == ("no evidence" in said)


def test_the_cells_are_counted_by_verdict_each_corrected_for_all() -> None:
    before = [*series("x" * 6 + "."), *series(GOOD, cell=OTHER), *series("..", cell=THIRD)]
    after = [*series("." * 7), *series(BAD, cell=OTHER)]
    sides = side(before), side(after)
    text = render_comparison(*sides, compared(*sides))

    assert "Cells: 1 better, 1 worse, 1 not compared." in Page(text).words
    maker = next(row for row in rows_of(text, "cells") if "maker/model" in row)
    other = next(row for row in rows_of(text, "cells") if "other/model" in row)
    assert "6 0 0.031 ▲ better" in maker
    assert "0 10 0.0039 ▼ worse" in other


def test_what_was_left_out_of_a_rate_is_counted_by_reason() -> None:
    words = page_of(series("..ix."), series(".i.s")).words

    assert "excluded: 1 in one run only, 2 with infrastructure errors, 1 skipped" in words
    assert "excluded:" not in page_of(series(".x"), series("x.")).words


def test_every_changed_conversation_is_listed_with_what_it_came_to() -> None:
    before = [
        *series("..xis"),
        trial("failed", 6, category="NO_TOOL_CALLS", error=f"NO_TOOL_CALLS: {'e' * 300}"),
        trial("failed", 1, CONTROL),
    ]
    after = [*series(".x..."), trial("passed", 6), trial("passed", 1, CONTROL)]
    sides = side(before), side(after)
    found = compared(*sides)
    changes = changed_conversations(*sides, found)
    text = render_comparison(*sides, found)

    assert [(each.kind, each.key.trial) for each in changes] == [
        ("broken", 2),
        ("fixed", 3),
        ("fixed", 6),
    ]
    broken, fixed, named = rows_of(text, "changes")
    assert f"{ONE_SCENARIO} 2 ✗ broken passed ASSERTION_FAILED ≈ no evidence" in broken
    assert "3 ✓ fixed ASSERTION_FAILED passed ≈ no evidence" in fixed
    assert f"NO_TOOL_CALLS {'e' * 199}… passed" in named
    assert "The model never called a tool." in Page(text).words


def test_the_list_has_as_many_changes_as_the_table_counts() -> None:
    sides = side(rich_trials()), side([*rich_trials()[40:], *rich_trials()[:30]])
    swapped = [
        trial("passed" if each.status == "failed" else "failed", *place_of(each))
        for each in sides[1].trials
    ]
    sides = sides[0], side(swapped)
    found = compared(*sides)
    changes = changed_conversations(*sides, found)

    for kind, number in (
        ("fixed", sum(row.fixed for row in found.overall)),
        ("broken", sum(row.broken for row in found.overall)),
    ):
        assert number > 0
        assert sum(change.kind == kind for change in changes) == number
    assert sum(one.trials for one in unmatched_trials(*sides)) == sum(
        row.unpaired for row in found.overall
    )


def place_of(each: Trial) -> tuple[int, str, Cell]:
    return each.key.trial, each.key.scenario, each.key.cell


def test_what_only_one_run_has_is_told_by_cell_or_by_scenario() -> None:
    before = side([*series("..."), *series("..", cell=OTHER), *series(".", CONTROL, THIRD)])
    after = side([*series("."), *series("..", "new")])

    assert unmatched_trials(before, after) == (
        UnmatchedTrials("A", CELL, ONE_SCENARIO, 2),
        UnmatchedTrials("A", OTHER, "", 2),
        UnmatchedTrials("A", THIRD, "", 0),
        UnmatchedTrials("B", CELL, "new", 2),
    )
    first, second, _, last = rows_of(
        render_comparison(before, after, compared(before, after)), "unmatched"
    )
    assert first.endswith(f"{ONE_SCENARIO} A 2")
    assert second.endswith("other/model warm raw the whole cell A 2")
    assert last.endswith("new B 2")


def test_two_runs_that_are_alike_say_so() -> None:
    words = page_of(series("..x"), series("..x")).words

    assert "No conversation was fixed or broken." in words
    assert "Both runs have the same conversations." in words
    assert "Both runs were made with the same settings." in words
    assert "Note." not in words


def test_settings_and_notices_are_shown() -> None:
    words = page_of(
        series("."), series("."), settings=("seed: 0 and 7",), notices=("unfair",)
    ).words

    assert "then in B. seed: 0 and 7" in words
    assert "Note. unfair" in words


@pytest.mark.parametrize("simulated", [(True, False), (False, True), (True, True)])
def test_a_simulated_run_on_either_side_is_said_first(simulated: tuple[bool, bool]) -> None:
    before, after = (side(series("."), simulated=each) for each in simulated)
    text = render_comparison(before, after, compared(before, after))

    assert "<title>Simulated: " in text
    assert text.index("Simulated.</strong>") < text.index('class="sentence"')
    assert Page(text).words.count("trial, simulated") == sum(simulated)

    assert text.count('class="sim"') == 1


def test_the_plots_of_differences_have_one_axis_that_fits_them() -> None:
    before, after = side(series(BAD)), side(series(GOOD))
    text = render_comparison(before, after, compared(before, after))
    head = text[text.index("<thead>") : text.index("</thead>")]

    assert re.findall(r"<text[^>]*>(.*?)</text>", head) == [
        *("\N{MINUS SIGN}100", "\N{MINUS SIGN}50", "0", "+50", "+100")
    ]
    assert difference_axis_for([(-0.04, 0.13)]) == DifferenceAxis(0.2)
    assert difference_axis_for([]) == DifferenceAxis(1.0)
    assert [DifferenceAxis(0.2).at(each) for each in (-0.3, 0, 0.1)] == [
        *("0.00%", "50.00%", "75.00%")
    ]


def test_runs_that_are_real_are_not_called_simulated() -> None:
    assert "imulated" not in page_of(series("."), series(".")).text


def test_runs_without_a_trial_make_a_page() -> None:
    assert "there is nothing to compare" in page_of([], []).words


# --- hostile texts --------------------------------------------------------------------------------


def poisoned(payload: str) -> str:
    """Put a payload everywhere that a text from outside can be."""
    cell, gone = Cell(payload, payload, payload), Cell(payload, payload, f"{payload}!")
    bad = {"category": payload, "error": payload}
    before = [
        trial("failed", 1, payload, cell, **bad),
        trial("passed", 2, payload, cell),
        trial("passed", 3, payload, cell),
        trial("passed", 1, payload, gone),
    ]
    after = [trial("passed", 1, payload, cell), trial("failed", 2, payload, cell, **bad)]
    sides = side(before, payload), side(after, payload)
    texts = (payload, payload)
    return render_comparison(*sides, compared(*sides), settings=texts, notices=texts)


HARMLESS = Page(poisoned("harmless")).shape


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(PAYLOADS), 25))
def test_no_text_becomes_a_tag(start: int) -> None:
    for payload in PAYLOADS[start : start + 25]:
        text = poisoned(payload)
        page = Page(text)

        assert text.encode().decode() == text
        assert page.shape == HARMLESS, payload
        assert page.scripts == []


@pytest.mark.parametrize("payload", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
def test_a_hostile_text_is_there_to_be_read(payload: str) -> None:
    page = Page(poisoned(payload))

    assert page.text.count(payload) > 20


def test_unseen_characters_are_spelled_out() -> None:
    text = poisoned("a\x1b]8;;x\x07\u202eb\u2066\ud800")

    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text
    )
    assert "a\\x1b]8;;x\\x07\\u202eb\\u2066\\ud800" in text
