"""Tests of `surecall.runtime.dispatch`."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, ClassVar

import pytest

from surecall.core.outcome import RunResult, ToolUseError
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.tools.context import Context
from surecall.tools.registry import FilteredToolRegistry, ToolDefinition, ToolRegistry
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError, ErrorCode, ToolError
from surecall.values.types import JSON, ToolCall, ToolResult, ToolSpec
from tests.support.spec import proves
from tests.support.timing import never

# Tools at work: what they may be, what they may raise, who may stop them, and what is told


FORBIDDEN = "postgres://root:secret@db"


def run(
    function: Callable[..., Any] | None = None, *, script: JSON | None = None, **settings: Any
) -> RunResult:
    """Let a model call the tool `t` once; it is run by its handler, or by an executor."""
    registry = ToolRegistry([ToolDefinition("t", handler=function)])
    model = ScriptedModel(script or calls("t", "id_1"), says("done"))
    names = {"executor", "tool_policy"}
    config = raw(**{key: settings[key] for key in settings.keys() - names})
    given = {key: settings[key] for key in settings.keys() & names}
    runner = ToolLoopRunner(client=model, model="m", registry=registry, config=config, **given)
    return asyncio.run(runner.run("go", context={"user": "kim"}))


def answer(function: Callable[..., Any] | None = None, **settings: Any) -> ToolResult:
    return run(function, **settings).run.results[0]


# What tools return


@proves("C42")
@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": 1}, {"a": 1}),
        ("text", {"value": "text"}),
        (None, {}),
        ([1], {"value": [1]}),
        (False, {"value": False}),
        ({}, {}),
    ],
)
def test_what_a_tool_returns_becomes_an_envelope_with_data(value: Any, data: JSON) -> None:
    for result in (answer(lambda: value), answer(executor=lambda _name, _arguments: value)):
        assert result.ok
        assert result.envelope["data"] == data


@proves("C46")
@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda: {"ok": True},
        lambda: {"ok": False, "errors": "bad"},
        lambda: {"ok": True, "data": 5, "warnings": None, "errors": None, "tool_name": None},
        lambda: 1 / 0,
        object,
        lambda: "x" * 300_000,
    ],
)
def test_an_envelope_always_has_the_same_five_keys(function: Callable[..., Any]) -> None:
    envelope = answer(function).envelope

    assert list(envelope) == ["ok", "tool_name", "data", "warnings", "errors"]
    assert envelope["tool_name"] == "t"
    assert [type(value) for value in envelope.values()] == [bool, str, dict, list, list]


# What tools raise


def raises(error: BaseException) -> Callable[[], None]:
    def handler() -> None:
        raise error

    return handler


def raises_later(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def handler() -> None:
        await asyncio.sleep(0)
        raise error

    return handler


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("speechless")


class MuteValue(Mute, ValueError):
    pass


@proves("C44")
@pytest.mark.parametrize("wrap", [raises, raises_later])
@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ValueError("n must be even"), "ARGUMENT_ERROR", "n must be even"),
        (RuntimeError(FORBIDDEN), "INTERNAL_ERROR", "The tool itself failed"),
        (TypeError(FORBIDDEN), "INTERNAL_ERROR", "The tool itself failed"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, FORBIDDEN), "INTERNAL_ERROR", "itself failed"),
        (TimeoutError(FORBIDDEN), "TOOL_TIMEOUT", "it may have taken effect"),
        (StopIteration(FORBIDDEN), "INTERNAL_ERROR", "The tool itself failed"),
        (ToolError("Try Monday."), "ARGUMENT_ERROR", "Try Monday."),
        (ToolError("Sold out.", code="OUT_OF_STOCK"), "OUT_OF_STOCK", "Sold out."),
        (ValueError("half \ud800"), "ARGUMENT_ERROR", "half \ufffd"),
        (Mute(), "INTERNAL_ERROR", "The tool itself failed"),
        (MuteValue(), "ARGUMENT_ERROR", "(no message)"),
    ],
)
def test_what_a_tool_raises_is_told_without_its_insides(
    wrap: Callable[[BaseException], Any], error: Exception, code: str, told: str
) -> None:
    result = answer(wrap(error))

    assert result.executed
    assert result.error_codes == (code,)
    assert told in result.envelope["errors"][0]["message"]
    assert FORBIDDEN not in result.content
    assert not isinstance(error, RuntimeError) or FORBIDDEN in (result.detail or "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SystemExit(3), ErrorCode.INTERNAL_ERROR),
        (KeyboardInterrupt(), ErrorCode.INTERNAL_ERROR),
        (GeneratorExit(), ErrorCode.INTERNAL_ERROR),
        (asyncio.CancelledError(), ErrorCode.TOOL_TIMEOUT),
    ],
)
def test_a_tool_in_its_thread_cannot_end_the_program(error: BaseException, code: ErrorCode) -> None:
    result = run(raises(error))

    assert result.assistant_text == "done"
    assert result.run.results[0].error_codes == (code,)
    assert type(error).__name__ in str(result.run.results[0].detail)


def test_a_tool_that_cancels_something_of_its_own_does_not_cancel_the_run() -> None:
    async def handler() -> None:
        inner = asyncio.create_task(never())
        inner.cancel()
        await inner

    assert answer(handler).error_codes == (ErrorCode.TOOL_TIMEOUT,)


def test_a_run_that_is_cancelled_ends_while_its_tool_works() -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def handler() -> None:
            begun.set()
            await never()

        registry = ToolRegistry([ToolDefinition("t", handler=handler)])
        runner = ToolLoopRunner(client=ScriptedModel(calls("t")), model="m", registry=registry)
        running = asyncio.create_task(runner.run("go"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())


def test_a_long_message_is_cut() -> None:
    result = answer(raises(ValueError("x" * 1_000_000)))

    assert len(result.content) < 700
    assert len(result.detail or "") < 2_100


# How tools are called


def test_a_coroutine_from_a_plain_function_is_awaited() -> None:
    async def later() -> int:
        await asyncio.sleep(0)
        return 5

    assert answer(lambda: later()).envelope["data"] == {"value": 5}  # noqa: PLW0108  # the point


def test_plain_functions_run_in_a_thread_with_the_callers_context_and_async_ones_do_not() -> None:
    name = contextvars.ContextVar("name", default="nobody")
    seen: list[tuple[bool, str]] = []

    def note() -> None:
        seen.append((threading.current_thread() is threading.main_thread(), name.get()))

    async def note_soon() -> None:
        note()

    name.set("kim")
    answer(note)
    answer(note_soon)
    assert seen == [(False, "kim"), (True, "kim")]


def test_a_tool_that_changes_its_arguments_does_not_change_the_transcript() -> None:
    def spoil(_name: str, arguments: JSON) -> None:
        arguments["found"].append("spoilt")
        arguments.clear()

    def spoil_one(found: list[Any]) -> None:
        found.append("spoilt")

    script = calls("t", found=[1])
    for result in (run(executor=spoil, script=script), run(spoil_one, script=script)):
        assert result.run.replies[0].calls[0].arguments == {"found": [1]}


@proves("C45")
@pytest.mark.parametrize("mode", ["relaxed", "enforced"])
def test_an_executor_that_takes_the_call_id_gets_it_and_one_that_does_not_still_works(
    mode: str,
) -> None:
    seen: list[Any] = []

    def by_name(name: str, arguments: JSON, tool_call_id: str = "?") -> None:
        seen.append((name, arguments, tool_call_id))

    def by_any_name(name: str, arguments: JSON, **more: str) -> None:
        seen.append((name, arguments, more["tool_call_id"]))

    async def without(name: str, arguments: JSON) -> None:
        seen.append((name, arguments, None))

    for executor in (by_name, by_any_name, without):
        assert answer(executor=executor, tool_use_mode=mode).ok
    assert seen == [("t", {}, "id_1"), ("t", {}, "id_1"), ("t", {}, None)]


def test_an_executor_whose_signature_does_not_fit_is_called_without_the_id() -> None:
    class Opaque:
        """A callable that does not say what it takes."""

        __signature__: ClassVar[str] = "secret"

        def __call__(self, name: str, arguments: JSON) -> str:
            return f"{name} {arguments}"

    def by_position(name: str, arguments: JSON, tool_call_id: str = "?", /) -> str:
        return f"{name} {arguments} {tool_call_id}"

    assert answer(executor=Opaque()).envelope["data"] == {"value": "t {}"}
    assert answer(executor=by_position).envelope["data"] == {"value": "t {} ?"}


def test_a_handler_comes_before_the_executor() -> None:
    result = answer(lambda: "handler", executor=lambda _name, _arguments: "executor")
    assert result.envelope["data"] == {"value": "handler"}


def test_a_tool_that_nothing_can_run_is_the_callers_error() -> None:
    dispatcher = ToolDispatcher(ToolRegistry([ToolDefinition("t")]), raw())
    with pytest.raises(ConfigError, match="give it a handler, or the dispatcher an executor"):
        asyncio.run(dispatcher.execute("t", {}))


def test_a_call_that_another_registry_judged_does_not_run_here() -> None:
    ran: list[int] = []
    registry = ToolRegistry([ToolDefinition("t", handler=lambda: ran.append(1))])
    dispatcher = ToolDispatcher(FilteredToolRegistry(registry, []), raw())
    result = asyncio.run(dispatcher.answer(ToolCall("a", "t")))

    assert result.error_codes == (ErrorCode.TOOL_NOT_ALLOWED,)
    assert not result.executed
    assert ran == []


def test_arguments_that_do_not_convert_are_refused_before_the_tool_runs() -> None:
    def handler(pair: tuple[int, int]) -> None:
        raise AssertionError(pair)

    registry = ToolRegistry([ToolDefinition("t", parameters={}, handler=handler)])
    dispatcher = ToolDispatcher(registry, raw())
    for arguments in ({"pair": [1]}, {"other": 1}):
        result = asyncio.run(dispatcher.execute("t", arguments))
        assert result.error_codes == (ErrorCode.ARGUMENT_ERROR,)
        assert not result.executed


RELEASE = threading.Event()


@pytest.fixture(name="_released")
def released_fixture() -> Iterator[None]:
    """End the threads of tools that block."""
    yield
    RELEASE.set()


@pytest.mark.usefixtures("_released")
@pytest.mark.parametrize("handler", [RELEASE.wait, never])
def test_a_tool_has_the_shortest_of_its_limits(handler: Callable[[], Any]) -> None:
    tight = ToolDefinition("t", handler=handler, timeout_s=0.01)
    loose = ToolDefinition("t", handler=handler)
    short = raw(tool_timeout_s=0.01)
    for definition, config, longest in (
        (tight, raw(), None),
        (loose, short, None),
        (loose, raw(), 0.01),
    ):
        dispatcher = ToolDispatcher(ToolRegistry([definition]), config)
        result = asyncio.run(dispatcher.answer(ToolCall("a", "t"), longest))
        assert result.error_codes == (ErrorCode.TOOL_TIMEOUT,)
        assert "0.01 s" in result.content


# Who may stop them


class Policy:
    """Answers every question in one way: with a decision, an awaitable of one, or an error."""

    def __init__(self, says: Any) -> None:
        self._says = says
        self.asked: list[Any] = []

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        self.asked.append((tool.name, context))
        return True

    def authorize(self, call: ToolCall, context: Mapping[str, Any]) -> Any:
        self.asked.append((call.id, context))
        if isinstance(self._says, Exception):
            raise self._says
        return self._says() if callable(self._says) else self._says


async def later() -> Decision:
    await asyncio.sleep(0)
    return Decision("deny", "not today")


@pytest.mark.parametrize(
    ("verdict", "code", "told"),
    [
        (Decision("allow"), None, ""),
        (Decision("deny", "not today"), "TOOL_POLICY_DENIED", "not today"),
        (later, "TOOL_POLICY_DENIED", "not today"),
        (Decision("perhaps"), "TOOL_POLICY_DENIED", "not permitted"),  # type: ignore[arg-type]
        (Decision("deny", object()), "TOOL_POLICY_DENIED", "not permitted"),  # type: ignore[arg-type]
        (None, "TOOL_POLICY_ERROR", "could not be checked"),
        (RuntimeError(FORBIDDEN), "TOOL_POLICY_ERROR", "could not be checked"),
    ],
)
def test_a_policy_has_the_last_word_and_fails_closed(
    verdict: Any, code: str | None, told: str
) -> None:
    ran: list[int] = []
    policy = Policy(verdict)
    result = answer(lambda: ran.append(1), tool_policy=policy)

    assert result.error_codes == (() if code is None else (code,))
    assert (result.executed, bool(ran)) == (code is None, code is None)
    assert told in result.content
    assert FORBIDDEN not in result.content
    assert policy.asked == [("t", {"user": "kim"}), ("id_1", {"user": "kim"})]


def test_a_policy_error_can_be_waved_through_or_end_the_run() -> None:
    broken = Policy(RuntimeError("down"))

    assert answer(lambda: 1, tool_policy=broken, policy_error_mode="allow").ok
    with pytest.raises(ToolUseError) as failed:
        run(lambda: 1, tool_policy=broken, policy_error_mode="raise")
    assert failed.value.code is ErrorCode.POLICY_ERROR


def test_a_policy_that_never_decides_is_bounded_by_the_run() -> None:
    registry = ToolRegistry([ToolDefinition("t", handler=lambda: 1)])
    policy = Policy(never)
    dispatcher = ToolDispatcher(registry, raw(), policy=policy)
    result = asyncio.run(dispatcher.answer(ToolCall("a", "t"), 0.01))

    assert result.error_codes == (ErrorCode.TOOL_POLICY_ERROR,)


# The application's own code at the border: what an executor takes, and what a tool returns


INSIDE = "postgres://root:secret@db"


def foreign_answer(executor: Callable[..., Any]) -> ToolResult:
    """Let an executor answer one call of a run that has a context."""
    registry = ToolRegistry([ToolDefinition("t")])
    dispatcher = ToolDispatcher(registry, raw(), executor=executor, context={"user": "kim"})
    return asyncio.run(dispatcher.answer(ToolCall("a", "t")))


def test_an_executor_takes_the_context_in_any_place_after_the_name_and_the_arguments() -> None:
    def third(name: str, arguments: JSON, context: Context) -> str:
        return f"{name} {arguments} {context['user']}"

    def fourth(name: str, arguments: JSON, tool_call_id: str, context: Context) -> str:
        return f"{name} {arguments} {tool_call_id} {context['user']}"

    def by_keyword(name: str, arguments: JSON, *, context: Context) -> str:
        return f"{name} {arguments} {context['user']}"

    assert foreign_answer(third).envelope["data"] == {"value": "t {} kim"}
    assert foreign_answer(fourth).envelope["data"] == {"value": "t {} a kim"}
    assert foreign_answer(by_keyword).envelope["data"] == {"value": "t {} kim"}


def test_an_executor_that_wants_the_context_in_the_place_of_the_others_is_refused() -> None:
    def first(context: Context, name: str, arguments: JSON) -> None:
        raise AssertionError(context, name, arguments)

    def second(name: str, context: Context, arguments: JSON) -> None:
        raise AssertionError(context, name, arguments)

    for executor in (first, second):
        with pytest.raises(ConfigError, match="put `context: Context` after them"):
            foreign_answer(executor)


class Rude(Mapping[str, Any]):
    """A mapping that leaves when it is looked into."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getitem__(self, key: str) -> Any:
        raise self._error

    def __iter__(self) -> Iterator[str]:
        raise self._error

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    "error", [RuntimeError(INSIDE), KeyError(INSIDE), SystemExit(INSIDE), GeneratorExit(INSIDE)]
)
def test_a_result_that_cannot_be_looked_into_is_told_as_one_of_a_tool_that_ran(
    error: BaseException,
) -> None:
    result = foreign_answer(lambda _name, _arguments: Rude(error))

    assert result.error_codes == (ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,)
    assert result.executed
    assert result.envelope["data"] == {"executed": True, "error_class": type(error).__name__}
    assert INSIDE not in result.content
    assert result.detail is not None
    assert INSIDE in result.detail
