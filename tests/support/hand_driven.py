"""A run driven by hand: replies in, moves out, no client, no tools, no clock."""

from typing import Any

from surecall.core.loop import heard, next_move, ran, refused
from surecall.core.state import Ask, Call, Fail, Move, Run
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    JSON,
    Plan,
    Reply,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)

TOOLS = (ToolSpec("add", "Add.", {}), ToolSpec("poll", "Poll.", {}, repeatable=True))


CALL = ToolCall("c1", "add", {"a": 1}, arguments_bytes=7)


NO_TOOLS = Fault(ErrorCode.NO_TOOL_USE_ENDPOINT, "no tools here", 404)


DOWN = Fault(ErrorCode.UPSTREAM_5XX, "down", 500)


CODES = {True: (), False: (ErrorCode.INTERNAL_ERROR,)}


def begun(options: JSON | None = None, **settings: Any) -> Run:
    config = raw(**settings)
    return Run("r", "m", config, (User("hi"),), tools=TOOLS, options=options or {})


def answer(call: ToolCall, *, ok: bool = True) -> ToolResult:
    if call.problem is None:
        return ToolResult(call.id, call.name, ok, "{}", executed=True, error_codes=CODES[ok])
    codes = (call.problem.code,)
    return ToolResult(call.id, call.name, ok=False, content="{}", error_codes=codes)


def after(run: Run, *turns: Reply | Fault, ok: bool = True) -> Run:
    """Drive a run by hand through some replies, answering every call."""
    for turn in turns:
        run = refused(run, turn) if isinstance(turn, Fault) else heard(run, turn)
        if isinstance(move := next_move(run), Call):
            run = ran(run, [answer(call, ok=ok) for call in move.calls])
    return run


def asking(*calls: ToolCall) -> Reply:
    return Reply("", calls, "tool_calls")


def plan_of(run: Run) -> Plan:
    move = next_move(run)
    assert isinstance(move, Ask)
    return move.plan


def code_of(move: Move) -> ErrorCode | None:
    return move.code if isinstance(move, Fail) else None


def numbered(count: int, name: str = "add") -> list[Reply]:
    return [asking(ToolCall(f"c{n}", name, {"a": n})) for n in range(count)]
