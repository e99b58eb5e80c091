"""Tests of `surecall.eval.report.page.html`."""

import json
import re
from pathlib import Path

import msgspec
import pytest

import surecall.eval.report.page
from surecall.eval.report.page.data import FailureRow, Origin, Report, ReportContext, build_report
from surecall.eval.report.page.formatting import RateAxis
from surecall.eval.report.page.html import (
    SCRIPTS,
    Board,
    RateMoves,
    build_board,
    count_table,
    rate_moves,
    read_asset,
    render_page,
    render_sections,
    runs_json,
)
from surecall.eval.report.page.snapshot import snapshot_report
from surecall.eval.report.page.traces import TraceSource
from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.storage.trial import CONTROL, Cell, Status, Trial
from tests.support.hostile_texts import PAYLOADS
from tests.support.reports import Page, hashed, report, sections
from tests.support.trials import series, trial

# The page: one file, nothing from outside, every figure in it, whatever the texts try


ASSETS = Path(surecall.eval.report.page.__file__).parent / "assets"
MOST_LINES = 300
ALWAYS = ["top", "use", "failed", "reliability", "about", "runs"]


def test_the_sections_stand_in_their_order() -> None:
    page = Page(render_page(report()))

    with_gains = ["top", "use", "gain", "failed", "scenarios", "reliability", "about", "runs"]
    assert sections(page) == with_gains
    assert render_sections(report()) in render_page(report())


def test_a_section_without_a_subject_is_left_out_and_so_is_its_link() -> None:
    profiles = [*series(".."), *series("..", cell=Cell("maker/model", "creative"))]
    one, two = Page(render_page(report(series("..")))), Page(render_page(report(profiles)))

    assert sections(one) == ALWAYS
    assert [*sections(two)] == ["top", "use", "failed", "map", "reliability", "about", "runs"]
    for page in (one, two):
        links = [link for link in page.all("a") if link.get("href") in {"#map", "#gain"}]
        hidden = {str(link["href"])[1:] for link in links if "hidden" in link}
        assert {"map", "gain"} - hidden == {"map", "gain"} & {*sections(page)}


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_nothing_else() -> None:
    page = Page(render_page(report()))
    (running,) = [text for attributes, text in page.scripts if "type" not in attributes]
    (style,) = page.styles

    assert page.policy.split("; ") == [
        "default-src 'none'",
        f"style-src {hashed(style)}",
        f"script-src {hashed(running)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_only_a_live_page_may_ask_its_server_and_only_a_bundle_loads_its_own_scripts() -> None:
    live = Page(render_page(report(), live=True))
    bundle = Page(render_page(report(), TraceSource("bundle", (0,), folder="report_data")))

    assert "connect-src 'self'" in live.policy
    assert "strict-dynamic" not in live.policy
    assert live.data["traces"] == {"kind": "live", "starts": [], "note": "", "folder": ""}
    assert "'strict-dynamic'" in bundle.policy
    assert "connect-src" not in bundle.policy


def test_nothing_is_fetched_and_no_attribute_holds_code_or_style() -> None:
    page = Page(render_page(report()))

    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for name in ("src", "href", "action", "data", "srcset"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,")), (tag, attributes)


@pytest.mark.parametrize("name", sorted(path.name for path in ASSETS.iterdir()))
def test_the_files_of_the_page_are_short_and_set_no_markup(name: str) -> None:
    text = read_asset(name)

    assert len(text.splitlines()) <= MOST_LINES
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text
    if name.endswith((".js", ".css")):
        assert not re.search("</|<!--", text)
    if name.endswith(".html"):
        assert "|safe" not in text.replace("' class=\"all\"' | safe", "").replace(" ", "")


def test_every_script_that_the_package_holds_is_in_the_page() -> None:
    assert sorted(SCRIPTS) == sorted(path.name for path in ASSETS.glob("page_*.js"))


def test_the_data_block_holds_the_columns_of_the_runs() -> None:
    found = report()
    page = Page(render_page(found))

    assert page.data["runs"] == json.loads(msgspec.json.encode(found.runs))
    assert page.data == json.loads(runs_json(found))


def test_the_sentence_comes_first_then_the_groups_and_no_average_over_models() -> None:
    trials = [*series("." * 40, cell=Cell("good")), *series("x" * 40, cell=Cell("poor"))]
    page = Page(render_page(report(trials)))
    first = page.words[: page.words.index("Why runs failed")]

    assert "✓ Use good with production (profile default)." in first
    assert "✗ Avoid poor, even with production (profile default)." in first
    assert first.index("Use good ") < first.index("✓ Use 1 of 2") < first.index("✗ Avoid 1 of 2")
    assert "50.0%" not in first


def test_the_gain_is_part_of_the_sentence_when_there_are_several_strategies() -> None:
    trials = [
        *series("x" * 20, cell=Cell("m", strategy="raw")),
        *series("." * 20, cell=Cell("m")),
    ]
    words = Page(render_page(report(trials))).words

    assert "Effect of strategies. production over raw: helps m (+100 points)." in words
    assert "▲ +100.0 raw 0/20 → production 20/20" in words
    assert "20 fixed, 0 broken · significant, p = 1.9e-06" in words
    assert "Effect of strategies" not in Page(render_page(report(series("..")))).words


def test_a_simulated_run_says_so_in_the_title_and_once_at_the_top() -> None:
    trials = [
        *series("..x", "one"),
        *series("..x", "two"),
        *series("..x", "one", Cell("maker/model", "creative")),
        *series("xxx", "one", Cell("maker/model", strategy="raw")),
    ]
    sheet = Sheet(tuple(SheetColumn(each, simulated=True) for each in {t.key.cell for t in trials}))
    text = render_page(report(trials, sheet=sheet))
    top, *others = re.findall("<section.*?</section>", text, re.DOTALL)

    assert "<title>Simulated: " in text
    assert top.count('class="sim"') == 1
    assert len(others) > 7
    assert not any('class="sim"' in each for each in others)
    assert "imulated" not in Page(render_page(report(series("..x")))).words


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        pytest.param([], "No run is recorded yet.", id="empty"),
        pytest.param(series("i"), "no tool run was scored", id="spoiled"),
        pytest.param(series("s"), "tools disabled", id="skipped"),
        pytest.param(series("."), "No run failed.", id="single"),
        pytest.param(
            series("." * 40), "Use maker/model with production (profile default).", id="sure"
        ),
        pytest.param(
            series("x" * 9),
            "Avoid maker/model, even with production (profile default).",
            id="failed",
        ),
        pytest.param(series("..x", "chat_only"), "no tool run was scored", id="control"),
    ],
)
def test_whatever_there_is_the_page_says_it(trials: list[Trial], said: str) -> None:
    page = Page(render_page(report(trials)))

    assert said in page.words
    assert [*sections(page)] in (ALWAYS, [name for name in ALWAYS if name != "reliability"])


