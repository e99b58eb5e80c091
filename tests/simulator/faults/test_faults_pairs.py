"""Two faults at once: every ordered pair that can meet in one reply is repaired together."""

import itertools

import pytest

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.values.errors import Fault
from surecall.values.types import JSON, Reply
from tests.support.replies import SAMPLES, meaning, read, with_fault

pytestmark = pytest.mark.slow

REPAIRED = [fault.id for fault in SHAPE_FAULTS.values() if fault.outcome == "repaired"]
SEEDS = (0, 1, 3)

_NO_CALLS = {"tool_calls_null", "answer_with_end_token"}
# A legacy call leaves the list of calls free to be null or empty.
_ANY_REPLY = {
    *("wrapped_in_data", "content_parts", "content_thinking", "legacy_function_call"),
    *("delta_for_message", "calls_in_second_choice", "call_parts"),
}
_LIST_SHAPES = {"tool_calls_object", "tool_calls_text", "tool_calls_junk", "call_unwrapped"}
# Pairs that never meet: in neither order do both apply to one reply.
APART: list[tuple[set[str], set[str], str]] = [
    (
        _NO_CALLS,
        {*REPAIRED} - _ANY_REPLY - _NO_CALLS,
        "one needs a reply with calls, the other one without",
    ),
    (
        {"arguments_object"},
        {
            "arguments_braces_doubled",
            "arguments_closer_too_many",
            "arguments_encoded_twice",
            "arguments_end_token",
            "arguments_escaped_whitespace",
            "arguments_fenced",
            "arguments_listed",
            "arguments_repeated",
        },
        "an object has no spelling",
    ),
    ({"arguments_blank"}, {"arguments_null"}, "both stand for the same nothing"),
    (
        {"arguments_nothing"},
        {"arguments_blank", "arguments_null"},
        "both stand for the same nothing",
    ),
    ({"keys_in_camel_case"}, {"keys_with_tags"}, "neither finds the keys that the other left"),
    (
        {"arguments_bare_keys"},
        {"arguments_python", "keys_with_tags"},
        "one needs what the other took",
    ),
    ({"optionals_null_words"}, {"optionals_empty"}, "both stand for the same absence"),
    (
        {"name_swallowed_arguments"},
        {
            *("arguments_python", "arguments_trailing_comma", "arguments_bare_keys"),
            "arguments_empty_object_beside",
        },
        "arguments in tags have no JSON around them",
    ),
    (
        {"legacy_function_call"},
        _LIST_SHAPES | {"call_blank_beside"},
        "the legacy field holds one call and no list",
    ),
    (
        {"tool_calls_object"},
        {"tool_calls_junk", "call_blank_beside"},
        "a single call has nothing beside it",
    ),
    ({"answer_with_end_token"}, {"call_parts"}, "one needs a text, the other makes parts of it"),
    (
        {"call_parts"},
        _LIST_SHAPES | {"arguments_null", "arguments_object", "legacy_function_call"},
        "a part is made of a call as it should be, and leaves no list",
    ),
    (
        {"calls_in_second_choice"},
        {"call_parts", "legacy_function_call"},
        "there is no list of calls to be split off",
    ),
    ({"call_unwrapped"}, {"parallel_wrapper"}, "inside the wrapper there is no `function` to lose"),
]
# Pairs in this order that are not repaired. The model is told; nothing runs on a guess.
TOLD = {
    ("arguments_lone_surrogate", "arguments_wrapped"): "text within text must be strict JSON",
    **{
        (keys, wrapper): "the keys inside are not the tool's"
        for keys in ("keys_in_camel_case", "keys_with_tags")
        for wrapper in ("arguments_wrapped", "arguments_under_properties")
    },
    **{
        (keys, optional): "under its own name the key is there as well"
        for keys in ("keys_in_camel_case", "keys_with_tags")
        for optional in ("optionals_null", "optionals_empty", "optionals_null_words")
    },
    ("arguments_braces_doubled", "arguments_empty_object_beside"): "two objects, one of them bent",
    ("arguments_braces_doubled", "arguments_repeated"): "two objects, both of them bent",
    ("arguments_braces_doubled", "arguments_escaped_whitespace"): "no brace, after the first",
    ("arguments_wrapped", "arguments_under_properties"): "one wrapper is taken off, not two",
    ("arguments_under_properties", "arguments_wrapped"): "one wrapper is taken off, not two",
    ("arguments_of_a_call", "arguments_wrapped"): "one wrapper is taken off, not two",
    ("arguments_of_a_call", "arguments_under_properties"): "one wrapper is taken off, not two",
    ("arguments_of_a_call", "optionals_null"): "a call has no such key beside its arguments",
    ("arguments_of_a_call", "optionals_empty"): "a call has no such key beside its arguments",
    ("arguments_of_a_call", "optionals_null_words"): "a call has no such key beside its arguments",
    ("arguments_closer_too_many", "arguments_trailing_comma"): "a comma goes on, after the end",
    ("arguments_closer_too_many", "arguments_escaped_whitespace"): "no closer, after the end",
    ("arguments_closer_too_many", "arguments_repeated"): "the object goes on, after the end",
    ("texts_as_numbers", "integers_as_floats"): "a float does not tell how it was written",
    ("name_prefixed", "name_surrounded"): "one prefix is taken off, not two",
    ("name_surrounded", "name_prefixed"): "one prefix is taken off, not two",
}
# Pairs in this order where the cure of the one does the other's work too.
ABSORBED = {
    ("arguments_object", "legacy_function_call"): "lifting the legacy call writes it as text",
    ("arguments_braces_doubled", "arguments_trailing_comma"): "the comma goes with the braces",
    ("arguments_object", "arguments_bare_keys"): "what has bare keys is text",
    ("arguments_lone_surrogate", "parallel_wrapper"): "opening the wrapper reads what is in it",
    ("integers_as_floats", "name_swallowed_arguments"): "a tag holds 3.0 as text",
    ("integers_as_floats", "numbers_as_text"): "3.0 in quotes is a number in quotes",
    ("texts_as_numbers", "numbers_as_text"): "it is the text again",
    ("texts_as_numbers", "name_swallowed_arguments"): "a tag holds a number as text",
    ("arguments_empty_object_beside", "arguments_repeated"): "the copies go with the empty ones",
    ("arguments_repeated", "arguments_empty_object_beside"): "the copies go with the empty one",
    ("choices_escaped", "choices_quoted"): "decoding looks inside the quotation marks",
    ("choices_quoted", "choices_escaped"): "decoding looks inside the quotation marks",
    ("arguments_of_a_call", "containers_as_text"): "the arguments in the call are what became text",
    ("arguments_wrapped", "containers_as_text"): "the wrapper itself is what became text",
    ("arguments_under_properties", "containers_as_text"): "the wrapper itself is what became text",
}


