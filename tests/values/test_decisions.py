"""A decision is a value: what it says can be written down and read."""

import pickle

import msgspec
import pytest

from surecall import Decision, StaleDecision, WaitingCall
from surecall.values.decisions import approval_id
from surecall.values.types import ToolCall


@pytest.mark.parametrize(
    ("decision", "written"),
    [
        (Decision.approve(), {"outcome": "allow"}),
        (Decision.deny("too dear"), {"outcome": "deny", "reason": "too dear"}),
        (Decision.confirm("dear"), {"outcome": "confirm", "reason": "dear"}),
        (Decision.replace({"n": 1}), {"outcome": "replace", "arguments": {"n": 1}}),
    ],
)
def test_a_decision_is_written_in_few_words_and_read_again(
    decision: Decision, written: object
) -> None:
    assert msgspec.to_builtins(decision) == written
    assert msgspec.convert(written, Decision) == decision


PAY = ToolCall("call_0", "pay", {"to": "Kim", "euros": 5})


def test_an_approval_id_names_the_call_and_is_the_same_wherever_the_run_is_read() -> None:
    again = msgspec.json.decode(msgspec.json.encode(PAY), type=ToolCall)
    other_order = ToolCall("call_0", "pay", {"euros": 5, "to": "Kim"})

    assert approval_id("r", PAY).startswith("pay:call_0:")
    assert approval_id("r", PAY) == approval_id("r", again) == approval_id("r", other_order)


@pytest.mark.parametrize(
    ("run_id", "call"),
    [
        ("s", PAY),
        ("r", msgspec.structs.replace(PAY, id="call_1")),
        ("r", msgspec.structs.replace(PAY, name="refund")),
        ("r", msgspec.structs.replace(PAY, arguments={"to": "Kim", "euros": 50})),
        ("r", msgspec.structs.replace(PAY, arguments={"to": "Kim", "euros": 5.0})),
        ("r", msgspec.structs.replace(PAY, arguments={})),
    ],
)
def test_another_run_call_tool_or_arguments_have_another_approval_id(
    run_id: str, call: ToolCall
) -> None:
    assert approval_id(run_id, call) != approval_id("r", PAY)


def test_a_stale_decision_says_what_it_was_about_and_what_waits_now() -> None:
    error = StaleDecision("pay:call_0:1", (WaitingCall("pay:call_0:2", "pay", {}),))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert str(error) == (
        "decisions: no call with id 'pay:call_0:1' needs approval. It was already decided, "
        "changed, or belongs to another run. Calls that need approval: 'pay:call_0:2'. Use the ids "
        "of `waiting`."
    )
    assert str(again) == str(error)
    assert (again.key, again.waiting) == (error.key, error.waiting)