def test_no_evidence_is_written_out() -> None:
    words = Page(render_page(report())).words

    assert "production over baseline: no significant difference." in words
    assert "not significant after correction, p = " in words


def test_three_strategies_are_compared_step_by_step() -> None:
    trials = [
        each
        for strategy in ("raw", "baseline", "production")
        for each in series(
            "." * 9 if strategy == "production" else "x" * 9, cell=Cell("m", strategy=strategy)
        )
    ]
    words = Page(render_page(report(trials))).words

    assert "= no change raw 0/9 → baseline 0/9" in words
    assert "▲ +100.0 baseline 0/9 → production 9/9" in words


def test_more_trials_that_would_not_help_are_not_asked_for() -> None:
    words = Page(render_page(report(series("." * 18 + "xx")))).words

    assert "≈ Too close to call" in words
    assert "More runs would not decide if the rates stay the same." in words
    assert "? Undecided" not in words


def test_a_page_without_single_runs_has_no_links_that_lead_to_them() -> None:
    page = Page(render_page(snapshot_report()))

    assert not [link for link in page.all("a") if link.get("class") == "pick"]


def test_a_column_without_figures_is_left_out() -> None:
    bare = Page(render_page(report([trial()]))).words
    full = Page(
        render_page(
            report(
                [
                    trial(
                        elapsed_ms=9,
                        usage={"cost": 0.01},
                        requests=[{"turn": 0, "latency_ms": 1, "attempt": 1, "provider": "Acme"}],
                    ),
                    trial("failed", 2),
                ]
            )
        )
    ).words

    for word in ("Cost", "Tokens", "Gain points", "By provider", "Retries", "Premature answers"):
        assert word not in bare
    for word in ("Cost", "p95", "By provider", "Acme"):
        assert word in full


