"""What the runs of one runner share: the thread of blocking ones, and tools left running."""

import asyncio
import threading

from surecall.runtime.runner import ToolLoopRunner
from surecall.testing import ScriptedModel, calls, says
from tests.support.patience import until


def test_blocking_runs_share_one_thread_until_it_is_closed() -> None:
    sessions = ToolLoopRunner(client=ScriptedModel(), model="m")._sessions
    first = sessions.thread()
    assert sessions.thread() is first

    sessions.close()
    second = sessions.thread()
    assert second is not first
    assert (first.alive, second.alive) == (False, True)
    sessions.close()


def test_a_tool_that_one_run_left_running_takes_a_place_in_the_next() -> None:
    gate, ended = threading.Event(), list[str]()

    def block(name: str) -> None:
        """Block until the gate opens."""
        gate.wait()
        ended.append(name)

    runner = ToolLoopRunner(
        client=ScriptedModel(
            calls("block", name="a"), says("one"), calls("block", name="b"), says("two")
        ),
        model="m",
        tools=[block],
        config={"tool_timeout_s": 0.001, "max_tools_left_running": 1},
    )
    codes = [asyncio.run(runner.run("Go.")).run.results[0].error_codes[0] for _ in range(2)]
    gate.set()
    until(lambda: ended)

    assert codes == ["TOOL_TIMEOUT", "TOO_MANY_LEFT_RUNNING"]
    assert ended == ["a"]
