"""The report in a browser: filters, addresses, and states."""

import json
from collections import Counter
from pathlib import Path

import pytest

from surecall.eval.analysis.summary import Figure
from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.page_files import write_report, write_report_at
from surecall.eval.report.page.snapshot import snapshot_report
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import RunStore, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Trial
from tests.support.browser import Browser, Made, address_of, show
from tests.support.trials import SAME, rich_trials

# The report in a real browser, opened as a file: its figures, filters, traces, keys and links


SECTIONS = ["top", "use", "gain", "failed", "scenarios", "reliability", "about", "runs"]
WORST = "sim/like-glm-flash"


def rows(browser: Browser, table: str) -> list[list[str]]:
    """Return the texts of a table's body, cell by cell, with single spaces."""
    found: list[list[str]] = browser.run(
        "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) =>"
        " [...row.children].map((cell) => cell.textContent.replace(/\\s+/g, ' ').trim()))",
        table,
    )
    return found


def counts(figure: Figure) -> str:
    return f"{figure.k}/{figure.n}"


def listed(browser: Browser) -> str:
    return browser.text("#shown")


# --- figures -------------------------------------------------------------------------------------


def test_every_section_is_there_in_its_order_under_a_heading(browser: Browser) -> None:
    found = browser.run("return [...document.querySelectorAll('main section')].map((s) => s.id)")

    assert found == SECTIONS
    assert all(browser.texts("main section > :is(h1, h2)"))
    assert (
        browser.run("return getComputedStyle(document.getElementById('trace')).display") == "none"
    )


def test_each_model_has_a_row_with_its_rate(browser: Browser, made: Made) -> None:
    found = {row[0]: row for row in rows(browser, "#use")}
    cells = {
        each.cell.model: each for each in made.summary.cells if each.cell.strategy == "production"
    }

    assert cells.keys() <= found.keys()
    for model, each in cells.items():
        assert counts(each.totals.tool) in found[model]
    assert "runs would decide" in found["sim/clean"][-1]
    assert f"{len(made.trials)} runs" in browser.text(".eyebrow")


def test_failures_are_counted_by_code_and_scenario_and_by_model(
    browser: Browser, made: Made
) -> None:
    by_code, by_model = browser.run(
        "return [...document.querySelectorAll('#failed table')].slice(0, 2).map((table) =>"
        " [...table.querySelectorAll('tr')].map((row) =>"
        " [...row.children].map((cell) => cell.textContent.trim())))"
    )
    pairs = [(trial.category, trial.key.scenario, trial.key.cell.model) for trial in made.failed()]
    by_scenario = Counter((code, scenario) for code, scenario, _ in pairs)
    by_name = Counter((model, code) for code, _, model in pairs)
    for table, found in ((by_code, by_scenario), (by_model, by_name)):
        for row in table[1:]:
            for name, cell in zip(table[0][3:], row[3:], strict=True):
                assert cell == str(found[row[0], name] or "·")
    assert sum(int(row[1]) for row in by_code[1:]) == len(made.failed())


def test_strategies_are_compared_in_pairs(browser: Browser, made: Made) -> None:
    compared = [pair for pair in made.summary.comparisons.rows if pair.fixed + pair.broken]
    found = rows(browser, "#gain")

    assert len(found) == len(compared) > 0
    for pair in compared:
        (row,) = [row for row in found if row[0] == pair.model]
        first, second = (f"{r.k}/{r.n}" for r in pair.rates)
        assert f"raw {first} → production {second}" in row[2]
        assert f"{pair.fixed} fixed, {pair.broken} broken" in row[2]


def test_reliability_shows_passes_in_a_row_and_repairs(browser: Browser, made: Made) -> None:
    found = rows(browser, "#reliability .scroll:first-of-type")
    for each in made.summary.cells:
        (row,) = [r for r in found if r[:2] == [each.cell.model, each.cell.strategy]]
        assert row[2:4] == [f"{100 * chance:.0f}%" for chance in each.totals.pass_hat]
    repairs = {row[0]: row[1:3] for row in rows(browser, "#reliability [aria-label=Repairs]")}
    assert len(repairs) == len(made.summary.totals.repairs) > 0
    for repair in made.summary.totals.repairs:
        runs, passed = repairs[repair.name]
        assert (runs, passed.split()[0]) == (str(repair.runs), str(repair.passed))


