"""Hostile names, texts and errors in a real browser: nothing runs, and the page stays whole."""

import ast
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall.eval.report.page.data import ReportContext, build_report
from surecall.eval.report.page.formatting import visible
from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.page_files import write_report
from surecall.eval.report_server import LiveReport
from surecall.eval.storage.store import RunStore, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Key, Miss, Score, ServedRequest, Trial
from tests.support.browser import Browser, Made
from tests.support.hostile_texts import PAYLOADS
from tests.support.trials import SAME, trial

# In an event, whatever a model, a provider or a tool has a say in.
SPOKEN = {"text", "content", "name", "model", "message", "id", "call_id", "response_id", "code"}
SPOKEN |= {"provider", "finish_reason", "reasoning_content", "arguments", "description", "run_id"}
SCENARIOS = 6
FORBIDDING = "<meta http-equiv=Content-Security-Policy content=script-src>"

# Opens runs, shows the reply in one view after the other, and takes every copy.
THROUGH_ALL = """
    const until = async (find) => {
      while (!find()) await new Promise((resolve) => setTimeout(resolve));
      return find();
    };
    let copied = null;
    const writeText = async (text) => { copied = text; };
    Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
    const links = given[0];
    const found = [];
    for (const link of links) {
      document.getElementById("turns").replaceChildren();
      location.hash = link;
      await until(() => document.querySelector("#turns li"));
      const copies = {};
      for (const form of ["curl", "pytest", "corpus"]) {
        copied = null;
        document.querySelector(`[data-make=${form}]`).click();
        copies[form] = await until(() => copied);
      }
      const views = ["raw", "normalized", "difference"];
      document.getElementById(`view-${views[found.length % 3]}`).click();
      found.push({
        copies,
        title: document.getElementById("trace-title").textContent,
        talk: document.getElementById("talk").textContent,
        notice: document.querySelector("#talk .notice")?.textContent ?? "",
      });
    }
    return found;
"""
# Every link that the list draws, from its first row to its last.
LINKS = """
    const links = new Set();
    const list = document.getElementById("list");
    for (let at = 0; at <= list.scrollHeight; at += list.clientHeight / 2) {
      list.scrollTop = at;
      await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      list.querySelectorAll(".rows a").forEach((each) => links.add(each.getAttribute("href")));
    }
    return [...links];
"""
ELEMENTS = "return [...new Set([...document.querySelectorAll('*')].map((each) => each.localName))]"
# Handlers in attributes, links that lead elsewhere, scripts beyond the one that the page has.
ACTIVE = """
    const every = [...document.querySelectorAll("*")];
    const attributes = every.flatMap((each) => [...each.attributes]);
    const scripts = [...document.scripts].filter((each) => !each.type || each.src);
    return [
        ...attributes.filter((each) => /^on/i.test(each.name)).map((each) => each.name),
        ...attributes.filter((each) => /^(href|src|action)$/.test(each.localName))
            .map((each) => each.value).filter((value) => !/^(#|data:,$)/.test(value)),
        ...scripts.slice(1).map((each) => each.outerHTML),
    ];
"""


def spoken(value: Any, text: str, *, free: bool = False) -> Any:
    """Put a text in the place of everything that is said."""
    if isinstance(value, dict):
        made = {key: spoken(each, text, free=key in SPOKEN) for key, each in value.items()}
        return made | ({"arguments": {text: [text]}} if made.get("arguments") else {})
    if isinstance(value, list):
        return [spoken(each, text, free=free) for each in value]
    return text if free and isinstance(value, str) else value


def hostile_trial(number: int, text: str) -> Trial:
    cell = Cell(text, PAYLOADS[number % SCENARIOS], "production")
    return Trial(
        key=Key(cell, PAYLOADS[(number + 1) % SCENARIOS], number),
        status="failed" if number % 3 else "infra",
        category=PAYLOADS[-1 - number % SCENARIOS],
        error=text,
        hint=text,
        assistant_text=text,
        fired=(text,),
        requests=(ServedRequest(0, 3, 1, provider=text),),
        score=Score(misses=(Miss(text, text, text, 0, "c"),)),
    )


