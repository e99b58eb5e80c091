"""A property of faults: a faulty reply is read as the clean one, or refused with its code.

One fault at a time here; two at a time in `test_faults_pairs`, real cases in `test_corpus`.
"""

import asyncio
import copy
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall import (
    ProviderError,
    RetryPolicy,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    presets,
)
from surecall.settings.endpoint_profile import FAMILIES
from surecall.simulator.faults import FAMILIES as KINDS
from surecall.simulator.faults import FAULT_MODULES, SHAPE_FAULTS, apply_fault
from surecall.testing import ScriptedModel, calls, calls_many, raw, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Reply
from surecall.wire.chat_format import encode
from surecall.wire.finish_reasons import CALLS_EXPECTED, finish_kind
from tests.support.replies import CALLING, DEFAULT, RAW, REPLIES, SAMPLES, meaning, read, with_fault

SEEDS = st.integers(0, 11)
OPT_IN = "opt_in:"


def ids_with(*outcomes: str) -> list[str]:
    return [fault.id for fault in SHAPE_FAULTS.values() if fault.outcome in outcomes]


REPAIRED = ids_with("repaired")
RETRIED = ids_with("retried")
OPTIONAL = [fault.id for fault in SHAPE_FAULTS.values() if fault.outcome.startswith(OPT_IN)]
REFUSED = ids_with(*ErrorCode)
CHOSEN_STEPS = {name for family in FAMILIES.values() for name in family.names} | {
    "boolean_from_text",
    "call_in_arguments",
    "closers_too_many",
    "container_from_text",
    "control_tokens",
    "empty_object_beside",
    "empty_optional_dropped",
    "entities_decoded",
    "integer_from_float",
    "no_arguments",
    "null_from_word",
    "null_optional_dropped",
    "number_from_text",
    "sole_item",
    "text_bared",
    "text_from_number",
    "unwrapped",
}
# The reader takes these as they are; the step in the default preset only makes it visible.
READ_ANYWAY = {
    "arguments_blank": "blank text has always meant no arguments",
    "arguments_object": "an object needs no decoding",
    "both_call_forms": "the legacy field is looked at by its own step only",
    "content_parts": "text parts are joined",
    "content_thinking": "text parts are joined; only the thought is lost",
    "tool_calls_object": "a single call is as good as a list of one",
}


def applied(fault_id: str, replies: tuple[JSON, ...] = SAMPLES) -> list[tuple[JSON, JSON]]:
    """Return the clean replies that a fault applies to, each with its faulty form."""
    pairs = [(clean, with_fault(fault_id, clean, seed)) for clean in replies for seed in range(6)]
    return [(clean, faulty) for clean, faulty in pairs if faulty is not clean]


def test_every_fault_says_where_it_is_from_and_what_becomes_of_it() -> None:
    for fault in SHAPE_FAULTS.values():
        assert fault.id.islower()
        assert fault.id.isidentifier()
        assert fault.sources
        assert fault.family in KINDS
        assert fault.summary.endswith(".")
        assert "\n" not in fault.summary
    assert sorted(SHAPE_FAULTS) == sorted(REPAIRED + RETRIED + OPTIONAL + REFUSED)
    assert all(any(hasattr(module, name) for module in FAULT_MODULES) for name in SHAPE_FAULTS)


@pytest.mark.parametrize("fault_id", SHAPE_FAULTS)
def test_a_fault_applies_to_some_reply_and_changes_it_the_same_way_each_time(fault_id: str) -> None:
    before = copy.deepcopy(SAMPLES)

    first, again = applied(fault_id), applied(fault_id)

    assert first
    assert [faulty for _, faulty in first] == [faulty for _, faulty in again]
    assert all(faulty != clean for clean, faulty in first)
    assert before == SAMPLES


@pytest.mark.slow
@pytest.mark.parametrize("fault_id", SHAPE_FAULTS)
def test_a_fault_neither_mutates_nor_raises_on_what_is_faulty_already(fault_id: str) -> None:
    for _, faulty in applied(fault_id):
        if isinstance(faulty, dict):
            before = repr(faulty)
            for other in SHAPE_FAULTS:
                with_fault(other, faulty)
            assert repr(faulty) == before


