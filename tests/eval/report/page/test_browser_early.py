"""Early answers, in a real browser: the timeline, and what can be copied of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall import ToolLoopRunner
from surecall.core.outcome import RunResult
from surecall.eval.report.page.files import write_report_at
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.trace import dump_trace
from surecall.settings.contract import Contract
from surecall.testing import ScriptedModel, calls, says
from tests.eval.report.page.test_browser_copies import copied, sent_by
from tests.eval.report.test_early_answers import BUILD, book
from tests.support.browser import Browser
from tests.support.eval_results import SAME
from tests.support.viewed import address_of, show

CALLED = calls("book", day="Monday")
DONE = says("Done.") | {"system_fingerprint": BUILD}


class Told(msgspec.Struct, frozen=True):
    """A run on record, and the requests that it really made."""

    trial: Trial
    lines: bytes
    requests: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return self.trial.key.scenario


def told(scenario: str, *script: Any, accept: Any = None, **config: Any) -> Told:
    model = ScriptedModel(*script)
    settings = {"contract": Contract(all_of=("book",)), "final_ladder": ("remind", "require")}
    runner = ToolLoopRunner(
        client=model, model="m", registry=[book], config=settings | config, accept_final=accept
    )
    result = asyncio.run(runner.run("Book Monday."))
    key = Key(Cell("m"), scenario, 1)
    trial = Trial(key=key, status="passed", false_finals=result.false_finals)
    return Told(trial, dump_trace(result.trace), model.requests)


def reluctant(result: RunResult) -> str | None:
    return None if result.assistant_text == "Done." else "say Done, as agreed."


EARLY = told("early", DONE, DONE, CALLED, DONE)
OBJECTED = told("objected", CALLED, says("Fine."), DONE, accept=reluctant)
GUIDED = told(
    "guided",
    says('{"answer": "Done."}'),
    says('{"tool": "book", "arguments": {"day": "Monday"}}'),
    says('{"answer": "Done."}'),
    call_protocol="guided",
)


QUOTED = told(
    "quoted",
    CALLED,
    says('It says <tool_call>{"name": "book", "arguments": {"day": "Friday"}}</tool_call>'),
    DONE,
    contract=None,
    text_calls="marked",
)


@pytest.fixture(name="page")
def page_fixture(blank: Browser, tmp_path: Path) -> Browser:
    with open_or_resume(tmp_path, SAME) as store:
        for each in (EARLY, OBJECTED, GUIDED, QUOTED):
            store.add(each.trial, each.lines)
        blank.open(write_report_at(store.directory))
    return blank


def test_the_timeline_shows_what_was_missing_and_how_it_was_met(page: Browser) -> None:
    show(page, address_of(EARLY.trial, 1))

    marks = page.texts("#turns li a > span")
    assert [mark.endswith("answer · early answer") for mark in marks] == [True, True, False, False]
    assert [mark[0] for mark in marks] == ["△", "△", "✓", "✓"]
    missing = "contract not met: still missing book"
    assert page.texts("#talk .said.user .warn") == [
        f"(early answer, remind: {missing}; reminded of: book)",
        f"(early answer, require: {missing}; demanded: book)",
    ]
    assert "2 early answers" in page.text("#trace-facts")
    assert BUILD in page.text("#wire")


def test_an_objection_of_the_application_is_shown_with_its_reason(page: Browser) -> None:
    show(page, address_of(OBJECTED.trial))

    assert page.texts("#talk .said.user .warn") == ["(answer not accepted: say Done, as agreed.)"]


def test_a_call_in_text_that_was_asked_about_is_shown_with_its_rule(page: Browser) -> None:
    show(page, address_of(QUOTED.trial, 1))

    assert page.texts("#turns li a > span")[1].endswith("answer · call in text")
    assert page.texts("#talk .said.user .warn") == ["(call of book in text, not run: only_way)"]


def by_user(request: dict[str, Any]) -> list[str]:
    return [item["content"] for item in request["messages"] if item["role"] == "user"]


def roles(request: dict[str, Any]) -> list[str]:
    return [item["role"] for item in request["messages"]]


def copied_requests(page: Browser, run: Told, folder: Path) -> list[dict[str, Any]]:
    addresses = [address_of(run.trial, turn) for turn in range(len(run.requests))]
    return [sent_by(text, folder) for text in copied(page, addresses, "curl")]


def test_a_copied_request_repeats_an_objection_to_the_letter(page: Browser, tmp_path: Path) -> None:
    sent = copied_requests(page, OBJECTED, tmp_path)

    assert list(map(by_user, sent)) == list(map(by_user, OBJECTED.requests))


def test_a_copied_request_says_what_was_missing_where_the_loop_said_it(
    page: Browser, tmp_path: Path
) -> None:
    sent = copied_requests(page, EARLY, tmp_path)

    assert list(map(roles, sent)) == list(map(roles, EARLY.requests))
    missing = (
        "This is not finished. Still missing: a successful call of book. "
        "Make the call now, and answer when it has succeeded."
    )
    assert by_user(sent[2]) == ["Book Monday.", missing, missing]


@pytest.mark.parametrize("run", [EARLY, OBJECTED, GUIDED, QUOTED], ids=lambda run: run.name)
def test_a_copied_request_is_the_one_that_was_sent(
    page: Browser, run: Told, tmp_path: Path
) -> None:
    assert copied_requests(page, run, tmp_path) == run.requests


def test_a_run_shows_system_text_schema_and_reminder_as_they_were_sent(page: Browser) -> None:
    show(page, address_of(GUIDED.trial, 1))

    assert "1 tool, in words" in page.text("#wire")
    assert "its bytes are those that were sent" in page.text("#wire")
    words = [item["content"] for item in GUIDED.requests[1]["messages"]]
    assert page.texts("#sent-new .text") == words[2:]
    assert page.texts("#talk .words") == words[3:]
    page.run("for (const part of document.querySelectorAll('.sent')) part.open = true;")
    assert page.texts("#sent-system .text") == words[:1]
    assert json.loads(page.text("#sent-schema pre")) == GUIDED.requests[1]["response_format"]
    assert json.loads(page.text("#sent-whole pre")) == GUIDED.requests[1]


def test_a_run_shows_the_tools_that_were_sent(page: Browser) -> None:
    show(page, address_of(EARLY.trial, 2))

    assert page.text("#sent-tools summary") == "Tools: book, tool_choice " + json.dumps(
        EARLY.requests[2]["tool_choice"], separators=(",", ":")
    )
    page.run("document.querySelector('#sent-tools').open = true;")
    assert json.loads(page.text("#sent-tools pre")) == EARLY.requests[2]["tools"]
    # What is open stays open from turn to turn.
    page.run("document.querySelectorAll('#turns a')[1].click();")
    assert page.text("#wire h2") == "Turn 2 on the wire"
    assert json.loads(page.text("#sent-tools pre")) == EARLY.requests[1]["tools"]


def test_what_cannot_be_composed_again_is_copied_in_fields_and_says_so(
    blank: Browser, tmp_path: Path
) -> None:
    foreign = GUIDED.lines.replace(b'"config":{', b'"config":{"of_another_version":1,', 1)
    with open_or_resume(tmp_path, SAME) as store:
        store.add(GUIDED.trial, foreign)
        blank.open(write_report_at(store.directory))
    (text,) = copied(blank, [address_of(GUIDED.trial, 1)], "curl")
    sent = sent_by(text, tmp_path)

    assert "cannot be put together again" in blank.text("#wire")
    assert "# The run put its tools and calls into words (guided)" in text
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["book"]


@pytest.mark.parametrize("run", [EARLY, GUIDED], ids=["native", "guided"])
def test_a_run_under_a_contract_becomes_a_test_that_passes(page: Browser, run: Told) -> None:
    (text,) = copied(page, [address_of(run.trial)], "pytest")
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - this is the test
    names["test_the_recorded_replies_are_read_as_they_were"]()