@pytest.fixture(scope="module")
def store(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    calling = [each for each in made.trials if each.fired and len(each.requests) > 1]
    trial = min(calling, key=lambda each: len(each.requests))
    with open_for_reading(made.directory) as recorded:
        events = [json.loads(line) for line in (recorded.trace(trial.key) or b"").splitlines()]
    with open_or_resume(tmp_path_factory.mktemp("hostile"), SAME) as hostile:
        for number, text in enumerate(PAYLOADS):
            said = (msgspec.json.encode(spoken(event, text)) for event in events)
            hostile.add(hostile_trial(number, text), b"\n".join(said))
        yield hostile


@pytest.fixture(scope="module")
def page(store: RunStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(store, tmp_path_factory.mktemp("page"))


def test_the_report_shows_hostile_names_as_text_and_stays_whole(
    browser: Browser, page: Path
) -> None:
    # A simulated model has no preset.
    usual = {*browser.run(ELEMENTS), "pre"}
    browser.open(page)

    assert set(browser.run(ELEMENTS)) <= usual
    assert browser.run(ACTIVE) == []
    assert browser.text("#shown") == f"{len(PAYLOADS)} runs."
    assert len(browser.texts("#map > .map > li")) == len(PAYLOADS)
    assert "{{ 7 * 7 }}" in browser.texts("#use tbody th")
    assert "<script>alert(1)</script>" in browser.texts("#use tbody th")
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_what_cannot_be_seen_is_spelled_alike_in_the_sections_and_in_the_runs(
    blank: Browser, tmp_path: Path
) -> None:
    unseen = (
        "a\x00\x1b\r\x7f\x85\xa0\xad\u061c\u200b\u2028\u202e\u3000\ud800\ue000\uffff\U000e0001 b"
    )
    text = render_page(build_report([trial("failed", cell=Cell(unseen))], ReportContext()))
    page = tmp_path / "report.html"
    page.write_text(text, "utf-8")
    blank.open(page)

    assert blank.text("#use tbody tr:not(.group) th") == visible(unseen)
    assert blank.text("#list .rows .model") == visible(unseen)


def gone_through(browser: Browser, links: list[str]) -> list[dict[str, Any]]:
    found = browser.run_async(THROUGH_ALL, links)
    assert isinstance(found, list), found
    return found


def test_every_hostile_run_can_be_opened_and_copied_and_nothing_runs(
    blank: Browser, page: Path, tmp_path: Path
) -> None:
    blank.open(page)
    links = blank.run_async(LINKS)
    assert len(links) == len(PAYLOADS)
    found = gone_through(blank, links)

    assert blank.run(ACTIVE) == []
    assert {each["notice"] for each in found} == {""}
    titles = "\n".join(each["title"] for each in found)
    talks = "\n".join(each["talk"] for each in found)
    plain = [text for text in PAYLOADS if text.isascii() and text.isprintable()]
    assert [text for text in plain if text not in titles or text not in talks] == []
    assert_requests_do_nothing_else([each["copies"]["curl"] for each in found], tmp_path)
    for each in found:
        assert_is_nothing_but_a_test(each["copies"]["pytest"])
        assert json.loads(each["copies"]["corpus"])["body"]


def assert_requests_do_nothing_else(scripts: list[str], folder: Path) -> None:
    """Run all of them, with a curl that hands on what it was to send."""
    (folder / "all.sh").write_text("curl() { cat; }\n" + "\n".join(scripts), "utf-8")
    ran = subprocess.run(
        ["/bin/bash", "-eu", "all.sh"],
        cwd=folder,
        capture_output=True,
        check=True,
        env={"API_KEY": "x", "HOME": str(folder)},
    )
    assert ran.stderr == b""
    assert {json.loads(line)["model"] for line in ran.stdout.splitlines()} == set(PAYLOADS)
    assert [path.name for path in folder.iterdir()] == ["all.sh"]


def assert_is_nothing_but_a_test(text: str) -> None:
    *head, test = ast.parse(text).body
    kinds = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)

    assert isinstance(test, ast.FunctionDef)
    assert all(isinstance(node, kinds) for node in head)
    assert "pwned" not in "".join(
        ast.unparse(node) for node in head if isinstance(node, ast.Import)
    )
    assert sum(isinstance(node, ast.Assign) for node in head) == 9


def test_served_live_nothing_runs_either(blank: Browser, store: RunStore) -> None:
    with LiveReport(store.directory) as live:
        blank.open(live.url)
        links = blank.run_async(LINKS)
        found = gone_through(blank, links[::15])
        assert {each["notice"] for each in found} == {""}
        assert blank.run(ACTIVE) == []
        assert blank.complaints() == []
        blank.open("about:blank")
        blank.complaints()


@pytest.mark.parametrize(
    ("attack", "sign"),
    [
        ("<script>window.pwned = 1</script>", "caught pwned"),
        ("<img src=x: onerror=alert(1)>", "caught alert"),
        ("<img src=http://127.0.0.1:9/x.png>", "asked for http://127.0.0.1:9/x.png"),
        ("<script>null.x</script>", "SEVERE"),
        (f"{FORBIDDING}<script>1</script>", "caught script-src-elem inline"),
    ],
)
def test_an_attack_that_works_would_be_noticed(window: Browser, attack: str, sign: str) -> None:
    window.open(f"data:text/html,<!doctype html>{attack}")

    assert any(sign in complaint for complaint in window.complaints())