@pytest.mark.parametrize("fault_id", SHAPE_FAULTS)
def test_nor_does_any_on_the_first_reply_that_a_fault_has_bent(fault_id: str) -> None:
    _, faulty = applied(fault_id)[0]
    if isinstance(faulty, dict):
        before = repr(faulty)
        for other in SHAPE_FAULTS:
            with_fault(other, faulty)
        assert repr(faulty) == before


@pytest.mark.parametrize("body", [{}, {"choices": [{}]}, {"choices": [{"message": None}]}])
@pytest.mark.parametrize(
    "fault_id", [name for name in SHAPE_FAULTS if SHAPE_FAULTS[name].family != "envelope"]
)
def test_a_fault_leaves_alone_what_is_no_reply(fault_id: str, body: JSON) -> None:
    assert with_fault(fault_id, body) is body


@pytest.mark.parametrize("fault_id", REPAIRED)
@given(body=REPLIES, seed=SEEDS)
@settings(max_examples=40)
def test_a_cured_fault_reads_like_the_clean_reply(fault_id: str, body: JSON, seed: int) -> None:
    faulty = with_fault(fault_id, body, seed)
    reply = read(faulty)

    assert meaning(reply) == meaning(read(body))
    assert isinstance(reply, Reply)
    assert faulty is body or set(SHAPE_FAULTS[fault_id].repairs) <= set(reply.fired)


@given(REPLIES)
@settings(max_examples=300)
def test_a_clean_reply_is_read_to_the_letter_and_nothing_fires(body: JSON) -> None:
    healed, raw = read(body), read(body, RAW)

    assert isinstance(healed, Reply)
    assert healed.fired == ()
    assert healed == raw
    assert all(call.problem is None for call in healed.calls)


@pytest.mark.parametrize(
    "fault_id",
    [
        name
        for name in REPAIRED
        if CHOSEN_STEPS & {*SHAPE_FAULTS[name].repairs} and name not in READ_ANYWAY
    ],
)
def test_without_its_step_a_fault_is_not_cured(fault_id: str) -> None:
    for clean, faulty in applied(fault_id):
        assert meaning(read(faulty, RAW)) != meaning(read(clean, RAW))


@pytest.mark.parametrize("fault_id", READ_ANYWAY)
def test_some_shapes_need_no_step_at_all(fault_id: str) -> None:
    for clean, faulty in applied(fault_id):
        assert meaning(read(faulty, RAW)) == meaning(read(clean, RAW))


@pytest.mark.parametrize("fault_id", OPTIONAL)
@given(body=CALLING, seed=SEEDS)
@settings(max_examples=60)
def test_a_choice_is_cured_by_its_preset(fault_id: str, body: JSON, seed: int) -> None:
    config = presets.PRESET[SHAPE_FAULTS[fault_id].outcome.removeprefix(OPT_IN)](DEFAULT)
    faulty = with_fault(fault_id, body, seed)
    reply = read(faulty, config)

    assert isinstance(reply, Reply)
    if faulty is not body:
        assert set(SHAPE_FAULTS[fault_id].repairs) <= set(reply.fired)
        # Texts that held entities before are the price; the corpus has them as negative cases.
        if "&" not in str(body) and '{"' not in str(body).replace("'{\"", ""):
            assert meaning(reply) == meaning(read(body))


@pytest.mark.parametrize("fault_id", OPTIONAL)
def test_a_choice_that_was_not_made_changes_nothing(fault_id: str) -> None:
    for clean, faulty in applied(fault_id):
        reply = read(faulty)
        assert meaning(reply) != meaning(read(clean))
        assert isinstance(reply, Reply)
        assert not {*SHAPE_FAULTS[fault_id].repairs} & {*reply.fired}


