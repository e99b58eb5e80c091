"""Trials of the report in a browser: what is copied, premature answers, chains, and failures."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall import Fallback, RetryPolicy, ToolLoopRunner
from surecall.eval.analysis.summary import summarize
from surecall.eval.report.page.data import ReportContext, build_report
from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.page_files import write_report_at
from surecall.eval.storage.store import open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Key, Miss, Score, Trial
from surecall.runtime.recording import dump_trace
from surecall.settings.config import ToolCallingConfig
from surecall.testing import ScriptedModel, calls, failure, says
from tests.support import corpus
from tests.support.browser import Browser, Made, address_of, evaluated, show
from tests.support.reports import (
    BUILD,
    GUIDED_RUN,
    OBJECTED_RUN,
    PREMATURE_RUN,
    QUOTED_RUN,
    RecordedRun,
    book,
    record_run,
)
from tests.support.trials import SAME, series

# What the copy buttons of the report give: a request, a test and a file that really work


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
        names["test_recorded_replies_give_the_same_run"]()


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
    return Made(directory, write_report_at(directory), trials, summarize(trials))


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
    page.write_text(render_page(build_report(series("." * 40), ReportContext())), "utf-8")
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


# Early answers, in a real browser: the timeline, and what can be copied of it


@pytest.fixture(name="page")
def page_fixture(blank: Browser, tmp_path: Path) -> Browser:
    with open_or_resume(tmp_path, SAME) as store:
        for each in (PREMATURE_RUN, OBJECTED_RUN, GUIDED_RUN, QUOTED_RUN):
            store.add(each.trial, each.lines)
        blank.open(write_report_at(store.directory))
    return blank


def test_the_timeline_shows_what_was_missing_and_how_it_was_met(page: Browser) -> None:
    show(page, address_of(PREMATURE_RUN.trial, 1))

    marks = page.texts("#turns li a > span")
    assert [mark.endswith("answer · premature answer") for mark in marks] == [
        True,
        True,
        False,
        False,
    ]
    assert [mark[0] for mark in marks] == ["△", "△", "✓", "✓"]
    missing = "contract not met: still missing book"
    assert page.texts("#talk .said.user .warn") == [
        f"(premature answer, remind: {missing}; reminded of: book)",
        f"(premature answer, require: {missing}; required: book)",
    ]
    assert "2 premature answers" in page.text("#trace-facts")
    assert BUILD in page.text("#wire")


def test_an_objection_of_the_application_is_shown_with_its_reason(page: Browser) -> None:
    show(page, address_of(OBJECTED_RUN.trial))

    assert page.texts("#talk .said.user .warn") == ["(answer not accepted: say Done, as agreed.)"]


def test_a_call_in_text_that_was_asked_about_is_shown_with_its_rule(page: Browser) -> None:
    show(page, address_of(QUOTED_RUN.trial, 1))

    assert page.texts("#turns li a > span")[1].endswith("answer · text call")
    assert page.texts("#talk .said.user .warn") == ["(text call to book, not run: only_way)"]


def by_user(request: dict[str, Any]) -> list[str]:
    return [item["content"] for item in request["messages"] if item["role"] == "user"]


def roles(request: dict[str, Any]) -> list[str]:
    return [item["role"] for item in request["messages"]]


def copied_requests(page: Browser, run: RecordedRun, folder: Path) -> list[dict[str, Any]]:
    addresses = [address_of(run.trial, turn) for turn in range(len(run.requests))]
    return [sent_by(text, folder) for text in copied(page, addresses, "curl")]


def test_a_copied_request_repeats_an_objection_to_the_letter(page: Browser, tmp_path: Path) -> None:
    sent = copied_requests(page, OBJECTED_RUN, tmp_path)

    assert list(map(by_user, sent)) == list(map(by_user, OBJECTED_RUN.requests))


def test_a_copied_request_says_what_was_missing_where_the_loop_said_it(
    page: Browser, tmp_path: Path
) -> None:
    sent = copied_requests(page, PREMATURE_RUN, tmp_path)

    assert list(map(roles, sent)) == list(map(roles, PREMATURE_RUN.requests))
    missing = (
        "This is not finished. Still missing: a successful call of book. "
        "Make the call now, and answer when it has succeeded."
    )
    assert by_user(sent[2]) == ["Book Monday.", missing, missing]


@pytest.mark.parametrize(
    "run", [PREMATURE_RUN, OBJECTED_RUN, GUIDED_RUN, QUOTED_RUN], ids=lambda run: run.name
)
def test_a_copied_request_is_the_one_that_was_sent(
    page: Browser, run: RecordedRun, tmp_path: Path
) -> None:
    assert copied_requests(page, run, tmp_path) == run.requests


def test_a_run_shows_system_text_schema_and_reminder_as_they_were_sent(page: Browser) -> None:
    show(page, address_of(GUIDED_RUN.trial, 1))

    assert "1 tool, as text" in page.text("#wire")
    assert "byte-identical to what was sent" in page.text("#wire")
    words = [item["content"] for item in GUIDED_RUN.requests[1]["messages"]]
    assert page.texts("#sent-new .text") == words[2:]
    assert page.texts("#talk .words") == words[3:]
    page.run("for (const part of document.querySelectorAll('.sent')) part.open = true;")
    assert page.texts("#sent-system .text") == words[:1]
    assert json.loads(page.text("#sent-schema pre")) == GUIDED_RUN.requests[1]["response_format"]
    assert json.loads(page.text("#sent-whole pre")) == GUIDED_RUN.requests[1]


def test_a_run_shows_the_tools_that_were_sent(page: Browser) -> None:
    show(page, address_of(PREMATURE_RUN.trial, 2))

    assert page.text("#sent-tools summary") == "Tools: book, tool_choice " + json.dumps(
        PREMATURE_RUN.requests[2]["tool_choice"], separators=(",", ":")
    )
    page.run("document.querySelector('#sent-tools').open = true;")
    assert json.loads(page.text("#sent-tools pre")) == PREMATURE_RUN.requests[2]["tools"]
    # What is open stays open from turn to turn.
    page.run("document.querySelectorAll('#turns a')[1].click();")
    assert page.text("#wire h2") == "Turn 2 on the wire"
    assert json.loads(page.text("#sent-tools pre")) == PREMATURE_RUN.requests[1]["tools"]


def test_what_cannot_be_composed_again_is_copied_in_fields_and_says_so(
    blank: Browser, tmp_path: Path
) -> None:
    foreign = GUIDED_RUN.lines.replace(b'"config":{', b'"config":{"of_another_version":1,', 1)
    with open_or_resume(tmp_path, SAME) as store:
        store.add(GUIDED_RUN.trial, foreign)
        blank.open(write_report_at(store.directory))
    (text,) = copied(blank, [address_of(GUIDED_RUN.trial, 1)], "curl")
    sent = sent_by(text, tmp_path)

    assert "cannot be reconstructed" in blank.text("#wire")
    assert "# The run sent its tools and calls as text (guided)" in text
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["book"]


@pytest.mark.parametrize("run", [PREMATURE_RUN, GUIDED_RUN], ids=["native", "guided"])
def test_a_run_under_a_contract_becomes_a_test_that_passes(page: Browser, run: RecordedRun) -> None:
    (text,) = copied(page, [address_of(run.trial)], "pytest")
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - this is the test
    names["test_recorded_replies_give_the_same_run"]()


# A chain of models, in a real browser: who went on, why, and what was sent to the one that did


@pytest.fixture(name="other")
def other_fixture() -> ScriptedModel:
    return ScriptedModel(says("Done."))


def chained(other: ScriptedModel) -> tuple[Trial, bytes]:
    runner = ToolLoopRunner(
        client=ScriptedModel(calls("book", day="Monday"), failure(503)),
        model=["a", Fallback("b", client=other)],
        registry=[book],
        retry=RetryPolicy(attempts=1),
    )
    result = asyncio.run(runner.run("Book Monday."))
    key = Key(Cell("a>b"), "chained", 1)
    return Trial(key=key, status="passed", models=result.models), dump_trace(result.trace)


def test_a_run_of_a_chain_shows_the_change_and_the_request_of_the_one_that_went_on(
    blank: Browser, tmp_path: Path, other: ScriptedModel
) -> None:
    trial, lines = chained(other)
    with open_or_resume(tmp_path, SAME) as store:
        store.add(trial, lines)
        blank.open(write_report_at(store.directory))
    *_, text = copied(blank, [address_of(trial, 0), address_of(trial, 1)], "curl")
    show(blank, address_of(trial, 1))

    told = "⇢ switched to b: a failed (UPSTREAM_5XX)"
    assert told in blank.text("#wire")
    assert told in blank.text("#talk")
    assert "answered by a, then b" in blank.text("#trace-facts")
    assert sent_by(text, tmp_path) == other.requests[0]


# A failed run opens where it was decided; what was made good on the way is no failure


WRONG = calls("book", day="Friday")
UNKNOWN = calls("cancel", day="Monday")
MISS = Miss('day is "Monday"', '"Monday"', '"Friday"', 1, "c")


def judged(run: RecordedRun, **fields: object) -> RecordedRun:
    """Return the run with another judgement."""
    trial: Trial = msgspec.structs.replace(run.trial, **fields)
    return RecordedRun(trial, run.lines, run.requests)


FAILED = judged(
    record_run("wrong", UNKNOWN, WRONG, says("Done."), final_ladder=()),
    status="failed",
    category="ASSERTION_FAILED",
    score=Score(misses=(MISS,)),
)
ENDED = judged(
    record_run("ended", WRONG, WRONG, says("Done.")),
    status="failed",
    category="LOOP_DETECTED",
    turn=1,
)
OLDER = judged(
    record_run("older", WRONG, says("Done.")), status="failed", category="ASSERTION_FAILED"
)
PASSED = record_run("passed", UNKNOWN, WRONG, says("Done."), final_ladder=())


@pytest.fixture(name="decided_page")
def decided_page_fixture(blank: Browser, tmp_path: Path) -> Browser:
    with open_or_resume(tmp_path, SAME) as store:
        for each in (FAILED, ENDED, OLDER, PASSED):
            store.add(each.trial, each.lines)
        blank.open(write_report_at(store.directory))
    return blank


@pytest.mark.parametrize(("run", "turn"), [(FAILED, 2), (ENDED, 2), (OLDER, 2), (PASSED, 1)])
def test_a_run_opens_at_the_turn_that_decided(
    decided_page: Browser, run: RecordedRun, turn: int
) -> None:
    show(decided_page, address_of(run.trial))

    assert decided_page.text("#wire h2") == f"Turn {turn} on the wire"
    current = "return [...document.querySelectorAll('#turns a')].findIndex((a) => a.ariaCurrent)"
    assert decided_page.run(current) == turn - 1


def test_an_address_with_a_turn_opens_that_one(decided_page: Browser) -> None:
    show(decided_page, address_of(FAILED.trial, 2))

    assert decided_page.text("#wire h2") == "Turn 3 on the wire"


def test_what_was_expected_stands_beside_what_came_and_the_task_is_in_sight(
    decided_page: Browser,
) -> None:
    show(decided_page, address_of(FAILED.trial))

    assert decided_page.text("#trace-misses p") == 'Not met: day is "Monday" (turn 2)'
    assert decided_page.texts("#trace-misses dt") == ["Expected", "Got"]
    assert decided_page.texts("#trace-misses dd") == ['"Monday"', '"Friday"']
    tops = decided_page.run(
        "return [...document.querySelectorAll('#trace-misses dd')].map((each) =>"
        " each.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1] < 400
    assert decided_page.texts("#trace-task .text") == ["Book Monday."]
    ends = decided_page.run(
        "return ['#trace-misses > :last-child', '#trace-task > :last-child'].map((each) =>"
        " document.querySelector(each).getBoundingClientRect().bottom)"
    )
    assert abs(ends[0] - ends[1]) < 1


def test_only_what_decided_is_red_and_what_was_made_good_is_amber(decided_page: Browser) -> None:
    show(decided_page, address_of(FAILED.trial))
    signs = [text[0] for text in decided_page.texts("#turns li a > span")]
    colours = decided_page.run(
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
    assert decided_page.texts("#turns .legend span") == [
        "△ recovered from a problem",
        "✗ decided the result",
        "✓ fine",
    ]
    show(decided_page, address_of(PASSED.trial))
    assert [text[0] for text in decided_page.texts("#turns li a > span")] == ["△", "✓", "✓"]


def test_the_list_and_its_filter_say_of_an_expectation_that_it_was_not_met(
    decided_page: Browser,
) -> None:
    said = f"Not met: {MISS.check}"
    assert said in decided_page.texts("#list .why")
    options = "return [...document.querySelectorAll('[name=cause] option')].map((one) => one.text)"
    assert said in decided_page.run(options)
    # The address names the expectation itself.
    decided_page.run(
        "location.hash = `#runs?cause=${encodeURIComponent(arguments[0])}`", MISS.check
    )
    decided_page.wait("document.getElementById('shown').textContent.includes(' of ')")
    assert set(decided_page.texts("#list .row:not(.head) .why")) == {said}


def test_a_cause_leads_to_an_example_at_the_turn_that_decided(decided_page: Browser) -> None:
    first = decided_page.run(
        "return [...document.querySelectorAll('.cause')].findIndex((each) =>"
        " each.textContent.includes(arguments[0]))",
        MISS.check,
    )
    decided_page.run("document.querySelectorAll('.cause')[arguments[0]].id = 'it'", first)

    assert decided_page.texts("#it .versus dt") == ["Expected", "Got"]
    assert decided_page.texts("#it .versus dd") == ['"Monday"', '"Friday"']
    decided_page.click("#it .what a")
    decided_page.wait("document.querySelector('#wire dl') !== null")
    assert decided_page.text("#wire h2") == "Turn 2 on the wire"
