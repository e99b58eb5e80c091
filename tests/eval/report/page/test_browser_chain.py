"""A chain of models, in a real browser: who went on, why, and what was sent to the one that did."""

import asyncio
from pathlib import Path

import pytest

from surecall import Fallback, RetryPolicy, ToolLoopRunner
from surecall.eval.report.page.files import write_report_at
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.trace import dump_trace
from surecall.testing import ScriptedModel, calls, failure, says
from tests.eval.report.page.test_browser_copies import copied, sent_by
from tests.eval.report.test_early_answers import book
from tests.support.browser import Browser
from tests.support.eval_results import SAME
from tests.support.viewed import address_of, show


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

    told = "⇢ on to b: a failed (UPSTREAM_5XX)"
    assert told in blank.text("#wire")
    assert told in blank.text("#talk")
    assert "answered by a, then b" in blank.text("#trace-facts")
    assert sent_by(text, tmp_path) == other.requests[0]
