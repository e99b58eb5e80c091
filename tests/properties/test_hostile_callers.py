"""What strangers do to a run: observers, policies, forks, crashes, odd clients and odd callers."""

import asyncio
import pickle
import subprocess
import sys
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from surecall import (
    ConfigError,
    Decision,
    ErrorCode,
    Fault,
    JsonlSink,
    OpenAICompatible,
    ProviderError,
    ReplayDiverged,
    RequestFailed,
    RetryPolicy,
    RunFailed,
    ToolLoopRunner,
    Trace,
    load_trace,
    presets,
    replay,
    run_of,
    tool,
)
from surecall.testing import Item, ScriptedModel, ScriptedProvider, calls, failure, raw, says
from surecall.values.events import Event, LlmRequestEndEvent, ToolCallStartEvent
from surecall.values.types import ToolCall, ToolSpec
from tests.support.timing import PATIENCE_S

ONCE = RetryPolicy(attempts=1)


class Echo:
    """A tool that remembers what it was called with."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def echo(self, word: str) -> str:
        """Say it again."""
        self.seen.append(word)
        return word

    def runner(self, *script: Item, **settings: Any) -> ToolLoopRunner:
        given: dict[str, Any] = {
            "registry": [self.echo],
            "retry": ONCE,
            "config": presets.raw(),
        } | settings
        return ToolLoopRunner(client=ScriptedModel(*script), model="m", **given)


SCRIPT = (calls("echo", word="secret"), says("ok"))


def test_an_observer_cannot_change_what_a_tool_runs_with_or_what_was_said() -> None:
    def meddle(event: Event) -> None:
        if isinstance(event, ToolCallStartEvent):
            event.call.arguments["word"] = "***"
        if isinstance(event, LlmRequestEndEvent):
            for call in event.reply.calls:
                call.arguments["word"] = "###"

    echo = Echo()
    runner = echo.runner(*SCRIPT, observers=[meddle])
    result = asyncio.run(runner.run("hi"))

    assert echo.seen == ["secret"]
    assert b"***" not in result.run.to_json()
    assert b"###" not in result.run.to_json()


def test_a_policy_cannot_change_what_was_said() -> None:
    class Meddler:
        def visible(self, _tool: ToolSpec, _context: object) -> bool:
            return True

        def authorize(self, call: ToolCall, _context: object) -> Decision:
            call.arguments["word"] = "sandbox"
            return Decision("allow")

    echo = Echo()
    result = asyncio.run(echo.runner(*SCRIPT, tool_policy=Meddler()).run("hi"))

    assert echo.seen == ["secret"]
    assert replay(result.trace).run == result.run


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_an_async_tool_that_raises_to_the_heavens_is_a_failed_tool(
    kind: type[BaseException],
) -> None:
    async def bye() -> None:
        """Leave."""
        raise kind

    runner = ToolLoopRunner(
        client=ScriptedModel(*[calls("bye"), says("ok")] * 2), model="m", registry=[bye]
    )
    for _ in range(2):
        result = runner.run_sync("hi")
        (code,) = result.run.results[0].error_codes
        # A tool that was cancelled does not know whether it took effect.
        is_cancelled = kind is asyncio.CancelledError
        assert code == (ErrorCode.TOOL_TIMEOUT if is_cancelled else ErrorCode.INTERNAL_ERROR)
    runner.close()


FORKED = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from surecall import ToolLoopRunner
from surecall.testing import ScriptedModel, calls, says
def f(x: int) -> int:
    "d"
    return x
r = ToolLoopRunner(client=ScriptedModel(*[calls("f", x=1), says("fine")] * 4), model="m",
                   registry=[f], config={"tool_timeout_s": 300})
def go():
    a = r.run_sync("hi"); b = asyncio.run(r.run("hi"))
    return a.run.results[0].ok and b.run.results[0].ok
assert go()
child = os.fork()
if child == 0:
    os._exit(0 if go() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.processes
def test_a_runner_that_was_used_works_after_a_fork() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKED], timeout=PATIENCE_S, check=False)

    assert ran.returncode == 0


def test_a_client_that_cannot_be_opened_says_so() -> None:
    class Shut(ScriptedModel):
        def opened(self) -> AbstractAsyncContextManager[None]:
            @asynccontextmanager
            async def shut() -> Any:
                raise OSError("no way in")
                yield

            return shut()

    with pytest.raises(OSError, match="no way in"):
        ToolLoopRunner(client=Shut(), model="m").run_sync("hi")


def test_the_value_of_a_header_is_a_secret_too() -> None:
    key = "hdr-Secret-9876543210abc"
    answers = (failure(401, {"error": {"message": f"bad key {key}"}}), says(f"It is {key}."))
    with ScriptedProvider(*answers) as provider:
        client = OpenAICompatible(provider.url, headers={"X-Api-Key": key})
        runner = ToolLoopRunner(client=client, model="m")
        with pytest.raises(RequestFailed) as failed:
            asyncio.run(runner.run("hi"))
        result = asyncio.run(runner.run("hi"))

    assert key not in str(failed.value)
    assert key not in result.assistant_text


def test_a_crash_in_the_middle_of_a_line_does_not_spoil_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    sink = JsonlSink(path)
    asyncio.run(Echo().runner(says("one"), observers=[sink]).run("hi"))
    path.write_bytes(path.read_bytes()[:-20])
    result = asyncio.run(Echo().runner(says("two"), observers=[sink]).run("hi"))

    assert replay(load_trace(path, result.run.run_id)).assistant_text == "two"


def test_of_a_resumed_run_the_newest_part_is_read_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    runner = Echo().runner(SCRIPT[0], failure(401), says("fine"), observers=[JsonlSink(path)])
    with pytest.raises(RunFailed) as failed:
        asyncio.run(runner.run("hi"))
    result = runner.resume_sync(failed.value.result.run)
    runner.close()

    assert replay(load_trace(path)).run == result.run
    both = Trace((*failed.value.result.trace.events, *result.trace.events))
    with pytest.raises(ReplayDiverged, match="continues after the run has ended"):
        replay(both)


@pytest.mark.parametrize("length", range(1, 9))
def test_a_run_is_taken_up_from_whatever_a_crash_left_of_its_trace(length: int) -> None:
    echo = Echo()
    whole = asyncio.run(echo.runner(*SCRIPT).run("hi"))
    run = run_of(Trace(whole.trace.events[:length]))

    left = SCRIPT[1:] if any(call for said in run.replies for call in said.calls) else SCRIPT
    done = Echo().runner(*left).resume_sync(run)

    assert done.assistant_text == "ok"
    assert whole.run.messages[: len(run.messages)] == run.messages


def test_errors_travel_between_processes() -> None:
    fault = Fault(ErrorCode.AUTH, "no", 401)
    errors: list[Exception] = [ReplayDiverged(3, "another way"), ProviderError(fault)]
    for script in ([failure(401)], [says(""), says("")], [says(""), says("")]):
        with pytest.raises(RunFailed) as failed:
            asyncio.run(Echo().runner(*script).run("hi"))
        errors.append(failed.value)

    for error in errors:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
        assert (type(copy), str(copy)) == (type(error), str(error))


@pytest.mark.usefixtures("virtual")
def test_a_wait_beyond_the_deadline_is_not_waited_for() -> None:
    busy = failure(429, headers={"Retry-After": "60"})
    runner = ToolLoopRunner(client=ScriptedModel(busy), model="m", config={"run_deadline_s": 5.0})
    with pytest.raises(RequestFailed, match="Retry after 60 s") as failed:
        asyncio.run(runner.run("hi"))
    assert failed.value.code is ErrorCode.RATE_LIMIT


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_an_answer_with_numbers_that_json_does_not_know_replays(
    number: str, tmp_path: Path
) -> None:
    body = '{"choices":[{"message":{"content":"x","score":' + number + "}}]}"
    sink = JsonlSink(tmp_path / "t.jsonl")
    asyncio.run(Echo().runner(raw(body.encode()), observers=[sink]).run("hi"))

    assert replay(load_trace(tmp_path / "t.jsonl")).assistant_text == "x"


class Broken:
    """Nothing can be said about it."""

    def __str__(self) -> str:
        raise RuntimeError("unspeakable")


def test_context_that_cannot_be_printed_is_named() -> None:
    runner = Echo().runner(says("ok"), config={"event_context_keys": ["user"]})
    result = asyncio.run(runner.run("hi", context={"user": Broken()}))

    assert result.trace[0].context == {"user": "(Broken)"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": None}, "model is blank"),
        ({"observers": [asyncio.sleep]}, "an observer must be a plain function"),
        ({"config": [1]}, "a mapping such as"),
        ({"registry": [5]}, "a tool must be"),
    ],
)
def test_a_runner_that_cannot_work_is_refused_in_one_sentence(
    settings: dict[str, Any], sentence: str
) -> None:
    given: dict[str, Any] = {"client": ScriptedModel(), "model": "m"} | settings
    with pytest.raises(ConfigError, match=sentence):
        ToolLoopRunner(**given)


@pytest.mark.parametrize(
    ("words", "history"), [(5, ()), (b"hi", ()), ("hi", "abc"), ("hi", {"role": "user"}), ("hi", 5)]
)
def test_words_and_history_of_the_wrong_kind_are_refused(words: Any, history: Any) -> None:
    with pytest.raises(ConfigError):
        asyncio.run(Echo().runner().run(words, history=history))


@tool
def picky(word: str) -> str:
    """Find fault."""
    if word == "config":
        raise ConfigError("api_key file /etc/secret is blank")
    import json  # noqa: PLC0415  # the tool's own business

    return str(json.loads("{"))


@pytest.mark.parametrize("word", ["config", "json"])
def test_value_errors_that_are_not_about_the_arguments_are_not_shown(word: str) -> None:
    runner = ToolLoopRunner(
        client=ScriptedModel(calls("picky", word=word), says("ok")), model="m", registry=[picky]
    )
    (answer,) = asyncio.run(runner.run("hi")).run.results

    assert answer.error_codes == (ErrorCode.INTERNAL_ERROR,)
    assert "secret" not in answer.content


def test_many_minted_ids_are_found_in_linear_time() -> None:
    names = [f"tc_{number}" for number in range(100, 600)] + [""] * 500
    script = calls("echo", word="a")
    message = script["choices"][0]["message"]
    message["tool_calls"] = [message["tool_calls"][0] | {"id": name} for name in names]
    runner = Echo().runner(script, says("ok"), config={"max_tool_calls_per_turn": 1})

    ids = [item.id for item in asyncio.run(runner.run("x")).run.replies[0].calls]

    assert len(set(ids)) == len(ids) == 1000
