"""What the copy buttons of the report give: a request, a test and a file that really work."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.analysis.summary import summarise
from surecall.eval.report.page.data import Context, report_of
from surecall.eval.report.page.files import write_report_at
from surecall.eval.report.page.html import render_page
from surecall.eval.storage.store import open_for_reading
from surecall.settings.config import ToolCallingConfig
from tests.support import corpus
from tests.support.browser import Browser
from tests.support.trials import series
from tests.support.viewed import Made, address_of, evaluated, show

# Each run is opened and copied in one form; without a clipboard the page shows the text.
COPIED = """
    const [addresses, form] = given;
    Object.defineProperty(navigator, "clipboard", { value: undefined });
    const until = async (find) => {
      for (let tries = 0; tries < 2000; tries++) {
        if (find()) return find();
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      throw new Error(`waited in vain for ${find}`);
    };
    const texts = [];
    for (const address of addresses) {
      document.getElementById("turns").replaceChildren();
      location.hash = address;
      await until(() => document.querySelector("#turns li"));
      document.getElementById("copied").replaceChildren();
      document.querySelector(`[data-make=${form}]`).click();
      texts.push((await until(() => document.querySelector("#copied textarea"))).value);
    }
    return texts;
"""


def copied(browser: Browser, addresses: list[str], form: str) -> list[str]:
    texts = browser.run_async(COPIED, addresses, form)
    assert isinstance(texts, list), texts
    return texts


def sent_by(script: str, folder: Path) -> dict[str, Any]:
    """Run a script with a curl that only tells what it was given."""
    fake = 'curl() { printf "%s\\n" "$@" >&2; cat; }\n'
    ran = subprocess.run(
        ["/bin/bash", "-euc", fake + script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={"API_KEY": "the-key"},
    )
    assert "Authorization: Bearer the-key" in ran.stderr
    body: dict[str, Any] = json.loads(ran.stdout)
    return body


def test_a_request_can_be_sent_again_without_the_key_in_it(
    browser: Browser, made: Made, tmp_path: Path
) -> None:
    trial = next(each for each in made.trials if len(each.requests) > 1)
    start = made.events(trial, "run_start")[0]
    end = made.events(trial, "llm_request_end")[0]
    first, second = copied(browser, [address_of(trial), address_of(trial, 1)], "curl")

    assert "$API_KEY" in first
    body = sent_by(first, tmp_path)
    assert body["model"] == trial.key.cell.model
    assert [tool["function"]["name"] for tool in body["tools"]] == [
        t["name"] for t in start["tools"]
    ]
    grown = sent_by(second, tmp_path)["messages"]
    assert grown[: len(body["messages"])] == body["messages"]
    (call,) = grown[len(body["messages"])]["tool_calls"]
    assert call["function"]["name"] == end["reply"]["calls"][0]["name"]
    assert list(tmp_path.iterdir()) == []


def test_every_run_becomes_a_test_that_passes(browser: Browser, made: Made) -> None:
    texts = copied(browser, [address_of(trial) for trial in made.trials], "pytest")

    for trial, text in zip(made.trials, texts, strict=True):
        names: dict[str, Any] = {}
        exec(compile(text, address_of(trial), "exec"), names)  # noqa: S102 - this is the test
        (test,) = [value for name, value in names.items() if name.startswith("test_")]
        test()


def test_such_a_test_fails_when_the_replies_are_read_otherwise(
    browser: Browser, made: Made
) -> None:
    trial = next(each for each in made.trials if each.ok and each.assistant_text == "Done.")
    (text,) = copied(browser, [address_of(trial)], "pytest")
    names: dict[str, Any] = {}
    exec(text.replace('== "Done."', '== "Gone."'), names)  # noqa: S102 - this is the test

    with pytest.raises(AssertionError):
        names["test_the_recorded_replies_are_read_as_they_were"]()


# Clean and bent replies, calls in text, calls that must not run, a reply after a wait of a
# second, and one model that never answers.
BENT = (
    *("sim/clean", "sim/http-429", "sim/tags", "sim/numbers_as_text", "sim/name_embellished"),
    *("sim/tool_calls_prose", "sim/arguments_cut_off", "sim/call_blank_beside", "sim/http-401"),
)


@pytest.fixture(name="bent", scope="module")
def bent_fixture(tmp_path_factory: pytest.TempPathFactory) -> Made:
    directory = evaluated(
        tmp_path_factory.mktemp("bent"),
        *("-m", ",".join(BENT), "-n", "1", "-s", "happy_path,long_arguments_guard"),
        *("--strategy", "raw,production,guided"),
    )
    with open_for_reading(directory) as store:
        trials = list(store.trials())
    return Made(directory, write_report_at(directory), trials, summarise(trials))


def test_every_reply_becomes_a_file_that_passes_the_corpus_tests_as_pasted(
    blank: Browser, bent: Made, tmp_path: Path
) -> None:
    heard = [
        (address_of(trial, event["turn"]), event)
        for trial in bent.trials
        for event in bent.events(trial, "llm_request_end")
    ]
    blank.open(bent.page)
    texts = copied(blank, [address for address, _ in heard], "corpus")
    for text in texts:
        (tmp_path / f"{json.loads(text)['id']}.json").write_text(text, "utf-8")

    cases = corpus.load(tmp_path)
    assert len(cases) == len(texts)
    for name, case in cases.items():
        corpus.check_case(case, name)
    assert [json.loads(text)["body"] for text in texts] == [event["body"] for _, event in heard]
    expected = [case["expected"] for case in cases.values()]
    assert any(one.get("calls") for one in expected)
    assert {one.get("code") for one in expected} >= {
        None,
        "TOOL_NOT_ALLOWED",
        "ARGUMENTS_JSON_PARSE_ERROR",
    }


def test_a_turn_without_a_reply_has_no_file_for_the_corpus(blank: Browser, bent: Made) -> None:
    blank.open(bent.page)
    refused = next(trial for trial in bent.trials if trial.key.cell.model == "sim/http-401")
    show(blank, address_of(refused))

    disabled = [
        blank.run(f"return document.querySelector('[data-make={form}]').disabled")
        for form in ("curl", "corpus")
    ]
    assert disabled == [False, True]


def test_with_a_clipboard_the_text_goes_there(browser: Browser, made: Made) -> None:
    permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.devtools("Browser.grantPermissions", permissions=permissions)
    show(browser, address_of(made.failed()[0]))
    browser.click("[data-make=curl]")
    browser.wait("document.getElementById('copied').textContent === 'Copied.'")

    text = browser.run_async("return navigator.clipboard.readText()")
    assert "/chat/completions" in text
    browser.devtools("Browser.resetPermissions")


def test_the_preset_of_a_model_can_be_copied(blank: Browser, tmp_path: Path) -> None:
    page = tmp_path / "real.html"
    page.write_text(render_page(report_of(series("." * 40), Context())), "utf-8")
    blank.open(page)
    blank.run("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    blank.click("#use details summary")
    blank.click("#use details [data-copy]")
    text = blank.wait("document.querySelector('#use textarea')?.value")

    assert text.strip() == blank.texts("#use .snippet")[0]
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - this is the test
    assert isinstance(names["config"], ToolCallingConfig)


@pytest.mark.parametrize("place", ["", "#run=nobody", "#runs"])
def test_there_is_nothing_to_copy_before_a_run_is_open(
    blank: Browser, made: Made, place: str
) -> None:
    blank.open(made.page.as_uri() + place)
    blank.run("for (const each of document.querySelectorAll('[data-make]')) each.click()")

    assert blank.run("return document.querySelectorAll('[data-make]:disabled').length") == 3
    assert blank.run("return document.getElementById('copied').textContent") == ""