# --- filters -------------------------------------------------------------------------------------


def test_the_list_holds_every_run(browser: Browser, made: Made) -> None:
    assert listed(browser) == f"{len(made.trials)} runs."
    assert (
        int(browser.run("return document.getElementById('list').ariaRowCount"))
        == len(made.trials) + 1
    )


def test_a_name_leads_to_its_runs_and_is_marked_while_they_are_listed(
    browser: Browser, made: Made
) -> None:
    mine = [trial for trial in made.trials if trial.key.cell == Cell(WORST)]
    browser.click(f"#use th a[href*='{WORST.partition('/')[2]}']")
    browser.wait("location.hash.startsWith('#runs?')")

    assert listed(browser) == f"{len(mine)} of {len(made.trials)} runs."
    assert set(browser.texts("#list .rows .model")) == {WORST}
    assert browser.texts("#use [aria-current]") == [WORST]
    browser.click("#filters [type=reset]")
    browser.wait("location.hash === '#runs'")
    assert listed(browser) == f"{len(made.trials)} runs."
    assert browser.texts("#use [aria-current]") == []


def test_a_number_of_failures_leads_to_those_runs(browser: Browser, made: Made) -> None:
    number = int(browser.text("#failed .cause .times a"))
    browser.click("#failed .cause .times a")
    browser.wait("location.hash.startsWith('#runs?cause=')")

    assert listed(browser) == f"{number} of {len(made.trials)} runs."
    assert set(browser.texts("#list .rows .row .status")) == {"✗ failed"}


