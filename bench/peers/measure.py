"""Lets one client meet all cases of a form: the simulator is here, the client is a process.

A client that ends before it has met all cases is started again with those it had not begun; a
conversation that was under way when it ended, or when it had to be ended, is an error.
"""

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from bench.drift_tasks import Run
from bench.peers.corpus import Case, verdict_of
from bench.peers.in_words import WordedSimulator
from surecall.simulator import Simulator
from surecall.simulator.demo_tasks import RecordedCall, ToolRecorder, Verdict
from surecall.values.types import JSON
from surecall.wire.content_parts import text_of

ROOT: Final = Path(__file__).resolve().parents[2]
LONGEST_S: Final = 1800.0
MOST_STARTS: Final = 5
_LINE_BYTES: Final = 16 * 1024 * 1024
_REASON: Final = 300
# No library may ask the network for anything but the simulator, nor report to its maker.
_QUIET: Final = {
    "ANONYMIZED_TELEMETRY": "false",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": "*",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": "none",
}


class Outcome(NamedTuple):
    """What came of one case; `illegal` says that a request broke the rules of everybody."""

    verdict: Verdict
    illegal: bool = False
    reason: str = ""


async def measured(
    command: list[str], cases: Sequence[Case], *, in_words: bool
) -> dict[str, Outcome]:
    """Let a client meet cases, and judge each by what ran, what was said and what was sent."""
    make = WordedSimulator if in_words else Simulator
    with make() as simulator:
        told = await _told(command, simulator.url, cases)
    return {
        case.key: _outcome(case, told.get(case.key), _broken(simulator, case)) for case in cases
    }


def _broken(simulator: Simulator, case: Case) -> set[str]:
    """Name the rules that requests of a case have broken."""
    return {
        seen.rule
        for seen in simulator.violations
        if seen.persona == case.persona.id and _is_of(simulator.requests[seen.request - 1], case)
    }


def _is_of(request: JSON, case: Case) -> bool:
    asked = [each for each in request["messages"] if each.get("role") == "user"]
    return case.task.prompt in text_of(asked[0].get("content")) if asked else False


def _outcome(case: Case, told: JSON | None, rules: set[str]) -> Outcome:
    told = told or {"error": "the process ended", "made": []}
    made: list[RecordedCall] = [(name, arguments) for name, arguments in told["made"]]
    answer = RuntimeError(told["error"]) if "error" in told else str(told["answer"])
    judgement = verdict_of(case, made, answer)
    run = Run(case.persona.id, judgement.verdict, judgement.reason, tuple(sorted(rules)))
    reason = "; ".join(part for part in (run.reason, ", ".join(run.violations)) if part)
    return Outcome(run.verdict, run.broke_a_rule, reason[:_REASON])


async def _told(command: list[str], url: str, cases: Sequence[Case]) -> dict[str, JSON]:
    """Start the client until every case was begun; return what it told of each."""
    told: dict[str, JSON] = {}
    begun: set[str] = set()
    for _ in range(MOST_STARTS):
        rest = [case for case in cases if case.key not in begun]
        if not rest:
            break
        await _run(command, {"url": url, "cases": [_given(case) for case in rest]}, told, begun)
    return told


def _given(case: Case) -> JSON:
    """Say what a client must know of a case; what its tools return is for those without Python."""
    tools = ToolRecorder().tools(case.task)
    known = dict(case.task.calls)
    returns = {
        each.__name__: each(**known[each.__name__]) for each in tools if each.__name__ in known
    }
    return {
        "key": case.key,
        "model": case.persona.id,
        "task": case.task_name,
        "system": case.task.system,
        "prompt": case.task.prompt,
        "tools": {each.__name__: returns.get(each.__name__, "nobody") for each in tools},
    }


async def _run(command: list[str], given: JSON, told: dict[str, JSON], begun: set[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=os.environ | _QUIET,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=_LINE_BYTES,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            await _listen(process, given, told, begun)
    except TimeoutError:
        process.kill()
    await process.wait()


async def _listen(process: Process, given: JSON, told: dict[str, JSON], begun: set[str]) -> None:
    if process.stdin is None or process.stdout is None:
        raise TypeError("the process has no pipes")
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(json.dumps(given).encode())
        await process.stdin.drain()
    process.stdin.close()
    async for line in process.stdout:
        said = json.loads(line)
        if "began" in said:
            begun.add(said["began"])
        else:
            told[said["key"]] = said
