"""Lessons outlast a process, and a damaged file of lessons never stops a run."""

import json
import multiprocessing
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from surecall import OpenAICompatible, RetryPolicy, ToolLoopRunner, tool
from surecall.runtime.learned_lessons import (
    FILE_VARIABLE,
    MAX_REJECTIONS,
    RELEARNED,
    LessonBook,
    LessonLearner,
    LessonStore,
    StoredLesson,
    default_lesson_file,
    export_lessons,
    import_lessons,
    lesson_store,
)
from surecall.testing import ScriptedProvider, failure, says
from surecall.values.errors import ConfigError, ErrorCode, Fault

NOW = 1_800_000_000.0
HOST = "https://api.example.com/v1"
NO_TEMPERATURE = failure(400, {"error": {"message": "Unsupported parameter: 'temperature'"}})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "lessons.db"


def stored(path: Path) -> LessonStore:
    return LessonStore(path, lambda: NOW)


@tool
def ping() -> str:
    """Answer."""
    return "pong"


def lesson(name: str = "temperature", age_s: float = 0.0, endpoint: str = HOST) -> StoredLesson:
    return StoredLesson(endpoint, "m", name, NOW - age_s)


def test_a_lesson_is_used_from_the_first_request_of_the_next_run(path: Path) -> None:
    with ScriptedProvider(NO_TEMPERATURE, says("1"), says("2")) as provider:
        for _ in range(2):
            client = OpenAICompatible(provider.url, lessons=path)
            runner = ToolLoopRunner(client, "m", [ping], temperature=0.2)
            runner.run_sync("Go.")

    assert ["temperature" in request for request in provider.requests] == [True, False, False]


def test_without_a_store_each_client_learns_for_itself() -> None:
    with ScriptedProvider(NO_TEMPERATURE, says("1"), NO_TEMPERATURE, says("2")) as provider:
        for _ in range(2):
            client = OpenAICompatible(provider.url, lessons=False)
            ToolLoopRunner(client, "m", [ping], temperature=0.2).run_sync("Go.")

    assert len(provider.requests) == 4


def test_a_client_that_learns_nothing_makes_no_file(path: Path) -> None:
    with ScriptedProvider(says("1")) as provider:
        client = OpenAICompatible(provider.url, lessons=path)
        ToolLoopRunner(client, "m", [ping]).run_sync("Go.")

    assert not path.exists()


def test_an_endpoint_that_has_changed_is_relearned(path: Path) -> None:
    script = (failure(400, {"error": {"message": "temperature: field required"}}), says("ok"))
    with ScriptedProvider(*script) as provider:
        LessonBook(f"{provider.url}/v1", LessonStore(path))["m"] = ("temperature",)
        client = OpenAICompatible(provider.url, lessons=path)
        runner = ToolLoopRunner(client, "m", [ping], temperature=0.2, retry=RetryPolicy(attempts=1))
        assert runner.run_sync("Go.").text == "ok"

    assert ["temperature" in request for request in provider.requests] == [False, True]
    assert LessonStore(path).read() == []


def test_lessons_expire_and_those_of_assigned_ports_sooner() -> None:
    day, now = 24 * 3600.0, NOW
    assigned = "http://127.0.0.1:45000/v1"

    assert not lesson(age_s=29 * day).has_expired(now)
    assert lesson(age_s=31 * day).has_expired(now)
    assert lesson(age_s=-day).has_expired(now)
    assert not lesson(age_s=day, endpoint="http://127.0.0.1:11434/v1").has_expired(now)
    assert lesson(age_s=day, endpoint=assigned).has_expired(now)
    assert not lesson(age_s=60, endpoint=assigned).has_expired(now)


def test_stored_lessons_are_listed_and_removed_by_endpoint_and_model(path: Path) -> None:
    store = stored(path)
    other = msgspec.structs.replace(lesson(), model="other")
    store.add([lesson(), lesson("top_p"), other, lesson(endpoint="http://x/v1")])
    store.add([lesson()])

    assert len(store.read()) == 4
    assert {each.lesson for each in store.read("http://x/v1")} == {"temperature"}
    assert store.remove(HOST, "m") == 2
    assert store.remove() == 2
    assert store.read() == []
    assert LessonStore(path.with_name("none")).remove() == 0


