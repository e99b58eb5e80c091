"""What comes later in a sequence is not on offer, and does not run, in any protocol."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import Contract, RetryPolicy, RunFailed, ToolLoopRunner, tool
from surecall.settings.config import REMIND, REQUIRE
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.types import JSON
from tests.support.prompted_runs import PROTOCOLS, body

STEPS = ("find", "check", "pay", "mail")


class World:
    """Notes which steps were taken, and which were on offer before each."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tools(self) -> list[Any]:
        made = []
        for name in (*STEPS, "look"):

            def take(n: int = 0, name: str = name) -> str:
                """Take a step."""
                if n < 0:
                    raise ValueError("no")
                self.ran.append(name)
                return name

            made.append(tool(name=name, idempotent=True)(_with_one_parameter(take)))
        return made


def _with_one_parameter(take: Any) -> Any:
    def step(n: int = 0) -> str:
        """Take a step."""
        return str(take(n))

    return step


def offered(protocol: str, request: JSON) -> set[str]:
    match protocol:
        case "native":
            return {each["function"]["name"] for each in request.get("tools", ())}
        case "guided":
            schema = request["response_format"]["json_schema"]["schema"]
            steps = [step["properties"] for step in schema.get("anyOf", [schema])]
            return {step["tool"]["const"] for step in steps if "tool" in step}
        case _:
            listed = request["messages"][0]["content"].partition("Tools:\n")[2]
            return {line[2:].partition(":")[0] for line in listed.splitlines() if line[:2] == "- "}


DECISIONS = st.lists(
    st.just("Done.")
    | st.tuples(
        st.sampled_from([*STEPS, "look"]),
        st.fixed_dictionaries({}, optional={"n": st.sampled_from([1, 2, -1])}),
    ),
    max_size=9,
)
ORDERS = st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)


@given(DECISIONS, ORDERS, st.sampled_from(PROTOCOLS), st.booleans())
def test_gating_never_offers_or_runs_what_comes_later(
    decisions: list[Any],
    order: list[str],
    protocol: Any,
    more: bool,  # noqa: FBT001
) -> None:
    world = World()
    model = ScriptedModel(*(body(protocol, one) for one in (*decisions, *["Done."] * 9)))
    contract = Contract(in_order=order, all_of=[order[-1]] if more else [])
    config = raw(contract=contract, call_protocol=protocol, final_ladder=(REMIND, REQUIRE))
    runner = ToolLoopRunner(
        client=model,
        model="m",
        tools=world.tools(),
        config=config,
        retry=RetryPolicy(attempts=1),
    )
    try:
        result = runner.run_sync("Go.")
    except RunFailed as failed:
        result = failed.result
    reached, done = 0, []
    for name in world.ran:
        assert name == "look" or name in order[: reached + 1] or name not in order
        done.append(name)
        if reached < len(order) and name == order[reached]:
            reached += 1
    for turn, request in enumerate(model.requests):
        position = [at for at, one in enumerate(result.run.messages) if one in result.run.replies]
        so_far = result.run.until(position[turn]) if turn < len(position) else result.run
        later = contract.progress(so_far.successful_calls).later
        assert not offered(protocol, request) & later.keys()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tool_that_comes_later_is_refused_with_one_sentence(protocol: Any) -> None:
    world = World()
    decisions: list[Any] = [("pay", {}), ("find", {}), ("pay", {}), "Paid."]
    model = ScriptedModel(*(body(protocol, one) for one in decisions))
    config = raw(contract=Contract(in_order=["find", "pay"]), call_protocol=protocol)
    runner = ToolLoopRunner(client=model, model="m", tools=world.tools(), config=config)
    result = runner.run_sync("Pay.")

    assert world.ran == ["find", "pay"]
    refused = result.run.results[0]
    assert refused.error_codes == ("TOOL_NOT_YET",)
    assert json.loads(refused.content)["errors"][0]["message"] == (
        "pay comes later: call find first."
    )
    assert [offered(protocol, request) & {"find", "pay"} for request in model.requests[:3]] == [
        {"find"},
        {"find"},
        {"find", "pay"},
    ]
