"""Traces: recorded whole, written without secrets, read back or refused with the line."""

import asyncio
import json
import logging
import random
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from surecall import presets
from surecall.core.outcome import RequestFailed, RunFailed, RunResult
from surecall.runtime.recording import (
    GLOBAL_OBSERVERS,
    JsonlSink,
    Recorder,
    allowed_context,
    load_trace,
    save_trace,
)
from surecall.runtime.replay import replay
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.connection import RetryPolicy
from surecall.testing import Item, RecordingObserver, ScriptedModel, calls, failure, says
from surecall.tools.registry import ToolRegistry, tool
from surecall.values.errors import ConfigError
from surecall.values.events import (
    SCHEMA_VERSION,
    Event,
    ObserverErrorEvent,
    PolicyErrorEvent,
    RunStartEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import Assistant, User
from tests.support.spec import proves

KEY = "sk-canary/47+11=ab/cdEF"


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


def ran(*script: Item, user_text: str = "hi", **settings: Any) -> RunResult:
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=ToolRegistry([echo]),
        retry=RetryPolicy(attempts=1),
        **{"config": presets.raw()} | settings,
    )
    try:
        return asyncio.run(runner.run(user_text))
    except RunFailed as error:
        return error.result


def two_turns() -> RunResult:
    return ran(calls("echo", text="héllo"), says("done", usage={"cost": 0.5}))


def written(path: Path, result: RunResult) -> list[bytes]:
    save_trace(result.trace, path)
    return path.read_bytes().splitlines(keepends=True)


def test_a_saved_trace_is_read_back_as_it_was(tmp_path: Path) -> None:
    for result in (two_turns(), ran(failure(500)), ran(failure(401))):
        save_trace(result.trace, tmp_path / "run.jsonl")
        read = load_trace(tmp_path / "run.jsonl")
        assert read == result.trace
        assert replay(read).run == result.run


def test_a_sink_writes_each_event_as_it_happens(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    counts: list[int] = []
    observers = [JsonlSink(path), lambda _: counts.append(path.read_bytes().count(b"\n"))]
    result = ran(calls("echo", text="x"), says("done"), observers=observers)
    assert counts == list(range(1, len(result.trace) + 1))
    assert load_trace(str(path)) == result.trace


def test_only_the_owner_may_read_what_is_written(tmp_path: Path) -> None:
    result = ran(says("hi"), observers=[JsonlSink(tmp_path / "a")])
    save_trace(result.trace, tmp_path / "b")
    for name in ("a", "b"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_saved_trace_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    written(path, two_turns())
    result = ran(says("hi"))
    written(path, result)
    assert load_trace(path) == result.trace


def test_a_trace_torn_at_any_byte_of_its_last_line_is_read_up_to_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    result = two_turns()
    lines = written(path, result)
    for kept in range(1, len(lines[-1]) - 1):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
        assert load_trace(path) == Trace(result.trace.events[:-1])


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b'{"type":"\\u001b[2J"}', b"[" * 100_000])
def test_damage_in_the_middle_is_refused_with_its_line(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "run.jsonl"
    lines = written(path, two_turns())
    lines[2] = lines[2][:20] + b"\n" if not damage else damage + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ConfigError, match=r"run\.jsonl, line 3: not an event") as caught:
        load_trace(path)
    assert str(caught.value).isprintable()


def test_a_damaged_last_line_that_is_whole_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    lines = written(path, ran(says("hi")))
    path.write_bytes(b"".join(lines) + b"{}\n")
    with pytest.raises(ConfigError, match=f"line {len(lines) + 1}"):
        load_trace(path)


@pytest.mark.parametrize("changes", [{}, {"type": "begun"}, {"model": 5}])
def test_a_newer_format_is_refused_as_such(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "run.jsonl"
    first, *others = written(path, ran(says("hi")))
    header = json.loads(first)
    assert header["schema_version"] == SCHEMA_VERSION
    newer = header | {"schema_version": SCHEMA_VERSION + 1} | changes
    path.write_bytes(json.dumps(newer).encode() + b"\n" + b'{"type":"new"}\n' + b"".join(others))
    with pytest.raises(ConfigError, match="newer version"):
        load_trace(path)


@pytest.mark.parametrize("kept", [slice(0), slice(1, None)])
def test_a_trace_begins_at_the_beginning(tmp_path: Path, kept: slice) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join(written(path, ran(says("hi")))[kept]))
    with pytest.raises(ConfigError, match="does not begin with run_start"):
        load_trace(path)


def test_of_several_runs_in_one_file_one_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    sink = JsonlSink(path)
    results = [ran(says(text), observers=[sink]) for text in ("one", "two")]
    with pytest.raises(ConfigError, match=f"holds 2 runs.*{results[1].run.run_id}"):
        load_trace(path)
    for result in results:
        assert load_trace(path, result.run.run_id) == result.trace
    with pytest.raises(ConfigError, match="does not begin with run_start"):
        load_trace(path, "another")