@pytest.mark.parametrize("fault_id", REFUSED)
@given(body=REPLIES, seed=SEEDS)
@settings(max_examples=40)
def test_a_refused_fault_ends_in_its_one_code(fault_id: str, body: JSON, seed: int) -> None:
    faulty = with_fault(fault_id, body, seed)
    reply = read(faulty)

    if faulty is body:
        return
    if isinstance(reply, Fault):
        assert reply.code == SHAPE_FAULTS[fault_id].outcome
        assert not reply.retryable
        return
    clean = read(body)
    assert isinstance(clean, Reply)
    codes = [call.problem.code for call in reply.calls if call.problem is not None]
    assert set(codes) == {SHAPE_FAULTS[fault_id].outcome}
    # A call without a problem is one that the fault did not touch.
    runnable = [(call.name, call.arguments) for call in reply.calls if call.problem is None]
    assert all(one in [(call.name, call.arguments) for call in clean.calls] for one in runnable)


@pytest.mark.parametrize("fault_id", RETRIED)
@given(body=REPLIES, seed=SEEDS)
@settings(max_examples=40)
def test_a_fault_that_is_retried_holds_no_call(fault_id: str, body: JSON, seed: int) -> None:
    faulty = with_fault(fault_id, body, seed)
    reply = read(faulty)

    if isinstance(reply, Fault):
        assert reply.retryable
    elif faulty is not body:
        is_promise = finish_kind(reply.finish_reason) in CALLS_EXPECTED
        assert reply.calls == ()
        assert is_promise or not reply.text.strip()


@pytest.mark.parametrize(
    "fault_id", [name for name in SHAPE_FAULTS if SHAPE_FAULTS[name].family == "ids"]
)
@given(body=CALLING, seed=SEEDS)
@settings(max_examples=30)
def test_ids_are_unique_in_the_whole_conversation(fault_id: str, body: JSON, seed: int) -> None:
    taken = ("call_0", "call_1", "0", "terminal:0", "tc_1")
    reply = read(with_fault(fault_id, body, seed), DEFAULT, *taken)

    assert isinstance(reply, Reply)
    ids = [*taken, *(call.id for call in reply.calls)]
    assert len(ids) == len(set(ids))
    assert all(ids)


def test_two_calls_of_one_tool_without_ids_are_two_calls() -> None:
    reply = read(with_fault("id_missing", calls_many(calls("ping"), calls("ping"))))

    assert isinstance(reply, Reply)
    assert [call.id for call in reply.calls] == ["tc_1", "tc_2"]


@pytest.mark.parametrize("seed", [0, 1])
def test_what_the_model_thought_is_kept_apart_from_what_it_said(seed: int) -> None:
    reply = read(with_fault("content_thinking", says("Yes."), seed))

    assert isinstance(reply, Reply)
    assert (reply.text, reply.extra["reasoning_content"]) == ("Yes.", "Hm.")


@pytest.mark.parametrize(
    ("config", "expected"),
    [(RAW, "a &amp;&amp; b"), (DEFAULT, "a &amp;&amp; b"), (None, "a && b")],
)
def test_entities_are_decoded_by_choice_only(
    config: ToolCallingConfig | None, expected: str
) -> None:
    body: Any = calls("note", text="a &amp;&amp; b")
    reply = read(body, config or presets.decode_html_entities())

    assert isinstance(reply, Reply)
    assert reply.calls[0].arguments == {"text": expected}


def test_a_tool_whose_parameters_are_those_of_a_call_can_be_called_with_one() -> None:
    names = ("name", "arguments", "tool", "input")
    schema = {"type": "object", "properties": {name: {} for name in names}}
    function = {"name": "ping", "parameters": schema | {"additionalProperties": False}}
    body = calls("ping", name="a")

    assert apply_fault("arguments_of_a_call", body, 0, [{"function": function}]) is body


# Faults in whole runs: the right tool runs once, a refused call never, and the run goes on


QUICK = RetryPolicy(attempts=2, first_wait_s=0.001, longest_wait_s=0.001)
OF_REQUESTS = {"PAYMENT_REQUIRED", "CONTENT_POLICY", "DECODE_ERROR"}


