"""No equal write runs twice in a run, whatever the model does, under any strategy and protocol."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import (
    Contract,
    Need,
    RetryPolicy,
    Run,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    replay,
    run_of,
    tool,
)
from surecall.settings.presets import raw, resolve
from surecall.testing import Item, ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON
from tests.support.prompted_runs import PROTOCOLS, body


class World:
    """Notes what ran. `book` is a write, of `look` and `set` nobody minds a repetition."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []

    def tools(self) -> list[Any]:
        @tool
        async def book(room: Any = None) -> str:
            """Book a room."""
            self.ran.append(("book", room))
            await asyncio.sleep(0)
            if room == "none":
                raise ValueError("no such room")
            return f"booking {len(self.ran)}"

        @tool(read_only=True)
        def look(room: Any = None) -> int:
            """Look at a room."""
            self.ran.append(("look", room))
            return len(self.ran)

        @tool(idempotent=True)
        def set(room: Any = None) -> int:  # noqa: A001
            """Set it."""
            self.ran.append(("set", room))
            return len(self.ran)

        @tool(repeatable=True)
        def ring(room: Any = None) -> str:
            """Ring."""
            self.ran.append(("ring", room))
            return "rang"

        return [book, look, set, ring]

    def run(self, *script: Item, config: ToolCallingConfig) -> RunResult:
        runner = ToolLoopRunner(
            client=ScriptedModel(*script, *[says("Done.")] * 8),
            model="m",
            tools=self.tools(),
            config=config,
            retry=RetryPolicy(attempts=1),
        )
        try:
            return runner.run_sync("Go.")
        except RunFailed as failed:
            return failed.result

    def times(self, name: str) -> list[int]:
        return sorted(Counter(repr(room) for tool, room in self.ran if tool == name).values())


ROOMS = st.sampled_from([7, "7", 8, True, 1, "none", [1, {"a": 2}], None])
CALLS = st.tuples(st.sampled_from(["book", "look", "set", "ring"]), ROOMS)
TURNS = st.lists(st.lists(CALLS, min_size=1, max_size=4), max_size=7)
STRATEGIES = ("raw", "baseline", "production", "contract", "guided", "guided_contract")


def replies(turns: list[list[tuple[str, Any]]], *, same_ids: bool) -> list[JSON]:
    made = []
    for number, turn in enumerate(turns):
        ids = ["call_0" if same_ids else f"c{number}_{at}" for at in range(len(turn))]
        each = [calls(name, one, room=room) for one, (name, room) in zip(ids, turn, strict=True)]
        made.append(calls_many(*each))
    return made


@given(
    turns=TURNS,
    strategy=st.sampled_from(STRATEGIES),
    parallel=st.booleans(),
    same_ids=st.booleans(),
)
def test_no_equal_write_runs_twice_in_any_run_of_any_script(
    turns: list[list[tuple[str, Any]]], strategy: Any, *, parallel: bool, same_ids: bool
) -> None:
    world = World()
    config = resolve(strategy=strategy).replace(
        max_turns=30, request_overrides={"parallel_tool_calls": parallel}
    )
    result = world.run(*replies(turns, same_ids=same_ids), config=config)

    written = [room for name, room in world.ran if name == "book" and room != "none"]
    assert len({repr(room) for room in written}) == len(written)
    assert replay(result.trace).run == result.run
    assert run_of(result.trace) == result.run
    assert Run.from_json(result.run.to_json()) == result.run


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_made_is_answered_from_its_first_result_with_a_note(protocol: Any) -> None:
    world = World()
    script = [
        body(protocol, decision)
        for decision in (
            ("book", {"room": 7}),
            ("look", {"room": 7}),
            ("book", {"room": 7}),
            "Done.",
        )
    ]
    result = world.run(*script, config=raw(call_protocol=protocol))

    first, _, again = result.run.results
    assert world.ran == [("book", 7), ("look", 7)]
    assert again.ok
    assert not again.executed
    assert again.envelope["data"] == first.envelope["data"] == {"value": "booking 1"}
    assert "was made before in this run, and it succeeded" in again.envelope["warnings"][-1]
    assert again.detail == f"the result of call {first.call_id}, which had the same arguments"


def test_equal_writes_of_one_reply_run_once_also_beside_each_other() -> None:
    world = World()
    both = calls_many(calls("book", "a", room=7), calls("book", "b", room=7))
    config = raw(
        request_overrides={"parallel_tool_calls": True}, contract=Contract(all_of=["book"])
    )
    result = world.run(both, config=config)

    assert world.ran == [("book", 7)]
    assert result.stop_reason == "final"


def test_a_write_that_failed_may_be_made_again() -> None:
    world = World()
    script = (calls("book", "a", room="none"), calls("look"), calls("book", "b", room="none"))
    world.run(*script, config=raw())
    assert world.times("book") == [2]


@pytest.mark.parametrize(
    ("contract", "times"),
    [
        (Contract(all_of=["book"], then_finalise=False), 1),
        (Contract(in_order=["book", "look", "book"], then_finalise=False), 1),
        (Contract(in_order=["book", "look", Need("book", repeat=True)], then_finalise=False), 3),
        (Contract(all_of=[Need("book", repeat=True)], then_finalise=False), 3),
        (Contract(all_of=[Need("book", {"room": 7}, repeat=True)], then_finalise=False), 3),
        (Contract(all_of=["look", Need("book", {"room": 8}, repeat=True)]), 1),
    ],
)
def test_a_contract_may_allow_more(contract: Contract, times: int) -> None:
    world = World()
    script = [calls("book", "a", room=7), calls("look"), calls("book", "b", room=7), calls("look")]
    world.run(*script, calls("book", "c", room=7), config=raw(contract=contract))
    assert world.times("book") == [times]


def test_a_read_is_fresh_every_time() -> None:
    world = World()
    script = [calls("look", "a", room=7), calls("book", room=7), calls("look", "b", room=7)]
    result = world.run(*script, config=raw())
    assert [
        item.envelope["data"]["value"] for item in result.run.results if item.name == "look"
    ] == [1, 3]
