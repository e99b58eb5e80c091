"""Transcripts made by hand, and strategies that draw them: calls, answers, objections."""

from typing import Any

from hypothesis import strategies as st

from surecall.core.loop import heard, next_move, objected, ran
from surecall.core.offer import plan
from surecall.core.state import Ask, Call, Run
from surecall.settings.config import REMIND, REQUIRE
from surecall.settings.contract import Contract, Need
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolResult, ToolSpec, User

TOOLS = tuple(ToolSpec(name, name, {}) for name in ("get", "put", "send"))


LADDER = (REMIND, REQUIRE)


CODES = {True: (), False: (ErrorCode.ARGUMENT_ERROR,)}


def begun(options: JSON | None = None, **settings: Any) -> Run:
    config = raw(**({"final_ladder": LADDER} | settings))
    return Run("r", "m", config, (User("hi"),), tools=TOOLS, options=options or {})


def called(run: Run, name: str, *, ok: bool = True, **arguments: Any) -> Run:
    call = ToolCall(f"c{run.turn}", name, arguments)
    run = heard(run, Reply("", (call,)))
    result = ToolResult(call.id, name, ok, "{}", executed=True, error_codes=CODES[ok])
    return ran(run, [result])


def said(run: Run, *texts: str) -> Run:
    for text in texts:
        run = heard(run, Reply(text))
    return run


NAMES = [spec.name for spec in TOOLS]


NEED = st.sampled_from(NAMES) | st.builds(Need, st.sampled_from(NAMES), st.just({"a": 1}))


NEEDS = st.lists(NEED, max_size=2)


CONTRACTS = st.builds(
    Contract, st.lists(NEED, min_size=1, max_size=2), NEEDS, NEEDS, then_finalise=st.booleans()
)


SETTINGS = st.fixed_dictionaries(
    {"tool_use_mode": st.sampled_from(["relaxed", "enforced"])},
    optional={
        "contract": CONTRACTS,
        "final_ladder": st.lists(st.sampled_from(LADDER), max_size=4),
        "tool_failure_policy": st.just("tolerated"),
        "tools_off_style": st.just("tool_choice_none"),
    },
)


TURNS = st.lists(
    st.sampled_from(["Done.", "", "object"])
    | st.tuples(st.sampled_from([*NAMES, "gone"]), st.booleans(), st.integers(0, 1)),
    max_size=8,
)


def step(run: Run, turn: Any) -> Run:
    match turn:
        case "object":
            return objected(heard(run, Reply("Hm.")), "No.")
        case str():
            return said(run, turn)
        case (name, ok, number):
            call = ToolCall(f"c{run.turn}", name, {"a": number})
            run = heard(run, Reply("", (call,)))
            if not isinstance(move := next_move(run), Call):
                return run
            fine = ok and move.calls[0].problem is None
            done = ToolResult(call.id, name, fine, "{}", executed=fine, error_codes=CODES[fine])
            return ran(run, [done])
        case _:
            raise AssertionError(turn)


def offer(run: Run) -> tuple[list[str], Any]:
    asked = asking(run)
    return [spec.name for spec in asked.tools], asked.tool_choice


def asking(run: Run) -> Plan:
    move = next_move(run)
    assert isinstance(move, Ask)
    assert move.plan == plan(run)
    return move.plan
