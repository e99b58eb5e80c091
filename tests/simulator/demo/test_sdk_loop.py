"""OpenAI's own client takes part where it is installed, and is not missed where it is not."""

import sys
from contextlib import ExitStack
from types import ModuleType

import pytest

from surecall.simulator.demo.sdk_loop import loop_at
from surecall.simulator.demo.tasks import BOOK, PAIR, Desk, Task
from surecall.simulator.server import Simulator


@pytest.mark.parametrize("task", [BOOK, PAIR])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_clean_reply_is_read(
    task: Task, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    desk = Desk()
    with Simulator() as simulator, ExitStack() as stack:
        loop = loop_at(simulator.url, stack)
        assert loop is not None
        answer = loop("sim/clean", task, desk.tools(task), streamed=streamed)

    assert task.told in answer
    assert tuple(desk.made) == task.calls


@pytest.mark.parametrize("found", [None, ModuleType("openai")])
def test_without_the_client_or_with_an_old_one_there_is_no_loop(
    found: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", found)
    with ExitStack() as stack:
        assert loop_at("http://127.0.0.1:9", stack) is None
