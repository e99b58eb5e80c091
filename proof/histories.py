"""D6: in whatever happens, every call is answered exactly once and runs at most once.

A machine is one conversation in virtual time, driven by dice: the model speaks and calls (with
odd, blank and repeated ids, names and arguments, as text, in the old form), tools succeed, raise,
hang and return too much, requests fail, the run is cancelled or left in the middle, taken up again
from its state or from its journal, and continued elsewhere under other settings. Every request is
checked before it is answered. A machine is made of the seed and its number alone:

    python -c "from proof import histories; print(histories.replay(1, 4711))"
"""

import asyncio
import functools
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from proof.claims import Claim, Outcome, gathered
from proof.invariants import request_problems
from surecall import (
    RetryPolicy,
    Run,
    RunFailed,
    ToolCallingConfig,
    ToolError,
    ToolLoopRunner,
    presets,
)
from surecall.runtime.recording import dump_trace, parse_trace
from surecall.runtime.replay import run_of
from surecall.runtime.run_stream import RunStream
from surecall.settings.config import all_settings
from surecall.testing import Scripted, ScriptedModel, failure, hangs_up, raw
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import SurecallError
from surecall.values.events import Event
from surecall.values.trace import Trace
from surecall.values.types import JSON
from tests.support.timing import virtual_time

_TURNS: Final = 400
_HUGE: Final = "x" * 3_000
_SHORT_ID: Final = 9
_SCHEMA: Final = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_KINDS: Final[dict[str, JSON]] = {
    "ok": {},
    "raise": {},
    "refuse": {},
    "slow": {},
    "stubborn": {},
    "huge": {},
    "serial": {"serial": True},
    "look": {"read_only": True},
    "put": {"idempotent": True},
    "hidden": {"exposed_to_model": False},
}
_REPEATABLE: Final = frozenset({"look", "put"})
_NAMES: Final = (*_KINDS, *("ok", "slow") * 3)
_BAD_NAMES: Final = ("", "nope", "a b", "functions.ok", "OK", "ok<|channel|>", "x" * 90, "hidden")
_BAD_ARGUMENTS: Final[tuple[Any, ...]] = (
    "",
    "{",
    "null",
    "[]",
    '{"n": "one"}',
    "```json\n{}\n```",
    None,
    7,
    [],
)
_ODD_IDS: Final = (
    "",
    None,
    7,
    " ",
    "functions.ok:0",
    "toolu_01A09q90qw90lq917835lq9",
    "é",
    "x" * 70,
)
_LIMITS: Final[tuple[JSON, ...]] = (
    {},
    {},
    {"max_tool_calls_per_turn": 2},
    {"max_total_tool_calls": 6},
    {"max_turns": 3},
    {"block_repeated_success": True},
    {"tool_use_mode": "enforced", "tool_failure_policy": "tolerated"},
    {"tools_off_style": "tool_choice_none"},
    {"tool_denylist": ("huge",)},
    {"run_deadline_s": 60.0},
)


@functools.cache
def _configs() -> list[ToolCallingConfig]:
    providers = ("openai", "openrouter", "mistral", "gemini", "deepseek", "bedrock")
    configs = [presets.resolve(provider=provider) for provider in providers]
    configs += [
        presets.content_tag_tool_call_fallback(presets.default_tool_calling()),
        presets.raw(),
    ]
    return configs