class Journal:
    """Tools that write down how they were called."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, JSON]] = []

    def registry(self) -> ToolRegistry:
        def add(a: int, b: int, label: str = "", exact: bool = False) -> int:  # noqa: FBT001, FBT002
            """Add two numbers."""
            self.ran.append(("add", {"a": a, "b": b, "label": label, "exact": exact}))
            return a + b

        def save(
            path: str,
            rows: list[int],
            options: dict[str, int],
            force: bool = False,  # noqa: FBT001, FBT002
            at: int = 0,
        ) -> str:
            """Save rows."""
            told = {"path": path, "rows": rows, "options": options, "force": force, "at": at}
            self.ran.append(("save", told))
            return "saved"

        def ping() -> str:
            """Ask whether anyone is there."""
            self.ran.append(("ping", {}))
            return "pong"

        def compare(
            column: str,
            operator: Literal["<", ">="],
            case: Literal["lower", "upper"] = "lower",
        ) -> str:
            """Compare a column."""
            told = {"column": column, "operator": operator, "case": case}
            self.ran.append(("compare", told))
            return "equal"

        return ToolRegistry([add, save, ping, compare])


def wire(body: Any) -> Any:
    """Send a body as bytes, so that it passes through the decoder too."""
    return raw(encode(body))


def run(journal: Journal, *script: Any) -> tuple[RunResult, ScriptedModel]:
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model, model="m", registry=journal.registry(), config=DEFAULT, retry=QUICK
    )
    return asyncio.run(runner.run("go")), model


@pytest.mark.slow
@pytest.mark.parametrize("fault_id", ids_with("repaired"))
def test_a_cured_call_runs_once_with_its_arguments_and_costs_no_further_request(
    fault_id: str,
) -> None:
    compared = calls("compare", column="2662", operator=">=")
    for clean in (calls("ping"), calls("add", a=1, b=2), SAMPLES[3], SAMPLES[7], compared):
        faulty = with_fault(fault_id, clean)
        straight, healed = Journal(), Journal()
        run(straight, wire(clean), says("Done."))
        result, model = run(healed, wire(faulty), says("Done."))

        assert len(straight.ran) == 1
        assert (healed.ran, len(model.requests)) == (straight.ran, 2)
        assert result.assistant_text == "Done."


@pytest.mark.parametrize("fault_id", ids_with("repaired"))
def test_a_cured_answer_is_the_final_answer(fault_id: str) -> None:
    result, model = run(Journal(), wire(with_fault(fault_id, says("It is 3."))))

    assert (result.assistant_text, len(model.requests)) == ("It is 3.", 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault_id", ids_with("retried"))
def test_what_cannot_be_read_is_asked_for_once_more(fault_id: str, seed: int) -> None:
    journal = Journal()
    faulty = with_fault(fault_id, says("It is 3."), seed)

    result, model = run(journal, calls("add", a=1, b=2), wire(faulty), says("It is 3."))

    assert (result.assistant_text, len(model.requests)) == ("It is 3.", 3)
    assert [name for name, _ in journal.ran] == ["add"]


@pytest.mark.parametrize("fault_id", ids_with(*{*ErrorCode} - OF_REQUESTS))
def test_a_refused_call_never_runs_and_the_model_is_told(fault_id: str) -> None:
    journal = Journal()
    faulty = with_fault(fault_id, calls("add", a=1, b=2))

    result, model = run(journal, wire(faulty), says("Sorry."))

    assert journal.ran == []
    told = model.requests[1]["messages"][-1]
    assert (told["role"], result.assistant_text) == ("tool", "Sorry.")
    assert [*result.run.results[0].error_codes] == [SHAPE_FAULTS[fault_id].outcome]


@pytest.mark.parametrize("fault_id", ids_with(*OF_REQUESTS))
def test_an_error_that_no_retry_mends_ends_the_run_at_once(fault_id: str) -> None:
    model = ScriptedModel(wire(with_fault(fault_id, calls("ping"))))
    runner = ToolLoopRunner(client=model, model="m", config=DEFAULT, retry=QUICK)

    with pytest.raises(ProviderError) as failure:
        asyncio.run(runner.run("go"))

    assert failure.value.code == SHAPE_FAULTS[fault_id].outcome
    assert len(model.requests) == 1