def test_half_characters_do_not_keep_a_trace_from_being_written(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ran(says("hi"), user_text="\ud800", observers=[JsonlSink(path)])
    start = load_trace(path)[0]
    assert isinstance(start, RunStartEvent)
    assert start.messages == (User("\ufffd"),)


def test_a_disk_that_is_full_or_gone_does_not_affect_the_run(tmp_path: Path) -> None:
    result = ran(says("hi"), observers=[JsonlSink(tmp_path / "no" / "such" / "folder")])
    assert result.assistant_text == "hi"
    assert [type(event) for event in result.trace].count(ObserverErrorEvent) == 1


def test_observers_that_raise_at_once_are_all_let_go(caplog: pytest.LogCaptureFixture) -> None:
    def first(event: Event) -> None:
        raise ValueError(f"\x1b[2J{type(event).__name__}")

    class Second:
        def __call__(self, event: Event) -> None:
            raise Unspeakable(event)

    good = RecordingObserver()
    with caplog.at_level(logging.WARNING, "surecall"):
        result = ran(says("hi"), observers=[first, Second(), first, good])
    assert result.assistant_text == "hi"
    assert good.events == list(result.trace)
    assert good.types[:4] == ["RunStartEvent"] + ["ObserverErrorEvent"] * 3
    assert len(caplog.records) == 3
    assert "raised ValueError; it gets no further events" in caplog.text
    assert "RunStartEvent" not in caplog.text  # their words may hold a secret
    assert "\x1b" not in caplog.text
    assert all(len(event.message) <= 200 for event in good.events[1:4])


class Introduced:
    """An observer that hears where runs begin and where they are left."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, event: Event) -> None:
        self.heard.append(type(event).__name__)

    def run_entered(self, run_id: str, clients: dict[str, object]) -> None:
        self.heard.append((run_id, {at: type(client) for at, client in clients.items()}))

    def run_left(self, run_id: str, error: type[BaseException] | None) -> None:
        self.heard.append((run_id, error))


def test_an_observer_may_hear_where_a_run_begins_and_how_it_is_left() -> None:
    ended, failed = Introduced(), Introduced()
    run_id = ran(says("hi"), observers=[ended]).run.run_id
    assert ended.heard[:2] == [(run_id, {"": ScriptedModel}), "RunStartEvent"]
    assert ended.heard[-2:] == ["FinalEvent", (run_id, None)]

    run_id = ran(failure(401), observers=[failed]).run.run_id
    assert failed.heard[-2:] == ["RunFailedEvent", (run_id, RequestFailed)]


def test_a_run_goes_on_when_an_observer_cannot_hear_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Deaf(Introduced):
        def run_entered(self, run_id: str, clients: dict[str, object]) -> None:
            raise Unspeakable(run_id, clients)

    deaf = Deaf()
    result = ran(says("hi"), observers=[deaf])
    assert result.assistant_text == "hi"
    assert deaf.heard[-1] == (result.run.run_id, None)
    assert "Deaf raised Unspeakable in run_entered" in caplog.text


class Unspeakable(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError


@proves("C117")
def test_events_carry_the_run_and_only_allowed_context_shortened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_234.5)
    context = {"tenant": "é" * 150, "secret": "s", "number": 7, "odd": "\ud800"}
    allowed = allowed_context(context, ["tenant", "number", "odd", "missing"])
    assert allowed == {"tenant": "é" * 100, "number": "7", "odd": "?"}
    recorder = Recorder("run", (), allowed)
    recorder.emit(PolicyErrorEvent, 3, stage="call", message="m")
    (event,) = recorder.trace
    assert (event.run_id, event.turn, event.context) == ("run", 3, allowed)
    assert event.at == 1_234.5


def test_a_trace_of_a_run_keeps_what_the_model_said(tmp_path: Path) -> None:
    result = two_turns()
    save_trace(result.trace, tmp_path / "run.jsonl")
    again = replay(load_trace(tmp_path / "run.jsonl"))
    assert [item.text for item in again.history if isinstance(item, Assistant)] == ["", "done"]
    assert (again.assistant_text, again.usage.cost) == ("done", 0.5)


def test_a_flipped_bit_of_a_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    result = asyncio.run(ToolLoopRunner(client=ScriptedModel(says("ok")), model="m").run("hi"))
    save_trace(result.trace, path)
    sound = path.read_bytes()
    draw = random.Random(14)  # noqa: S311 - any bits will do
    refused: list[str] = []
    for _ in range(300):
        data = bytearray(sound)
        # The last newline ends a journal; a file without it looks torn.
        data[draw.randrange(len(data) - 1)] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        try:
            assert load_trace(path) == result.trace
        except ConfigError as error:
            refused.append(str(error))
    assert len(refused) > 250
    assert [told for told in refused if ", line " not in told] == []


def test_whoever_watches_the_process_sees_every_run_that_begins_meanwhile() -> None:
    watcher = RecordingObserver()
    GLOBAL_OBSERVERS.append(watcher)
    results = [ran(says("one")), ran(says("two"))]
    GLOBAL_OBSERVERS.remove(watcher)
    ran(says("three"))

    assert watcher.events == [event for result in results for event in result.trace]