def test_search_and_choice_narrow_the_list_together(browser: Browser, made: Made) -> None:
    browser.press("/")
    browser.wait("document.activeElement.name === 'text'")
    browser.press("GLM-flash")
    of_model = sum(trial.key.cell.model == WORST for trial in made.trials)
    assert listed(browser) == f"{of_model} of {len(made.trials)} runs."
    browser.run(
        "const select = document.getElementById('filters').elements.status;"
        "select.value = 'missed'; select.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    failed = sum(trial.key.cell.model == WORST for trial in made.failed())
    assert listed(browser) == f"{failed} of {len(made.trials)} runs."
    browser.click("#filters [type=reset]")
    browser.wait(
        "document.getElementById('shown').textContent === arguments[0]", f"{len(made.trials)} runs."
    )


def test_a_search_that_finds_nothing_says_so(browser: Browser) -> None:
    browser.press("/")
    browser.wait("document.activeElement.name === 'text'")
    browser.press("no such thing")

    assert "No run matches." in browser.text("#list")


# --- one run -------------------------------------------------------------------------------------


def test_a_row_leads_to_the_conversation_and_says_why_it_failed(
    browser: Browser, made: Made
) -> None:
    browser.click(".row.failed .why")
    browser.wait("document.querySelector('#wire dl') !== null")
    (trial,) = [each for each in made.failed() if browser.address.endswith(address_of(each))]

    assert browser.text("#trace-why").startswith("Why it failed: ")
    told = [miss.check for miss in trial.score.misses] or [trial.error.partition(": ")[2]]
    assert told[0] in browser.text("#trace header") or trial.category != "ASSERTION_FAILED"
    assert trial.key.cell.model in browser.text("#trace-title")
    assert not browser.run("return document.getElementById('report').checkVisibility()")
    turns = made.events(trial, "llm_request_end")
    assert len(browser.texts("#turns li")) == len(turns)
    assert trial.assistant_text in browser.text("#talk")


def test_the_wire_shows_what_came_what_was_made_of_it_and_the_difference(
    browser: Browser, made: Made
) -> None:
    trial = next(each for each in made.trials if "assistant_content_parts_to_text" in each.fired)
    show(browser, address_of(trial, 0))
    end = made.events(trial, "llm_request_end")[0]

    browser.click("#view-raw")
    assert json.loads(browser.texts("#view pre")[0]) == end["body"]
    browser.click("#view-normalized")
    assert json.loads(browser.texts("#view pre")[0]) == end["reply"]
    assert end["reply"]["response_id"] in browser.text("#wire")
    assert f"{end['reply']['usage']['prompt_tokens']} in" in browser.text("#wire").replace(",", "")


def test_a_repair_is_named_and_seen_in_the_difference(browser: Browser, made: Made) -> None:
    trial, turn, fired = next(
        (trial, end["turn"], end["reply"]["fired"][0])
        for trial in made.trials
        if trial.fired
        for end in made.events(trial, "llm_request_end")
        if end["reply"].get("fired")
    )
    show(browser, address_of(trial, turn))

    assert fired in browser.text("#wire")
    assert browser.texts("#view del, #view ins")


def test_every_run_can_be_opened(browser: Browser, made: Made) -> None:
    addresses = [address_of(trial) for trial in made.trials]
    problems = browser.run_async(
        """
        const problems = [];
        for (const address of given[0]) {
          location.hash = address;
          for (let turns = 0; !document.querySelector("#turns li"); turns++) {
            if (turns > 500) { problems.push(address); break; }
            await new Promise((resolve) => setTimeout(resolve, 2));
          }
          if (document.querySelector("#talk .notice")) problems.push(address);
          document.getElementById("turns").replaceChildren();
        }
        return problems;
        """,
        addresses,
    )
    assert problems == []


# --- keys, links, going back ---------------------------------------------------------------------


def current_turn(browser: Browser) -> str:
    return browser.text("#wire h2")


def test_keys_step_through_turns_and_switch_to_the_raw_reply(browser: Browser, made: Made) -> None:
    trial = next(each for each in made.trials if len(each.requests) > 2)
    show(browser, address_of(trial, 0))

    assert "Turn 1" in current_turn(browser)
    browser.press("jj")
    assert "Turn 3" in current_turn(browser)
    assert browser.address.endswith(address_of(trial, 2))
    browser.press("k")
    assert "Turn 2" in current_turn(browser)
    browser.press("r")
    assert browser.run("return document.getElementById('view-raw').ariaSelected") == "true"
    browser.press("r")
    assert browser.run("return document.getElementById('view-raw').ariaSelected") == "false"
    browser.press("kkkk")
    assert "Turn 1" in current_turn(browser)


def test_keys_step_through_failed_runs_and_lead_back_and_to_the_search(
    browser: Browser, made: Made
) -> None:
    assert len(made.failed()) > 2
    browser.press("n")
    browser.wait("location.hash.startsWith('#run/')")
    first = browser.address
    browser.press("n")
    browser.wait("location.href !== arguments[0]", first)
    second = browser.address
    browser.press("p")
    browser.wait("location.href === arguments[0]", first)

    assert {address.partition("#")[2] for address in (first, second)} <= {
        address_of(trial)[1:] for trial in made.failed()
    }
    browser.press("/")
    browser.wait("document.activeElement.name === 'text'")
    assert browser.run("return document.getElementById('report').checkVisibility()")
    browser.press("nj")
    assert browser.run("return document.activeElement.value") == "nj"


def test_no_key_is_lost_when_several_arrive_before_the_page_has_changed(
    browser: Browser, made: Made
) -> None:
    press = "for (const key of arguments[0]) dispatchEvent(new KeyboardEvent('keydown', {key}))"
    browser.run(press, "n")
    first = browser.run("return location.hash")
    browser.run(press, "n")
    second = browser.run("return location.hash")
    browser.run(press, "p")
    assert browser.run("return location.hash") == first != second

    browser.open(made.page)
    browser.run(press, "nn")

    assert browser.run("return location.hash") == second
    browser.run(press, "nppn")
    assert browser.run("return location.hash") == second


def test_escape_leads_back_to_the_report(browser: Browser, made: Made) -> None:
    show(browser, address_of(made.failed()[0]))
    browser.press("\ue00c")
    browser.wait("document.getElementById('report').checkVisibility()")

    assert not browser.run("return document.getElementById('trace').checkVisibility()")


def test_a_deep_link_opens_the_very_turn(browser: Browser, made: Made) -> None:
    trial = next(each for each in made.trials if len(each.requests) > 1)
    browser.open("about:blank")
    browser.open(made.page.as_uri() + address_of(trial, 1))
    browser.wait("document.querySelector('#wire dl') !== null")

    assert "Turn 2" in current_turn(browser)
    assert browser.run("return document.title").startswith(trial.key.cell.model)


@pytest.mark.parametrize(
    "end", ["#run/no,such,run,at,1", "#run/%", "#run/%E0%A4%A/1", "#run//", "#%"]
)
def test_a_link_to_nothing_is_no_accident(browser: Browser, made: Made, end: str) -> None:
    browser.open("about:blank")
    browser.open(made.page.as_uri() + end)

    assert browser.text(":is(#report, #trace):not([hidden]) h1")


def test_the_back_button_leads_through_runs_to_the_report(browser: Browser, made: Made) -> None:
    first, second = made.failed()[:2]
    show(browser, address_of(first))
    browser.press("j")
    show(browser, address_of(second))
    browser.back()
    browser.wait(
        "document.getElementById('trace-title').textContent.includes(arguments[0])",
        f"{first.key.scenario} · trial {first.key.trial}",
    )
    browser.back()
    browser.wait("document.getElementById('report').checkVisibility()")
    assert listed(browser) == f"{len(made.trials)} runs."


def test_traces_beside_the_page_are_found_too(window: Browser, made: Made, tmp_path: Path) -> None:
    with open_for_reading(made.directory) as store:
        page = write_report(store, tmp_path, max_bytes=0)
    trial = made.failed()[-1]
    window.open("about:blank")
    window.open(page.as_uri() + address_of(trial))
    window.wait("document.querySelector('#wire dl') !== null")

    assert list((tmp_path / "report_data").iterdir())
    assert trial.assistant_text in window.text("#talk")
    assert window.complaints() == []


# The address of a report: what is listed and open can be sent as a link, and Back works


def choose(browser: Browser, kind: str, value: str) -> None:
    browser.run(
        "const select = document.getElementById('filters').elements[arguments[0]];"
        "select.value = arguments[1]; select.dispatchEvent(new Event('input', {bubbles: true}))",
        kind,
        value,
    )


def address_listed(browser: Browser) -> list[str]:
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('#list .rows a')].map((a) => a.getAttribute('href'))"
    )
    return found


