"""How long a call may take, what is left running then, and what may not run beside another."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.execution import LeftRunningTools
from surecall.settings.presets import raw
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, ToolCall, ToolResult, ToolSpec
from tests.support.timing import VirtualClock, never

pytestmark = pytest.mark.usefixtures("virtual")

OPEN: JSON = {"type": "object"}


class Slow:
    """A policy that allows everything, and takes its time."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds

    def visible(self, _tool: ToolSpec, _context: Mapping[str, Any]) -> bool:
        return True

    def authorize(self, _call: ToolCall, _context: Mapping[str, Any]) -> Decision:
        self.clock.now += self.seconds
        return Decision("allow")


class Stubborn:
    """A tool that takes no notice of being cancelled until it is let go, but for `quick`."""

    def __init__(self) -> None:
        self.began: list[JSON] = []
        self.let_go = asyncio.Event()

    async def __call__(self, **arguments: Any) -> str:
        self.began.append(arguments)
        while not arguments.get("quick") and not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return "done"


def registry_of(handler: Callable[..., Any], **hints: Any) -> ToolRegistry:
    return ToolRegistry([ToolDefinition("t", parameters=OPEN, handler=handler, **hints)])


def answer(
    handler: Callable[..., Any], longest_s: float | None = None, policy: Slow | None = None
) -> ToolResult:
    """Answer one call, within a time."""
    dispatcher = ToolDispatcher(registry_of(handler), raw(), policy=policy)
    return asyncio.run(dispatcher.answer(ToolCall("a", "t"), longest_s))


def codes(story: Callable[[Stubborn], Awaitable[list[ToolResult]]]) -> list[str | None]:
    """Tell what a stubborn tool's calls came to; what is left of it is let go at the end."""

    async def told() -> list[ToolResult]:
        stubborn = Stubborn()
        try:
            return await story(stubborn)
        finally:
            stubborn.let_go.set()

    return [result.error_codes[0] if result.error_codes else None for result in asyncio.run(told())]


# How long a call may take


def test_what_a_call_took_is_told_in_milliseconds_from_the_moment_it_was_made(
    virtual: VirtualClock,
) -> None:
    async def work() -> None:
        virtual.now += 2.5

    assert answer(work).elapsed_ms == 2500
    assert answer(work, policy=Slow(virtual, 1.5)).elapsed_ms == 4000


def test_the_time_that_a_policy_takes_is_missing_to_the_tool(virtual: VirtualClock) -> None:
    result = answer(never, 4.0, Slow(virtual, 3.0))

    assert result.error_codes == (ErrorCode.TOOL_TIMEOUT,)
    assert "within 1 s" in result.content


def test_a_call_for_which_no_time_is_left_does_not_run() -> None:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    result = answer(work, 0.0)

    assert (result.error_codes, result.executed, ran) == ((ErrorCode.TOOL_TIMEOUT,), False, [])
    assert "The tool did not run" in result.content
    assert answer(work, 0.5).ok
    assert ran == [1]


def test_a_tool_that_was_told_to_stop_and_one_that_goes_on_are_told_apart() -> None:
    async def story(stubborn: Stubborn) -> str:
        dispatcher = ToolDispatcher(registry_of(stubborn), raw())
        result = await dispatcher.answer(ToolCall("a", "t"), 1.0)
        stubborn.let_go.set()
        return result.content

    assert "is still running" in asyncio.run(story(Stubborn()))
    assert "was asked to stop; it may have taken effect" in answer(never, 1.0).content


# What was left running


def test_a_call_that_is_still_at_work_is_not_started_again() -> None:
    async def story(stubborn: Stubborn) -> list[ToolResult]:
        dispatcher = ToolDispatcher(registry_of(stubborn), raw())
        asked: list[JSON] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "quick": True}]
        results = [await dispatcher.answer(ToolCall("x", "t", each), 1.0) for each in asked]
        assert [result.executed for result in results] == [True, False, True]
        assert stubborn.began == [asked[0], asked[2]]
        stubborn.let_go.set()
        await asyncio.sleep(0)
        return [*results, await dispatcher.answer(ToolCall("x", "t", asked[0]), 1.0)]

    assert codes(story) == ["TOOL_TIMEOUT", "TOOL_STILL_RUNNING", None, None]


@pytest.mark.parametrize("hint", ["read_only", "idempotent"])
def test_a_call_that_may_be_repeated_is_started_beside_itself(hint: str) -> None:
    async def story(stubborn: Stubborn) -> list[ToolResult]:
        registry = registry_of(stubborn, **{hint: True})
        dispatcher = ToolDispatcher(registry, raw())
        return [await dispatcher.answer(ToolCall("x", "t"), 1.0) for _ in range(2)]

    assert codes(story) == ["TOOL_TIMEOUT"] * 2


@pytest.mark.parametrize(
    ("run_ids", "second"),
    [(("r", "r"), "TOOL_STILL_RUNNING"), (("r", "other"), "TOOL_TIMEOUT")],
)
def test_what_one_dispatcher_left_running_stops_the_same_call_of_the_same_run_in_another(
    run_ids: tuple[str, str], second: str
) -> None:
    async def story(stubborn: Stubborn) -> list[ToolResult]:
        registry, left = registry_of(stubborn), LeftRunningTools()
        return [
            await ToolDispatcher(registry, raw(), left_running=left, run_id=run_id).answer(
                ToolCall("x", "t"), 1.0
            )
            for run_id in run_ids
        ]

    assert codes(story) == ["TOOL_TIMEOUT", second]


def test_so_many_may_be_left_running_and_no_more() -> None:
    async def story(stubborn: Stubborn) -> list[ToolResult]:
        config = raw(max_tools_left_running=2)
        dispatcher = ToolDispatcher(registry_of(stubborn), config)
        asked = [{"n": 1}, {"n": 2}, {"n": 3}]
        results = [await dispatcher.answer(ToolCall("x", "t", each), 1.0) for each in asked]
        assert stubborn.began == asked[:2]
        assert not results[2].executed
        return results

    assert codes(story) == ["TOOL_TIMEOUT", "TOOL_TIMEOUT", "TOO_MANY_LEFT_RUNNING"]


def test_a_tool_that_has_ended_is_not_left_running() -> None:
    async def story(stubborn: Stubborn) -> list[ToolResult]:
        config = raw(max_tools_left_running=1)
        dispatcher = ToolDispatcher(registry_of(stubborn), config)
        return [await dispatcher.answer(ToolCall("x", "t", {"quick": True})) for _ in range(2)]

    assert codes(story) == [None, None]


# What may run beside another


def test_only_a_tool_that_says_so_must_not_run_beside_itself() -> None:
    tools = [ToolDefinition("one", handler=never, serial=True), ToolDefinition("t", handler=never)]
    dispatcher = ToolDispatcher(ToolRegistry(tools), raw())

    assert dispatcher.is_serial(ToolCall("a", "one")) is True
    assert dispatcher.is_serial(ToolCall("a", "t")) is False
    assert dispatcher.is_serial(ToolCall("a", "unknown")) is False


def test_a_name_that_no_tool_has_is_repeated_up_to_64_characters() -> None:
    dispatcher = ToolDispatcher(ToolRegistry(), raw())
    result = asyncio.run(dispatcher.answer(ToolCall("a", "n" * 1000)))

    assert f"There is no tool '{'n' * 64}'." in result.content
