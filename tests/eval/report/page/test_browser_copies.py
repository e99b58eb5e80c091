"""What the copy buttons of the report give: a request, a test and a file that really work."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from surecall.settings.config import ToolCallingConfig
from tests.support.browser import Browser
from tests.support.viewed import Made, address_of, show

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


def test_a_reply_becomes_a_file_of_the_corpus(browser: Browser, made: Made) -> None:
    trial = made.failed()[0]
    end = made.events(trial, "llm_request_end")[0]
    (text,) = copied(browser, [address_of(trial)], "corpus")
    found = json.loads(text)

    assert found["body"] == end["body"]
    assert found["expected"]["text"] == end["reply"].get("text", "")
    assert found.keys() == {
        *("id", "source", "provenance", "tools", "presets", "config", "body", "expected")
    }


def test_with_a_clipboard_the_text_goes_there(browser: Browser, made: Made) -> None:
    permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.devtools("Browser.grantPermissions", permissions=permissions)
    show(browser, address_of(made.failed()[0]))
    browser.click("[data-make=curl]")
    browser.wait("document.getElementById('copied').textContent === 'Copied.'")

    text = browser.run_async("return navigator.clipboard.readText()")
    assert "/chat/completions" in text
    browser.devtools("Browser.resetPermissions")


def test_the_preset_of_a_model_can_be_copied(browser: Browser) -> None:
    browser.run("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    browser.click("#use details summary")
    browser.click("#use details [data-copy]")
    text = browser.wait("document.querySelector('#use textarea')?.value")

    assert text.strip() == browser.texts("#use .snippet")[0]
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - this is the test
    assert isinstance(names["config"], ToolCallingConfig)
