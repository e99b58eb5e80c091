"""Transcripts made by hand, and runs driven by hand: replies in, moves out."""

from typing import Any

from hypothesis import strategies as st

from surecall import RetryPolicy, RunFailed, RunResult, ToolLoopRunner, ToolRegistry, tool
from surecall.core.exposed_tools import next_plan
from surecall.core.loop import (
    next_move,
    record_objection,
    record_refusal,
    record_reply,
    record_results,
)
from surecall.core.state import AskModel, Fail, Move, Run, RunTools
from surecall.settings.config import REMIND, REQUIRE
from surecall.settings.contract import Contract, Need
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolResult, ToolSpec, User

# Transcripts made by hand, and strategies that draw them: calls, answers, objections


TOOLS = tuple(ToolSpec(name, name, {}) for name in ("get", "put", "send"))


LADDER = (REMIND, REQUIRE)


CODES = {True: (), False: (ErrorCode.ARGUMENT_ERROR,)}


def begun(options: JSON | None = None, **settings: Any) -> Run:
    config = raw(**({"final_ladder": LADDER} | settings))
    return Run("r", "m", config, (User("hi"),), tools=TOOLS, options=options or {})


def called(run: Run, name: str, *, ok: bool = True, **arguments: Any) -> Run:
    call = ToolCall(f"c{run.turn_count}", name, arguments)
    run = record_reply(run, Reply("", (call,)))
    result = ToolResult(call.id, name, ok, "{}", executed=True, error_codes=CODES[ok])
    return record_results(run, [result])


def said(run: Run, *texts: str) -> Run:
    for text in texts:
        run = record_reply(run, Reply(text))
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
            return record_objection(record_reply(run, Reply("Hm.")), "No.")
        case str():
            return said(run, turn)
        case (name, ok, number):
            call = ToolCall(f"c{run.turn_count}", name, {"a": number})
            run = record_reply(run, Reply("", (call,)))
            if not isinstance(move := next_move(run), RunTools):
                return run
            fine = ok and move.calls[0].problem is None
            done = ToolResult(call.id, name, fine, "{}", executed=fine, error_codes=CODES[fine])
            return record_results(run, [done])
        case _:
            raise AssertionError(turn)


def offer(run: Run) -> tuple[list[str], Any]:
    asked = asking(run)
    return [spec.name for spec in asked.tools], asked.tool_choice


def asking(run: Run) -> Plan:
    move = next_move(run)
    assert isinstance(move, AskModel)
    assert move.plan == next_plan(run)
    return move.plan


# A run driven by hand: replies in, moves out, no client, no tools, no clock


PLAIN_TOOLS = (ToolSpec("add", "Add.", {}), ToolSpec("poll", "Poll.", {}, repeatable=True))


CALL = ToolCall("c1", "add", {"a": 1}, arguments_bytes=7)


NO_TOOLS = Fault(ErrorCode.NO_TOOL_USE_ENDPOINT, "no tools here", 404)


DOWN = Fault(ErrorCode.UPSTREAM_5XX, "down", 500)


PLAIN_CODES = {True: (), False: (ErrorCode.INTERNAL_ERROR,)}


def begun_plain(options: JSON | None = None, **settings: Any) -> Run:
    config = raw(**settings)
    return Run("r", "m", config, (User("hi"),), tools=PLAIN_TOOLS, options=options or {})


def answer(call: ToolCall, *, ok: bool = True) -> ToolResult:
    if call.problem is None:
        return ToolResult(call.id, call.name, ok, "{}", executed=True, error_codes=PLAIN_CODES[ok])
    codes = (call.problem.code,)
    return ToolResult(call.id, call.name, ok=False, content="{}", error_codes=codes)


def after(run: Run, *turns: Reply | Fault, ok: bool = True) -> Run:
    """Drive a run by hand through some replies, answering every call."""
    for turn in turns:
        run = record_refusal(run, turn) if isinstance(turn, Fault) else record_reply(run, turn)
        if isinstance(move := next_move(run), RunTools):
            run = record_results(run, [answer(call, ok=ok) for call in move.calls])
    return run


def reply_with(*calls: ToolCall) -> Reply:
    return Reply("", calls, "tool_calls")


def plan_of(run: Run) -> Plan:
    move = next_move(run)
    assert isinstance(move, AskModel)
    return move.plan


def code_of(move: Move) -> ErrorCode | None:
    return move.code if isinstance(move, Fail) else None


def numbered(count: int, name: str = "add") -> list[Reply]:
    return [reply_with(ToolCall(f"c{n}", name, {"a": n})) for n in range(count)]


BOTH_STEPS = (REMIND, REQUIRE)


DONE = says("Done.")


class Desk:
    """Tools that note what ran; `put` fails unless it is told `good`."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        poll = tool(repeatable=True)(self.poll)
        self.registry = ToolRegistry([tool(read_only=True)(self.get), self.put, poll])

    def get(self, key: str = "a") -> str:
        """Read."""
        self.ran.append(f"get {key}")
        return key

    def put(self, value: str) -> str:
        """Write."""
        self.ran.append(f"put {value}")
        if value != "good":
            raise ValueError("only good is accepted")
        return value

    def poll(self) -> str:
        """Ask whether it is ready."""
        self.ran.append("poll")
        return "not yet"

    def run(self, *script: Item, **settings: Any) -> tuple[RunResult, ScriptedModel]:
        model = ScriptedModel(*script)
        given: JSON = {"final_ladder": BOTH_STEPS} | settings
        runner = ToolLoopRunner(
            client=model,
            model="m",
            registry=self.registry,
            config=raw(**given),
            retry=RetryPolicy(attempts=1),
        )
        try:
            return runner.run_sync("Go."), model
        except RunFailed as failed:
            return failed.result, model