class Machine:
    """One conversation, and what is wrong with it."""

    def __init__(self, rng: random.Random) -> None:
        self.problems: list[str] = []
        self.requests = 0
        self.executions = 0
        self._rng = rng
        self._nonces = 0
        self._made: list[JSON] = []  # the calls of this run that may come again, as they came
        self._ran_ids: Counter[str] = Counter()
        self._ran_nonces: Counter[int] = Counter()
        self._config = presets.raw()
        self._journal: list[Event] = []

    async def live(self) -> None:
        """Go through some runs, one after the other."""
        run: Run | None = None
        for _ in range(self._rng.randint(3, 9)):
            run = await self._leg(run)
        await asyncio.sleep(10_000)  # what was left running ends before the event loop does

    async def _leg(self, run: Run | None) -> Run:
        """Begin, continue or resume; return how far it came."""
        stream = self._opened(run)
        leaves = self._rng.choice((None, None, self._rng.randint(1, 30)))
        limit = self._rng.choice((None, None, self._rng.uniform(0, 200)))
        try:
            async with asyncio.timeout(limit), stream:
                seen = 0
                async for _ in stream:
                    seen += 1
                    if seen == leaves:
                        break
        except (RunFailed, TimeoutError):
            pass
        except SurecallError as error:  # nothing here gives a reason for any other
            self.problems.append(f"{type(error).__name__}: {error}")
        return self._taken_up(stream)

    def _opened(self, run: Run | None) -> RunStream:
        if run is not None and self._rng.random() < 0.6:
            self._config = run.config
            return self._runner().stream_resumed(run, on_event=self._journal.append)
        # Another run of the same conversation, maybe with another provider: its ids begin anew.
        self._made.clear()
        limits = self._rng.choice(_LIMITS)
        self._config = ToolCallingConfig.from_mapping(
            all_settings(self._rng.choice(_configs()))
            | {"tool_timeout_s": 30.0, "max_tool_output_bytes": 2_000, "max_turns": 8}
            | limits
        )
        if self._rng.random() < 0.5:
            more = {"parallel_tool_calls": True}
            self._config = self._config.replace(
                request_overrides={**self._config.request_overrides, **more}
            )
        earlier = () if run is None else run.messages
        self._journal.clear()
        return self._runner().stream("Go on.", history=earlier, on_event=self._journal.append)

    def _runner(self) -> ToolLoopRunner:
        return ToolLoopRunner(
            client=ScriptedModel(*[self._answer] * _TURNS),
            model="m",
            registry=ToolRegistry(
                {"name": name, "parameters": _SCHEMA, **hints} for name, hints in _KINDS.items()
            ),
            config=self._config,
            executor=self._execute,
            retry=RetryPolicy(attempts=2, first_wait_s=1.0),
        )

    def _taken_up(self, stream: RunStream) -> Run:
        """Return the run as it is known in this process, or as its journal tells."""
        run = stream.run
        if self._rng.random() < 0.5:
            return Run.from_json(run.to_json())
        return run_of(parse_trace(dump_trace(Trace(tuple(self._journal)))))

    # What the model says

    def _answer(self, request: JSON) -> Scripted:
        self.requests += 1
        messages = request["messages"]
        self.problems += request_problems(messages)
        if self._config.endpoint.short_call_ids:
            self.problems += _long_ids(messages)
        dice = self._rng.random()
        if dice < 0.06:
            return self._rng.choice((failure(500), failure(429), failure(400), hangs_up()))
        body = json.dumps(self._body(dice)).encode()
        wait = self._rng.choice((0.0, 0.0, 1.0, 20.0))
        return Scripted(200, body, raw(b"").headers, wait)

    def _body(self, dice: float) -> JSON:
        message: JSON = {"role": "assistant", "content": None}
        reason = self._rng.choice(("tool_calls", "tool_calls", "stop", None, "length"))
        if dice < 0.25:
            message["content"] = self._rng.choice(("The end.", "The end.", "", " "))
            reason = "stop"
        elif dice < 0.32:
            call = {"name": self._rng.choice(_NAMES), "arguments": {"n": self._nonce()}}
            message["content"] = f"<tool_call>{json.dumps(call)}</tool_call>"
        elif dice < 0.37:
            fresh = json.dumps({"n": self._nonce()})
            message["function_call"] = {"name": self._rng.choice(_NAMES), "arguments": fresh}
        else:
            calls = [self._call() for _ in range(self._rng.choice((0, 1, 1, 1, 2, 3, 5)))]
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {"id": "r", "model": "m", "choices": [choice]}

    def _call(self) -> JSON:
        rng = self._rng
        if self._made and rng.random() < 0.2:
            return rng.choice(self._made)  # the same call under the same id
        bad = rng.random()
        name = rng.choice(_BAD_NAMES if bad < 0.1 else _NAMES)
        arguments: Any = json.dumps({"n": self._nonce()})
        if 0.1 <= bad < 0.2:
            arguments = rng.choice(_BAD_ARGUMENTS)
        function = {"name": name, "arguments": arguments}
        if rng.random() < 0.3:
            odd = (*_ODD_IDS, "c0", "c1", "call_1")
            return {"id": rng.choice(odd), "type": "function", "function": function}
        call = {"id": f"own-{self._nonces}", "type": "function", "function": function}
        self._made.append(call)
        return call

    def _nonce(self) -> int:
        self._nonces += 1
        return self._nonces

    # What the tools do

    async def _execute(self, name: str, arguments: JSON, *, tool_call_id: str) -> Any:
        self.executions += 1
        if name not in _REPEATABLE:
            self._ran_ids[tool_call_id] += 1
            self._ran_nonces[arguments["n"]] += 1
            if self._ran_ids[tool_call_id] > 1 or self._ran_nonces[arguments["n"]] > 1:
                self.problems.append(f"{name} ran twice: {tool_call_id!r} {arguments}")
        if name == "hidden":
            self.problems.append("a tool ran that is not exposed")
        await asyncio.sleep(self._rng.choice((0, 0, 1, 5)))
        return await self._behave(name)

    async def _behave(self, name: str) -> Any:
        if name == "raise":
            raise self._rng.choice((RuntimeError("internals"), ValueError("bad"), SystemExit(3)))
        if name == "refuse":
            raise ToolError("not today")
        if name == "slow":
            await asyncio.sleep(self._rng.choice((10, 100)))
        if name == "stubborn":
            await _stubborn(self._rng.choice((10, 100)))
        return _HUGE if name == "huge" else {"done": True}


