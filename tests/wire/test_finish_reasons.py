"""Finish reasons: every upstream has its own words, and each belongs to a family."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.wire.finish_reasons import MAX_REASON, Ending, ending_of, finish_reason

WORDS = {
    Ending.COMPLETE: [
        *("stop", "end_turn", "eos", "stop_sequence", "COMPLETE", "completed", "finished"),
        *("STOP", "done", "eos_token", "FINISH_REASON_UNSPECIFIED", "", "success", "end_of_text"),
    ],
    Ending.CALLS: ["tool_calls", "function_call", "tool_use", "TOOL_CALLS", "toolUse", "tool-call"],
    Ending.CUT_OFF: [
        *("length", "max_tokens", "MAX_TOKENS", "maxTokens", "model_length", "max_output_tokens"),
        *("model_context_window_exceeded", "context_length_exceeded", "incomplete", "truncated"),
    ],
    Ending.FILTERED: [
        *("content_filter", "content_filtered", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"),
        *("guardrail_intervened", "refusal", "BLOCKLIST", "SPII", "sensitive", "IMAGE_SAFETY"),
    ],
    Ending.BROKEN: [
        *("error", "network_error", "abort", "aborted", "cancelled", "server_error", "timeout"),
        *("insufficient_system_resource", "ERROR", "rate_limit_exceeded", "engine_overloaded"),
    ],
    Ending.MALFORMED: [
        *("MALFORMED_FUNCTION_CALL", "malformed_function_call", "UNEXPECTED_TOOL_CALL"),
        *("function_call_filter: MALFORMED_FUNCTION_CALL", "invalid_tool_call", "tool_use_failed"),
    ],
}
ALL = [(ending, word) for ending, words in WORDS.items() for word in words]


@pytest.mark.parametrize(("ending", "word"), ALL)
def test_a_word_belongs_to_its_family_in_every_spelling(ending: Ending, word: str) -> None:
    spellings = (word, word.upper(), word.title(), word.replace("_", "-"), word.replace("_", " "))

    assert {ending_of(spelling) for spelling in spellings} == {ending}


@pytest.mark.parametrize("nothing", [None, 1, {}, ["length"]])
def test_what_is_no_word_is_a_normal_end(nothing: object) -> None:
    assert ending_of(nothing) is Ending.COMPLETE


@given(st.text())
def test_no_word_raises_and_only_its_beginning_counts(word: str) -> None:
    assert ending_of(word[:MAX_REASON]) is ending_of(word[:MAX_REASON] + "." * MAX_REASON)


@pytest.mark.parametrize(
    ("given", "native", "told"),
    [
        ("stop", "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        ("tool_calls", "STOP", "tool_calls"),
        ("length", "MAX_TOKENS", "length"),
        ("content_filter", "length", "content_filter"),
        (None, "length", "length"),
        (None, "stop", None),
        ("stop", None, "stop"),
        (7, None, None),
    ],
)
def test_of_two_reasons_the_worse_one_counts(given: object, native: object, told: object) -> None:
    assert finish_reason({"finish_reason": given, "native_finish_reason": native}) == told
