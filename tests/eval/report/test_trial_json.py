"""The file of one trial: the conversation, the settings, the error."""

from typing import Any

import pytest

from surecall.eval.report.common import (
    Column,
    Sheet,
    results_of,
)
from surecall.eval.report.trial_json import trial_document
from surecall.eval.storage.trial import Cell, Miss, Score, Served
from surecall.settings.presets import TAG_FALLBACK
from tests.support.eval_results import (
    CALL,
    EVENTS,
    START,
    lines,
    sheet,
    trial,
)

TRIAL_KEYS = """
model model_base strategy fallback_profile sampling_profile empty_response_retry
llm_options_defaults content_tag_tool_call_fallback scenario trial ok elapsed_ms tool_use_mode
tools_enabled context_tool_calling assistant_text draft error error_status error_body error_raw_body
error_category history trace
"""


def test_a_trials_file_holds_the_conversation_and_what_it_went_by() -> None:
    one = trial(Cell("m"), requests=(Served(0, 12, 1, "stop", "prov"),), prompt_hash="abc")
    results = results_of(sheet(Cell("m"), empty_response_retry_count=1), [one])
    found = trial_document(results, one, lines(*EVENTS))

    assert set(TRIAL_KEYS.split()) <= found.keys()
    assert found["history"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "", "metadata": {"tool_calls": [CALL]}},
        {
            "role": "tool",
            "content": '{"ok":true}',
            "name": "state_get",
            "metadata": {"tool_call_id": "c1"},
        },
        {"role": "assistant", "content": "Done."},
    ]
    assert found["trace"] == EVENTS
    assert (found["tool_use_mode"], found["tools_enabled"]) == ("disabled", False)
    assert found["llm_options_defaults"] == {"temperature": 1}
    assert found["empty_response_retry"] == {"max_retries": 1, "attempts": 0}
    assert "error_hint" not in found
    assert (found["error"], found["error_body"], found["requests"]) == (None, None, one.requests)


def test_a_trials_file_says_what_was_missed_also_in_sentences() -> None:
    miss = Miss('the answer is "Done."', '"Done."', '"Hm."', turn=1)
    one = trial(Cell("m"), status="failed", score=Score(final=False, misses=(miss,)))
    score = trial_document(results_of(sheet(Cell("m")), [one]), one, None)["score"]

    assert (score["final"], score["misses"]) == (False, (miss,))
    assert score["reasons"] == ('expected that the answer is "Done.", got "Hm."',)


def test_without_a_trace_a_trials_file_says_what_the_cell_says() -> None:
    config = {"tool_use_mode": "enforced", "response_transforms": [TAG_FALLBACK]}
    column = Column(Cell("m"), {"top_p": 0.5}, config, simulated=True)
    one = trial(Cell("m"))
    found = trial_document(results_of(Sheet((column,)), [one]), one, None)

    assert (found["history"], found["trace"]) == (None, None)
    assert (found["context_tool_calling"], found["tools_enabled"]) == (config, True)
    assert found["llm_options_defaults"] == {"top_p": 0.5}
    assert found["content_tag_tool_call_fallback"]
    assert found["simulated"]


@pytest.mark.parametrize(
    ("body", "parsed"),
    [('{"error":{"message":"no"}}', {"error": {"message": "no"}}), ("<html>", None)],
)
def test_the_body_of_an_error_is_kept_raw_and_parsed(body: str, parsed: Any) -> None:
    fault = {"type": "llm_request_error", "fault": {"code": "AUTH", "body": body}}
    one = trial(
        Cell("m"), status="infra", category="AUTH", error="401", hint="prov: no", http_status=401
    )
    results = results_of(sheet(Cell("m")), [one])
    found = trial_document(results, one, lines(START, fault))

    assert (found["error_raw_body"], found["error_body"]) == (body, parsed)
    assert (found["error"], found["error_status"], found["error_category"]) == ("401", 401, "AUTH")
    assert found["error_hint"] == "prov: no"
