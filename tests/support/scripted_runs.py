"""Scripted runs: to their end, watched as they stream, or given up by the client."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

import pytest

from surecall import (
    Limits,
    OpenAICompatible,
    RetryPolicy,
    Run,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    tool,
)
from surecall.core.streaming import TextWithdrawn
from surecall.parsing.names import is_legal_name
from surecall.runtime.run_stream import LiveEvent
from surecall.runtime.transport import Client, Incoming
from surecall.settings.presets import RAW
from surecall.simulator.server import Simulator
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.testing import Item, Scripted, ScriptedModel, calls, calls_many, says, streams
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import RunFailedEvent
from surecall.values.types import JSON, HttpResponse
from surecall.wire.assembler import TextDelta
from tests.support.timing import PATIENCE_S, never, until_soon
from tests.support.tools import add as add_numbers

# Scripts of a model, run to their end with three tools: one adds, one fails, one is hidden


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool
async def fail() -> None:
    """Fail."""
    raise RuntimeError("internals")


@tool(exposed_to_model=False)
async def hidden() -> None:
    """Never to be called."""
    raise AssertionError("a hidden tool ran")


REGISTRY = ToolRegistry([add, fail, hidden])


def result_of(script: list[Any], config: ToolCallingConfig) -> tuple[RunResult, ScriptedModel]:
    """Run a script to its end, happy or not; the script ends with a plain answer."""
    model = ScriptedModel(*script, *[says("The end.")] * 8)
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=REGISTRY,
        config=config,
        system="Be brief.",
        retry=RetryPolicy(attempts=1),
    )
    try:
        return asyncio.run(runner.run("Go on.")), model
    except RunFailed as error:
        return error.result, model


def by_approval_id(run: Run, decisions: Mapping[str, Any]) -> dict[str, Any]:
    """Key decisions by the approval ids of calls; an id that no call has stays."""
    ids = {call.call_id: call.id for call in run.waiting}
    return {ids.get(call_id, call_id): made for call_id, made in decisions.items()}


# Runs with one tool that looks around, to their end or to their failure


@tool
def look(place: str = "") -> str:
    """Look around."""
    if place == "nowhere":
        raise ValueError("there is no such place")
    return f"nothing at {place}"


def ran(*script: Item, config: ToolCallingConfig = RAW, **settings: Any) -> RunResult:
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=ToolRegistry([look]),
        config=config,
        retry=RetryPolicy(attempts=2, first_wait_s=0.0),
        **settings,
    )
    return asyncio.run(runner.run("hi"))


def failed(*script: Item, **settings: Any) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        ran(*script, **settings)
    return caught.value


# Whole runs with tools that write down each time they run, plain or streamed


_PIECE_BYTES = 64
_ENDS = 8
THE_END = "All done."


class Recorded:
    """The tools of a registry, with handlers of their own that keep what they were given."""

    def __init__(self, tools: ToolRegistry, results: dict[str, Any]) -> None:
        self.ran: list[tuple[str, JSON]] = []
        self._results = results
        self.registry = ToolRegistry([self._recorded(each) for each in tools.definitions])

    def _recorded(self, tool: ToolDefinition) -> ToolDefinition:
        def handler(**arguments: Any) -> Any:
            self.ran.append((tool.name, arguments))
            return self._results.get(tool.name, "done")

        return ToolDefinition(
            tool.name, tool.spec.description, parameters=tool.spec.parameters, handler=handler
        )

    async def run(
        self, asked: str, script: Sequence[JSON], config: ToolCallingConfig, *, streamed: bool
    ) -> RunResult:
        """Let a model say what is in the script, and then end."""
        items = [*script, *[says(THE_END)] * _ENDS]
        model = ScriptedModel(
            *(streams(item, _PIECE_BYTES) if streamed else item for item in items)
        )
        retry = RetryPolicy(attempts=1)
        runner = ToolLoopRunner(
            client=model, model="m", registry=self.registry, config=config, retry=retry
        )
        if not streamed:
            return await runner.run(asked)
        stream = runner.stream(asked)
        async for _ in stream:
            pass
        return stream.result


# How tests watch a streamed run


QUICK = RetryPolicy(first_wait_s=0.001, longest_wait_s=0.002)
HEALING = presets.default_tool_calling()
PIECE = 7


def runner_of(client: Client, **settings: Any) -> ToolLoopRunner:
    given: dict[str, Any] = {"config": HEALING, "registry": [add_numbers], "retry": QUICK}
    return ToolLoopRunner(client=client, model="m", **given | settings)


def watched(client: Client, **settings: Any) -> list[LiveEvent]:
    """Watch a run to its end; a run that fails has told so in its last event."""

    async def watch() -> list[LiveEvent]:
        events: list[LiveEvent] = []
        try:
            async for event in runner_of(client, **settings).stream("1 + 2?"):
                events.append(event)  # noqa: PERF401  # kept when the run fails
        except RunFailed:
            assert isinstance(events[-1], RunFailedEvent)
        return events

    return asyncio.run(watch())


def shown(events: list[LiveEvent]) -> str:
    """Return what a screen shows in the end."""
    text = ""
    for event in events:
        if isinstance(event, TextWithdrawn):
            assert text.endswith(event.text)
            text = text.removesuffix(event.text)
        elif isinstance(event, TextDelta):
            text += event.text
    return text


def script(*replies: Item, piece_bytes: int = PIECE) -> list[Item]:
    return [streams(item, piece_bytes) if isinstance(item, dict) else item for item in replies]


# A client that gives up on the simulator when it has fallen silent, and never before.
# A short limit on silence would also strike where an answer is only late, as on a busy machine.
# That a limit strikes is shown by the tests of the transport; here it strikes at the right moment.


T = TypeVar("T")
PATIENT: Final = Limits(idle_s=PATIENCE_S, total_s=PATIENCE_S)
_LATE: Final = Fault(ErrorCode.TIMEOUT, "Idle timeout: nothing came.", retryable=True)


class GivesUp(OpenAICompatible):
    """Waits for every answer, but not for those that the simulator spoils with one fault."""

    def __init__(self, simulator: Simulator, fault: str) -> None:
        super().__init__(simulator.url, limits=PATIENT)
        self._simulator = simulator
        self._fault = fault

    @property
    def _played(self) -> int:
        return self._simulator.faults[self._fault]

    async def send(self, body: bytes) -> HttpResponse:
        return await self._begun_by(super().send(body))

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        before = self._played
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(super().stream(body))
            # Where there will be a head, silence begins later.
            has_head = TRANSPORT_FAULTS[self._fault].sent_share > 0
            incoming = await (opening if has_head else self._begun_by(opening))
            spoiled = self._played > before
            chunks = _first_alone(incoming.chunks) if spoiled else incoming.chunks
            yield incoming._replace(chunks=chunks)

    async def _begun_by(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the beginning of an answer, unless there will be none."""
        before = self._played
        working = asyncio.create_task(work)
        await until_soon(lambda: working.done() or self._played > before)
        if working.done():
            return await working
        working.cancel()
        await asyncio.wait([working])
        raise ProviderError(_LATE)


