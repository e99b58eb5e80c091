"""Advice: each kind of reply has its own sentences, and they say what a run does."""

import json

import pytest

from surecall.cli.advice import advice_on_fault, meaning
from surecall.cli.explain import explain
from surecall.parsing.repairs import REPAIRS
from surecall.testing import calls, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON

TOOL = {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}
TAGGED = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
NAKED = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
GOOD = calls("get_weather", city="Paris")


def advice(body: JSON, *tools: JSON) -> str:
    return " ".join(explain(json.dumps(body).encode(), tools).advice)


def bent(**function: object) -> JSON:
    body = calls("get_weather", city="Paris")
    body["choices"][0]["message"]["tool_calls"][0]["function"] |= function
    return body


def cut() -> JSON:
    body = calls("get_weather", city="Paris")
    body["choices"][0]["finish_reason"] = "length"
    return body


@pytest.mark.parametrize(
    ("body", "tools", "told"),
    [
        pytest.param(GOOD, (TOOL,), "The reply is in order.", id="right"),
        pytest.param(bent(arguments={"city": "Paris"}), (), "fails on this one", id="bent"),
        pytest.param(bent(name="Get-Weather"), (TOOL,), "fails on this one", id="renamed"),
        pytest.param(bent(name="weather"), (TOOL,), "which tools there are", id="unknown"),
        pytest.param(bent(arguments="{"), (), "tells the model why", id="unreadable"),
        pytest.param(cut(), (), "raise `max_tokens`", id="cut off"),
        pytest.param(says(TAGGED), (TOOL,), "tool parser", id="as text"),
        pytest.param(says(f"{TAGGED} it says."), (TOOL,), "whether it means", id="in doubt"),
        pytest.param(says("<|use|>get_weather{}"), (TOOL,), "whether it means", id="strange"),
        pytest.param(says(NAKED), (TOOL,), "By default, surecall asks", id="bare"),
        pytest.param(says(f"```\n{NAKED}\n```"), (TOOL,), "By default, surecall takes", id="fence"),
        pytest.param(says(f"Look: {NAKED} so."), (TOOL,), "takes that for its answer", id="prose"),
        pytest.param(says(NAKED), (), "add --tools", id="bare, tools unknown"),
        pytest.param(says("It is sunny."), (), "answered in words", id="words"),
        pytest.param(says(""), (), "asks once more", id="empty"),
    ],
)
def test_each_kind_of_reply_has_its_own_sentences(
    body: JSON, tools: tuple[JSON, ...], told: str
) -> None:
    assert told in advice(body, *tools)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault(ErrorCode.RATE_LIMIT, "slow down", retryable=True), "asks again"),
        (Fault(ErrorCode.AUTH, "no"), "will not help"),
        (Fault(ErrorCode.NO_TOOL_USE_ENDPOINT, "no"), "guided_calls"),
        (Fault(ErrorCode.BAD_REQUEST, "no"), "refuses the request"),
    ],
)
def test_a_fault_says_whether_asking_again_helps(fault: Fault, told: str) -> None:
    assert told in " ".join(advice_on_fault(fault))


def test_every_repair_has_its_sentence_and_a_step_without_one_has_none() -> None:
    assert [name for name in REPAIRS if not meaning(name)] == []
    assert meaning("response_body_unwrapped")[0].startswith("Take a completion out of")
    assert "as text" in meaning("text_call_C1")[0]
    assert meaning("guided_reply") == ()