def is_at(browser: Browser, end: str) -> None:
    browser.wait("decodeURIComponent(location.hash) === arguments[0]", end)


def worst(made: Made) -> Trial:
    return max(made.failed(), key=lambda each: each.elapsed_ms)


def test_filters_and_order_are_in_the_address_and_back_undoes_them(
    browser: Browser, made: Made
) -> None:
    choose(browser, "status", "failed")
    is_at(browser, "#runs?status=failed")
    browser.click("#list .head .time button")
    is_at(browser, "#runs?status=failed&sort=-time")
    times = [trial.elapsed_ms for trial in made.failed()]
    assert address_listed(browser)[0] == address_of(worst(made))
    assert browser.text("#shown") == f"{len(times)} of {len(made.trials)} runs."
    browser.click("#list .rows a")
    browser.wait("document.querySelector('#wire dl') !== null")
    browser.back()
    is_at(browser, "#runs?status=failed&sort=-time")
    assert address_listed(browser)[0] == address_of(worst(made))
    browser.back()
    is_at(browser, "#runs?status=failed")
    browser.back()
    browser.wait(
        "document.getElementById('shown').textContent === arguments[0]", f"{len(made.trials)} runs."
    )


def test_a_filtered_list_opens_from_its_address_in_a_fresh_tab(
    browser: Browser, made: Made
) -> None:
    choose(browser, "model", worst(made).key.cell.model)
    browser.click("#list .head .tokens button")
    browser.wait("location.hash.endsWith('sort=-tokens')")
    address, shown, first = browser.address, browser.text("#shown"), address_listed(browser)
    browser.open("about:blank")
    browser.open(address)

    assert (browser.text("#shown"), address_listed(browser)) == (shown, first)
    assert browser.run("return document.querySelector('[aria-sort]').textContent") == "Tokens"
    assert browser.run("return document.querySelector('#runs').getBoundingClientRect().top") < 200