async def _stubborn(seconds: float) -> None:
    """Take no notice of being cancelled."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


def _long_ids(messages: Sequence[JSON]) -> Iterator[str]:
    for message in messages:
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        ids += [message["tool_call_id"]] if message["role"] == "tool" else []
        for each in ids:
            if len(each) != _SHORT_ID or not (each.isascii() and each.isalnum()):
                yield f"an id that Mistral refuses: {each!r}"


def machine(seed: int, number: int) -> Machine:
    """Let one machine live, in virtual time."""
    made = Machine(random.Random(f"{seed}/{number}"))
    try:
        asyncio.run(made.live())
    except Exception as error:  # noqa: BLE001  # told as a problem of this machine
        made.problems.append(f"{type(error).__name__}: {error}")
    return made


def replay(seed: int, number: int) -> list[str]:
    """Make one machine again, and list what is wrong with it."""
    with virtual_time():
        return machine(seed, number).problems


def attempt(size: int, seed: int) -> Outcome:
    """Let so many machines live."""
    failures: list[str] = []
    requests = executions = 0
    for number in range(size):
        # A clock of its own: one that has come far is too coarse for short waits.
        with virtual_time():
            made = machine(seed, number)
            requests += made.requests
            executions += made.executions
            failures += [f"histories.replay({seed}, {number}): {one}" for one in made.problems[:1]]
    figures = f"requests of {size:,} conversations, {executions:,} tool executions"
    ran = "random conversations, interrupted, resumed, and continued; every request is checked"
    return Outcome(ran, requests, gathered(failures), figures=figures)


CLAIM = Claim(
    "D6",
    "Every request answers each call exactly once; no tool runs twice for one call.",
    attempt,
    (1_500, 20_000, 100_000),
    long=True,
)