def test_a_cause_shows_what_was_expected_beside_what_came_and_leads_to_its_runs() -> None:
    miss = {"check": 'the answer is "4"', "expected": '"4"', "got": '"5"', "turn": 2}
    cell = Cell("a/b", strategy="raw")
    trials = [trial("failed", at, "sums", cell, score={"misses": [miss]}) for at in (1, 2)]
    page = Page(render_page(report(trials)))

    assert '2 runs Not met: the answer is "4" Expected "4" Got "5" ASSERTION_FAILED' in page.words
    links = {link.get("href") for link in page.all("a")}
    cause = "cause=the%20answer%20is%20%224%22"
    assert {
        f"#runs?{cause}",
        f"#runs?{cause}&scenario=sums",
        f"#runs?{cause}&model=a%2Fb",
        "#run/a%2Fb,default,raw,sums,1",
    } <= links


def test_what_infrastructure_spoiled_is_told_apart_from_what_failed() -> None:
    spoiled = trial("infra", 2, category="HTTP_502", error="HTTP_502: bad gateway")
    words = Page(render_page(report([trial("failed"), spoiled]))).words

    assert words.index("Infrastructure errors (not scored)") < words.index("bad gateway")


def test_causes_beyond_the_first_few_are_folded() -> None:
    trials = [
        trial("failed", at, score={"misses": [{"check": f"check {at}"}]}) for at in range(1, 12)
    ]
    assert "3 rarer causes" in Page(render_page(report(trials))).words


# --- hostile texts --------------------------------------------------------------------------------


def poisoned(payload: str) -> Report:
    """Put a payload everywhere that a text from outside can be."""
    cells = [Cell(payload, payload, strategy) for strategy in ("baseline", "production")]
    request = {"turn": 0, "latency_ms": 3, "attempt": 1, "provider": payload}
    ends: tuple[tuple[Status, str], ...] = (("passed", ""), ("failed", payload))
    trials = [
        trial(
            status,
            number,
            payload,
            cell,
            category=category,
            error=payload,
            fired=[payload],
            requests=[request],
            score={"misses": [dict.fromkeys(("check", "expected", "got"), payload)]},
        )
        for cell in cells
        for number, (status, category) in enumerate(ends, 1)
    ]
    origin = Origin(
        name=payload,
        started=payload,
        version=payload,
        code=payload,
        config_hash=payload,
        base_url=payload,
        api_prefix=payload,
        command=payload,
    )
    return build_report(trials, ReportContext(origin=origin, notices=(payload,)))


HARMLESS = Page(render_page(poisoned("harmless"))).shape


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(PAYLOADS), 25))
def test_no_text_becomes_a_tag_and_every_text_is_kept(start: int) -> None:
    for payload in PAYLOADS[start : start + 25]:
        found = poisoned(payload)
        text = render_page(found)
        page = Page(text)

        assert text.encode().decode() == text
        assert page.shape == HARMLESS
        runs = page.data["runs"]
        assert isinstance(runs, dict)
        assert runs["models"] == [payload]
        assert runs["errors"] == ["", payload[:199] + "…" if len(payload) > 200 else payload]
        assert page.data == json.loads(runs_json(found))


@pytest.mark.parametrize("payload", ["</script><script>alert(1)</script>", "<!--<script>", "a&b"])
def test_a_data_block_holds_nothing_that_could_end_it(payload: str) -> None:
    found = runs_json(poisoned(payload))

    assert found.isascii()
    assert not set("<>&") & set(found)
    assert json.loads(found)["origin"]["name"] == payload


def test_unseen_characters_are_spelled_out_in_the_sections() -> None:
    text = render_page(poisoned("a\x1b]8;;x\x07\u202eb\u2066\ud800"))

    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text
    )
    assert "a\\x1b]8;;x\\x07\\u202eb\\u2066\\ud800" in text


# The first screen: groups, their order, and the columns that have something to show


def board(*trials: Trial) -> Board:
    return build_board(build_report(trials, ReportContext()))


def test_models_stand_in_their_groups_best_first_by_rate_then_time_then_cost() -> None:
    def good(model: str, ms: int, cost: float) -> list[Trial]:
        cell = Cell(model)
        usage = {"cost": cost}
        return [trial(number=at, cell=cell, elapsed_ms=ms, usage=usage) for at in range(1, 41)]

    found = board(
        *series("x" * 20, cell=Cell("poor")),
        *series("." * 18 + "xx", cell=Cell("open")),
        *good("dear", 5, 0.2),
        *good("slow", 9, 0.1),
        *good("cheap", 5, 0.1),
    )

    assert [group.decision for group in found.groups][:2] == ["use", "avoid"]
    assert [row.advice.model for row in found.rows] == ["cheap", "dear", "slow", "poor", "open"]
    assert (found.times, found.costs, found.profiles, found.gains) == (True, True, False, False)