def test_a_search_is_in_the_address_too_but_its_letters_are_no_steps_back(
    browser: Browser, made: Made
) -> None:
    choose(browser, "status", "passed")
    is_at(browser, "#runs?status=passed")
    browser.press("/")
    browser.wait("document.activeElement.name === 'text'")
    browser.press("clean")
    is_at(browser, "#runs?status=passed&text=clean")
    browser.back()
    browser.wait(
        "document.getElementById('shown').textContent === arguments[0]", f"{len(made.trials)} runs."
    )


def test_from_a_run_the_way_back_leads_to_the_list_it_came_from(
    browser: Browser, made: Made
) -> None:
    choose(browser, "status", "failed")
    is_at(browser, "#runs?status=failed")
    browser.press("n")
    browser.wait("location.hash.startsWith('#run/')")
    browser.press("\ue00c")
    is_at(browser, "#runs?status=failed")

    assert browser.text("#shown") == f"{len(made.failed())} of {len(made.trials)} runs."


def test_a_list_of_a_name_that_is_not_there_is_empty_and_says_so(
    blank: Browser, made: Made
) -> None:
    blank.open(made.page.as_uri() + "#runs?model=nobody&sort=nothing&else=1&code=%E0%A4%A")

    assert blank.text("#shown") == f"0 of {len(made.trials)} runs."
    assert "No run matches." in blank.text("#list")
    assert blank.run("return document.getElementById('filters').elements.model.value") == "nobody"


def test_names_are_sorted_by_their_characters(browser: Browser, made: Made) -> None:
    browser.click("#list .head .model button")
    browser.wait("location.hash.endsWith('sort=-model')")
    browser.click("#list .head .model button")
    browser.wait("location.hash.endsWith('sort=model')")
    first = min(trial.key.cell.model for trial in made.trials)
    assert browser.texts("#list .rows .model")[0] == first
    browser.click("#list .head .model button")
    is_at(browser, "#runs")


# Reports of runs that are not whole, in a real browser: each says what it knows


def empty_run(base: Path) -> RunStore:
    return open_or_resume(base, SAME)


def test_a_run_without_trials_says_that_there_are_none(blank: Browser, tmp_path: Path) -> None:
    with empty_run(tmp_path) as store:
        blank.open(write_report_at(store.directory))

    assert "No run is recorded yet." in blank.text(".sentence")
    assert blank.text("#shown") == "0 runs."
    blank.press("n/")


def test_a_single_run_is_a_report_too(blank: Browser, made: Made, tmp_path: Path) -> None:
    trial = made.trials[0]
    with open_for_reading(made.directory) as recorded, empty_run(tmp_path) as store:
        store.add(trial, recorded.trace(trial.key))
    blank.open(write_report_at(store.directory))
    show(blank, address_of(trial))

    assert blank.texts("#turns li")


def test_a_run_without_its_traces_still_lists_every_kind_of_end(
    blank: Browser, tmp_path: Path
) -> None:
    trials = rich_trials()
    with empty_run(tmp_path) as store:
        store.absorb((trial, None) for trial in trials)
    blank.open(write_report_at(store.directory))

    assert blank.text("#shown") == f"{len(trials)} runs."
    for status in ("passed", "failed", "infra", "skipped"):
        show(blank, address_of(next(trial for trial in trials if trial.status == status)))
        assert blank.text("#trace-why")
        assert "No conversation was recorded." in blank.text("#talk")


def test_a_damaged_run_says_what_is_wrong(blank: Browser, tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"not a database, but long enough to look like one")
    blank.open(write_report_at(tmp_path))

    assert "is damaged" in blank.text("#top")


def test_the_snapshot_is_a_report_without_runs(blank: Browser, tmp_path: Path) -> None:
    page = tmp_path / "snapshot.html"
    page.write_text(render_page(snapshot_report()), "utf-8")
    blank.open(page)

    assert "Use" in blank.text(".sentence")
    assert len(blank.texts("#map .cell")) == 29
    assert len(blank.texts("#use tbody tr:not(.group)")) == 17
    blank.press("n")
    assert blank.run("return location.hash") == ""