def both(first: str, second: str) -> list[tuple[JSON, JSON]]:
    """Return the clean replies to which both faults apply in this order, with what they make."""
    found = []
    for clean, seed in itertools.product(SAMPLES, SEEDS):
        once = with_fault(first, clean, seed)
        twice = with_fault(second, once, seed)
        if once is not clean and twice is not once:
            found.append((clean, twice))
    return found


@pytest.mark.parametrize("first", REPAIRED)
def test_two_cured_faults_at_once_read_like_the_clean_reply(first: str) -> None:
    for second in REPAIRED:
        if second == first or (first, second) in TOLD:
            continue
        for clean, faulty in both(first, second):
            reply = read(faulty)
            assert meaning(reply) == meaning(read(clean)), second
            assert isinstance(reply, Reply)
            wanted = {*SHAPE_FAULTS[first].repairs, *SHAPE_FAULTS[second].repairs}
            assert wanted <= {*reply.fired} or (first, second) in ABSORBED, second


@pytest.mark.parametrize("pair", TOLD, ids="+".join)
def test_a_pair_that_is_not_cured_runs_nothing(pair: tuple[str, str]) -> None:
    uncured = 0
    for clean, faulty in both(*pair):
        reply = read(faulty)
        if meaning(reply) != meaning(read(clean)):
            assert not isinstance(reply, Fault)
            assert any(call.problem is not None for call in reply.calls)
            uncured += 1

    assert uncured


@pytest.mark.parametrize("pair", ABSORBED, ids="+".join)
def test_an_absorbed_cure_is_really_absorbed(pair: tuple[str, str]) -> None:
    wanted = {cure for name in pair for cure in SHAPE_FAULTS[name].repairs}
    replies = [read(faulty) for _, faulty in both(*pair)]

    assert any(isinstance(reply, Reply) and not wanted <= {*reply.fired} for reply in replies)


def test_the_pairs_that_never_meet_are_exactly_those_in_the_table() -> None:
    never = {
        frozenset(pair)
        for pair in itertools.combinations(REPAIRED, 2)
        if not both(*pair) and not both(*reversed(pair))
    }
    listed = {
        frozenset((one, other)) for left, right, _ in APART for one in left for other in right
    }

    assert never == listed