async def _first_alone(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield await anext(chunks)
    raise ProviderError(_LATE)


def assert_legal(request: dict[str, Any]) -> None:
    """Check a request as the strictest provider would."""
    seen: set[str] = set()
    waiting: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"], "answered in order, at once"
            assert isinstance(message["content"], str)
            continue
        assert not waiting, "every call is answered before anybody else speaks"
        for call in message.get("tool_calls", ()):
            assert call["id"]
            assert call["id"] not in seen, "ids are unique in the conversation"
            seen.add(call["id"])
            waiting.append(call["id"])
            assert is_legal_name(call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert message.get("tool_calls") or message["content"], "nothing empty is sent"
    assert not waiting
    assert ("tools" in request) == ("tool_choice" in request)
    assert "tools" in request or "parallel_tool_calls" not in request


PARALLEL: JSON = {"request_overrides": {"parallel_tool_calls": True}}


def many_calls(name: str, count: int, **arguments: Any) -> JSON:
    return calls_many(*(calls(name, number=number, **arguments) for number in range(count)))


@tool(name="sleep", timeout_s=0.01, repeatable=True)
async def SLEEP() -> None:  # noqa: N802  # a tool, like the others below
    """Sleep for longer than anybody waits."""
    await never()


def parallel_runner(model: ScriptedModel, *tools: Any, **config: Any) -> ToolLoopRunner:
    registry = ToolRegistry(tools)
    return ToolLoopRunner(client=model, model="m", registry=registry, config=PARALLEL | config)


def call_ids(result: RunResult) -> list[str]:
    return [item.call_id for item in result.run.results]


TOKEN_LIMIT = 300
_CHARS_PER_TOKEN = 4
_MARK = "What arrived:\n"
# An argument of 2,000 tokens, with characters that JSON escapes.
LONG_ARGUMENTS = json.dumps(
    {"value": '"quoted"\n' + " ".join(str(at * at) for at in range(1_300))[:8_000] + "\\"}
)


class LimitedModel:
    """Writes one long argument, natively or as text, and stops at its token limit."""

    def __init__(
        self, *, as_text: bool = False, chars: int = TOKEN_LIMIT * _CHARS_PER_TOKEN
    ) -> None:
        written = f'<tool_call>\n{{"name": "put", "arguments": {LONG_ARGUMENTS}}}\n</tool_call>'
        self.whole = written if as_text else LONG_ARGUMENTS
        self.chars, self.as_text = chars, as_text
        self.requests: list[JSON] = []

    def __call__(self, request: JSON) -> JSON | Scripted:
        self.requests.append(request)
        reply = self.reply(request)
        return streams(reply) if request.get("stream") else reply

    def reply(self, request: JSON) -> JSON:
        last = request["messages"][-1]["content"]
        if '"ok":true' in last:
            return completion_of({"content": "Done."}, "stop")
        if "What arrived:" in last:
            return self.continued(json.loads(last)["errors"][0]["message"].partition(_MARK)[2])
        limit = self.chars * 4 if request.get("max_tokens") == 4 * TOKEN_LIMIT else self.chars
        return self.said(self.whole[:limit], native=not self.as_text, cut=limit < len(self.whole))

    def continued(self, so_far: str) -> JSON:
        rest = so_far[-40:] + self.whole[len(so_far) :]
        return self.said(rest[: self.chars], native=False, cut=len(rest) > self.chars)

    def said(self, text: str, *, native: bool, cut: bool) -> JSON:
        reason = "length" if cut else "tool_calls" if native else "stop"
        if not native:
            return completion_of({"content": text}, reason)
        function = {"name": "put", "arguments": text}
        call = {"id": "call_1", "type": "function", "function": function}
        return completion_of({"content": None, "tool_calls": [call]}, reason)


def completion_of(message: JSON, reason: str) -> JSON:
    choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": reason}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return head | {"choices": [choice]}