def test_a_row_names_its_weakest_scenario_and_counts_the_others() -> None:
    found = board(*series("..x", "some"), *series("xxx", "worst"), *series("..", "fine"))
    (row,) = found.rows

    assert [(one.scenario, one.rate.k, one.rate.n) for one in row.weak] == [("worst", 0, 3)]
    assert row.more_weak == 1
    assert found.scenarios == ("fine", "some", "worst")


def test_a_row_shows_what_its_strategy_gained_over_the_first() -> None:
    raw = Cell("maker/model", strategy="raw")
    (row,) = board(*series("x" * 9, cell=raw), *series("." * 9)).rows

    assert row.gain is not None
    assert (row.gain.first, row.gain.second, row.gain.fixed) == ("raw", "production", 9)
    assert row.start == 0.0


def test_without_runs_there_is_nothing_to_show() -> None:
    assert board() == Board(axis=RateAxis(0))
    (row,) = board(*series("s")).rows
    assert (row.advice.decided_tool.n, row.gain, row.weak) == (0, None, ())


def test_a_control_that_fails_is_a_caution_beside_the_verdict() -> None:
    found = board(*series("." * 40), *series("...xx", CONTROL))

    assert [group.decision for group in found.groups] == ["use"]
    assert (found.rows[0].caution, found.cautions) == (True, True)
    assert not board(*series("." * 40), *series(".....", CONTROL)).cautions


# How rates moved from strategy to strategy


def test_models_that_moved_are_drawn_and_the_others_named() -> None:
    trials = [
        *series("x" * 9, cell=Cell("helped", strategy="raw")),
        *series("." * 9, cell=Cell("helped")),
        *series("." * 9, cell=Cell("same", strategy="raw")),
        *series("." * 9, cell=Cell("same")),
    ]
    found = rate_moves(build_report(trials, ReportContext()))
    (move,) = found.changed

    assert found.strategies == ("raw", "production")
    assert [(each.mark, each.strategy, each.tool.k) for each in move.points] == [
        (0, "raw", 0),
        (1, "production", 9),
    ]
    assert [gain.model for gain in found.unchanged] == ["same"]


def test_a_strategy_without_a_judged_run_has_no_place() -> None:
    trials = [
        *series("x.", cell=Cell("m", strategy="raw")),
        *series("..", cell=Cell("m")),
        *series("ii", cell=Cell("m", strategy="guided")),
        *series(".", cell=Cell("other", strategy="raw")),
    ]
    (move,) = rate_moves(build_report(trials, ReportContext())).changed

    assert [each.strategy for each in move.points] == ["raw", "production"]
    assert rate_moves(build_report(series(".."), ReportContext())) == RateMoves()


def test_rates_that_are_near_each_other_are_drawn_on_levels_of_their_own() -> None:
    trials = [
        *series("x" * 9 + ".", cell=Cell("m", strategy="raw")),
        *series("." + "x" * 9, cell=Cell("m")),
        *series("." * 10, cell=Cell("m", strategy="guided")),
        *series("x.." + "." * 7, cell=Cell("other", strategy="raw")),
        *series("." * 10, cell=Cell("other")),
    ]
    found = rate_moves(build_report(trials, ReportContext()))
    down = {
        move.gain.model: [(each.strategy, each.down) for each in move.points]
        for move in found.changed
    }

    assert down["m"] == [("raw", -7), ("production", 7), ("guided", 0)]
    assert down["other"] == [("raw", 0), ("production", 0)]


# Tables of failures


def test_a_tally_puts_the_fullest_rows_and_columns_first() -> None:
    rows = [
        FailureRow("A", "one", "m", "", infra=False, count=1),
        FailureRow("B", "two", "m", "", infra=True, count=5),
        FailureRow("A", "two", "n", "", infra=True, count=2),
    ]
    found = count_table(rows, "code", "scenario")

    assert (found.rows, found.columns) == (("B", "A"), ("two", "one"))
    assert (found.totals, found.most) == ({"A": 3, "B": 5}, 5)
    assert found.counts["A", "two"] == 2
    assert found.infra == {"B"}
    assert count_table([], "code", "model").most == 0