@pytest.mark.parametrize(
    "row",
    [
        (HOST, "m", "model", 1.0),
        (HOST, "m", "rename:messages:x", 1.0),
        (HOST, "m", "seed", "soon"),
        (HOST, 7, "temperature", 1.0),
        (b"x", "m", "temperature", 1.0),
        (HOST, "m", b"temperature", 1.0),
    ],
)
def test_a_row_that_is_no_lesson_is_ignored(path: Path, row: tuple[object, ...]) -> None:
    store = stored(path)
    store.add([lesson()])
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO lesson VALUES (?, ?, ?, ?)", row)

    assert [each.lesson for each in store.read()] == ["temperature"]


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough " * 40])
def test_a_damaged_file_teaches_nothing_and_is_replaced(path: Path, damage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(damage)
    store = stored(path)

    assert store.read() == []
    store.add([lesson()])
    assert [each.lesson for each in store.read()] == ["temperature"]


def test_every_damaged_byte_is_survived(path: Path) -> None:
    stored(path).add([lesson(), lesson("top_p")])
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        store = stored(path)
        assert {each.lesson for each in store.read()} <= {"temperature", "top_p"}
        store.add([lesson("seed")])
        path.unlink(missing_ok=True)


def test_a_file_of_a_newer_version_is_neither_used_nor_changed(path: Path) -> None:
    stored(path).add([lesson()])
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    store = stored(path)
    store.add([lesson("top_p")])

    assert store.read() == []
    assert path.read_bytes() == before


def test_a_lesson_that_is_dropped_is_removed_from_the_file(path: Path) -> None:
    book = LessonBook(HOST, LessonStore(path))
    book["m"] = ("api:responses", "temperature")
    book["m"] = ("temperature",)

    assert [each.lesson for each in LessonStore(path).read()] == ["temperature"]
    assert len(book) == 1


def test_what_was_learned_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    book = LessonBook(HOST, None)
    book["m"] = ("api:responses",)
    book["m"] = ("api:responses",)

    (record,) = caplog.records
    assert record.getMessage() == (
        f"m at {HOST} refused a request: surecall now uses the responses API"
    )


def test_a_directory_that_cannot_be_written_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    book = LessonBook(HOST, LessonStore(tmp_path / "file" / "lessons.db"))
    book["m"] = ("temperature",)

    assert dict(book) == {"m": ("temperature",)}


def _learn(path: Path, number: int) -> None:
    book = LessonBook(HOST, LessonStore(path))
    for each in range(5):
        book["m"] = (*book.get("m", ()), f"option_{number}_{each}")


@pytest.mark.processes
def test_processes_may_learn_at_the_same_time(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_learn, args=(path, number)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len(LessonStore(path).read()) == 20


KILLED = """
import os, signal, sys, time
from pathlib import Path
from surecall.runtime.learned_lessons import LessonBook, LessonStore
book = LessonBook("https://api.example.com/v1", LessonStore(Path(sys.argv[1])))
for number in range(400):
    book["m"] = (*book.get("m", ()), f"option_{number}")
    print(number, flush=True)
time.sleep(600)
"""


@pytest.mark.processes
def test_lessons_survive_a_killed_process(path: Path) -> None:
    import subprocess  # noqa: PLC0415  # only this test starts one

    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [int(process.stdout.readline()) for _ in range(20)]
        process.kill()

    found = {each.lesson for each in LessonStore(path).read()}
    assert {f"option_{number}" for number in seen} <= found


def test_the_default_file_is_in_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_lesson_file({"XDG_CACHE_HOME": str(tmp_path)}) == (
        tmp_path / "surecall" / "lessons.db"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_lesson_file({"XDG_CACHE_HOME": "relative"}) == (
        tmp_path / ".cache" / "surecall" / "lessons.db"
    )
    assert default_lesson_file({FILE_VARIABLE: "OFF"}) is None
    assert default_lesson_file({FILE_VARIABLE: str(tmp_path / "mine")}) == tmp_path / "mine"
    monkeypatch.setattr(Path, "home", _no_home)
    assert default_lesson_file({}) is None
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "mine"))
    store = lesson_store(place=True)
    assert store is not None
    assert store.path == tmp_path / "mine"
    assert lesson_store(place=False) is None


def _no_home() -> Path:
    raise RuntimeError("no home directory")


def test_lessons_are_exported_and_imported() -> None:
    lessons = [lesson(), lesson("schema:format")]

    assert import_lessons(export_lessons(lessons)) == lessons


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not a file of lessons"),
        (b'{"version": 9, "lessons": []}', "version 9"),
        (json.dumps({"version": 1, "lessons": [{"lesson": 1}]}).encode(), "not a file"),
        (
            export_lessons([StoredLesson(HOST, "m", "without:content", 1.0)]),
            "unknown lesson 'without:content'",
        ),
    ],
)
def test_a_file_that_is_not_of_lessons_is_rejected(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        import_lessons(data)


# The lessons of one request


def fault(message: str) -> Fault:
    return Fault(ErrorCode.BAD_REQUEST, message, 400)


def test_a_switch_of_api_is_known_to_the_client_at_once_and_undone_if_it_does_not_help() -> None:
    cache: dict[str, tuple[str, ...]] = {}
    learner = LessonLearner(cache, "m")
    learner.learn(fault("no"), lambda _, __: ("api:responses",))
    assert cache == {"m": ("api:responses",)}
    learner.learn(fault("no"), lambda _, __: ())

    assert cache == {"m": ()}


def suggestions(*names: str) -> Iterator[str]:
    return iter(names)


def test_a_lesson_that_does_not_help_is_dropped_and_the_next_one_tried() -> None:
    cache: dict[str, tuple[str, ...]] = {}
    learner = LessonLearner(cache, "m")
    first = learner.learn(fault("no"), lambda _, __: ("a",))
    second = learner.learn(fault("no"), lambda _, tried: ("b",) if tried == ("a",) else ())
    learner.confirm()

    assert (first, second) == (("a",), ("b",))
    assert learner.lessons == ("b",)
    assert cache == {"m": ("b",)}


def test_a_lesson_is_confirmed_when_another_thing_is_rejected() -> None:
    cache: dict[str, tuple[str, ...]] = {}
    learner = LessonLearner(cache, "m", ("stream",))
    learner.learn(fault("no a"), lambda _, __: ("a",))
    assert cache == {}
    learner.learn(fault("no b"), lambda _, __: ("b",))

    assert cache == {"m": ("a",)}
    assert learner.lessons == ("stream", "a", "b")


def test_a_passing_fault_neither_confirms_nor_drops_a_lesson() -> None:
    cache: dict[str, tuple[str, ...]] = {}
    learner = LessonLearner(cache, "m")
    learner.learn(fault("no"), lambda _, __: ("a",))

    assert learner.learn(Fault(ErrorCode.RATE_LIMIT, "slow", 429), lambda _, __: ("b",)) == ()
    assert (learner.lessons, cache) == (("a",), {})


def test_a_request_learns_from_few_rejections() -> None:
    learner = LessonLearner({}, "m")
    names = suggestions("a", "b", "c", "d")
    learned = [learner.learn(fault(str(n)), lambda _, __: (next(names),)) for n in range(4)]

    assert [bool(each) for each in learned] == [True] * MAX_REJECTIONS + [False]


def test_earlier_lessons_are_left_out_once_if_they_do_not_help() -> None:
    cache: dict[str, tuple[str, ...]] = {"m": ("a",)}
    learner = LessonLearner(cache, "m")

    assert learner.learn(Fault(ErrorCode.RATE_LIMIT, "slow", 429), lambda _, __: ()) == ()
    assert learner.learn(fault("no"), lambda _, __: ()) == (RELEARNED,)
    assert learner.lessons == ()
    assert cache == {}
    assert learner.learn(fault("no"), lambda _, __: ()) == ()


assert os.environ[FILE_VARIABLE] == "off"  # set for all tests


def test_two_requests_that_learn_at_the_same_time_keep_both_lessons() -> None:
    book = LessonBook("https://a.example", None)
    one, other = LessonLearner(book, "m"), LessonLearner(book, "m")
    refused = Fault(ErrorCode.BAD_REQUEST, "Unsupported parameter", 400)

    one.learn(refused, lambda *_: ("seed",))
    other.learn(refused, lambda *_: ("top_p",))
    one.confirm()
    other.confirm()

    assert book["m"] == ("seed", "top_p")
