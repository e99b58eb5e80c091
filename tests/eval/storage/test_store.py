"""Tests of `surecall.eval.storage.store`."""

import os
import re
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from surecall.eval.storage import run_directories as rundirs
from surecall.eval.storage import store
from surecall.eval.storage.run_directories import StoreError, run_directories
from surecall.eval.storage.store import (
    DAMAGED_TRACE,
    MATRIX_KEY,
    Invocation,
    RunStore,
    identity_settings,
    json_digest,
    merge,
    merge_identities,
    open_for_reading,
    open_or_resume,
    run_identity,
    setting_differences,
)
from surecall.eval.storage.trial import Cell, CompletedTrials, Miss, Score, Trial
from surecall.runtime.sqlite_store import transaction
from surecall.values.types import JSON, Secret
from tests.support.project_files import ROOT
from tests.support.trials import OTHER, SAME, TRACE, key, passed, spoiled

# The store: nothing finished is lost or repeated, and every trouble is one clear sentence


MEMORY = Path("/dev/shm")  # noqa: S108 - a memory disk, where there is one
SECRET = "sk-or-v1-0123456789abcdef0123456789abcdef"


def reopened(run: RunStore) -> RunStore:
    run.close()
    return open_for_reading(run.directory)


def test_a_run_has_a_directory_of_its_own_that_git_ignores(base: Path, run: RunStore) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d{6}-[a-z]+", run.directory.name)
    assert run.directory.parent == base / "runs"
    assert (base / ".gitignore").read_text("utf-8") == "*\n"
    assert (base / "latest").read_text("utf-8").strip() == run.directory.name


def test_the_same_settings_resume_in_any_order_of_keys(base: Path, run: RunStore) -> None:
    run.add(passed(key(1)))
    run.close()

    with open_or_resume(base, dict(reversed(SAME.items()))) as again:
        assert again.directory == run.directory
        assert again.completed_trials() == CompletedTrials([key(1)])


def test_other_settings_and_a_fresh_start_get_new_directories(base: Path, run: RunStore) -> None:
    run.close()
    with open_or_resume(base, OTHER) as other, open_or_resume(base, SAME, fresh=True) as fresh:
        made = [run.directory, other.directory, fresh.directory]

    assert run_directories(base) == list(
        reversed(made)
    )  # newest first, though all in the same second
    with open_or_resume(base, SAME) as newest:
        assert newest.directory == fresh.directory
        assert (base / "latest").read_text("utf-8").strip() == fresh.directory.name


@pytest.mark.parametrize("pointed", [True, False])
def test_an_old_run_that_cannot_be_read_is_passed_over(
    base: Path, run: RunStore, *, pointed: bool
) -> None:
    run.close()
    with open_or_resume(base, OTHER) as newer:
        (run.directory / "trials.sqlite").write_bytes(b"this is not a database " * 100)
    if not pointed:
        (base / "latest").unlink()

    with open_or_resume(base, SAME) as begun:
        assert begun.directory not in {run.directory, newer.directory}
        assert begun.unreadable == (run.directory,)
    with open_or_resume(base, OTHER) as resumed:
        assert (resumed.directory, resumed.unreadable) == (newer.directory, ())


def test_what_goes_in_comes_out_in_the_order_of_the_keys(run: RunStore) -> None:
    trial = Trial(
        key=key(2),
        status="failed",
        category="ASSERTION_FAILED",
        score=Score(
            state=True, final=False, misses=(Miss("not Done."),), facts={"guard_fired": True}
        ),
        assistant_text="lone \ud800 half",
        fired=("x",),
    )
    run.add(trial, TRACE)
    run.add(passed(key(1)))

    assert len(run) == 2
    first, second = run.trials()
    assert first == passed(key(1))
    assert second.assistant_text == "lone \N{REPLACEMENT CHARACTER} half"
    assert (second.score, second.category) == (trial.score, "ASSERTION_FAILED")
    assert (run.trace(key(1)), run.trace(key(2))) == (None, TRACE)
    assert run.trace(key(9)) is None


def test_a_result_is_recorded_once_and_never_changed(run: RunStore) -> None:
    run.add(passed(key()), TRACE)
    run.add(passed(key()), TRACE)

    with pytest.raises(StoreError, match="a different result for the trial sim/a default"):
        run.add(passed(key(), elapsed_ms=6))
    assert list(run.trials()) == [passed(key())]


def test_a_record_of_an_earlier_version_that_lacks_a_default_is_the_same_result(
    run: RunStore,
) -> None:
    whole = msgspec.to_builtins(passed(key()))
    record = msgspec.json.encode({name: whole[name] for name in whole.keys() - {"retries"}})
    with transaction(run._connection):
        run._records.add_trial(store._key_columns(key()), ("passed", "", 5, record.decode()), None)

    run.add(passed(key()))
    assert list(run.trials()) == [passed(key())]
    with pytest.raises(StoreError, match="a different result for the trial"):
        run.add(passed(key(), elapsed_ms=6))


def test_the_sentences_of_an_earlier_version_are_read_as_misses_and_stay_as_they_are(
    run: RunStore,
) -> None:
    found = Trial(key=key(), status="failed", score=Score(misses=(Miss("not Done."),)))
    plain = msgspec.to_builtins(found)
    del plain["score"]["misses"]
    plain["score"]["reasons"] = ["not Done."]
    record = msgspec.json.encode(plain).decode()
    with transaction(run._connection):
        run._records.add_trial(store._key_columns(key()), ("failed", "", 0, record), None)

    run.add(found)
    assert list(run.trials()) == [found]
    kept = run._records.find_by_index(store._key_columns(key()))
    assert kept is not None
    assert kept.record == record


def test_no_secret_of_a_miss_is_written_down(base: Path) -> None:
    secret = "sk-or-v1-0123456789abcdef"
    miss = Miss(f"the answer is {secret}", secret, f"a {secret}", call_id=secret)
    trial = Trial(key=key(), status="failed", score=Score(misses=(miss,)))
    with open_or_resume(base, OTHER, secrets=(secret,)) as kept:
        kept.add(trial)
        (found,) = kept.trials()
        assert found == kept.redact_trial(trial)

    assert secret.encode() not in (kept.directory / "trials.sqlite").read_bytes()
    assert found.score.misses == (
        Miss("the answer is [redacted]", "[redacted]", "a [redacted]", call_id="[redacted]"),
    )


def test_a_spoiled_trial_gives_way_and_replaces_nothing(run: RunStore) -> None:
    run.add(spoiled(key()), b'{"spoiled":1}\n')
    assert (run.completed_trials(), run.completed_trials(infra=False)) == (
        CompletedTrials([key()]),
        CompletedTrials(),
    )

    run.add(passed(key()), TRACE)
    run.add(spoiled(key()), b'{"late":1}\n')

    assert list(run.trials()) == [passed(key())]
    assert run.trace(key()) == TRACE
    assert run.completed_trials(infra=False) == CompletedTrials([key()])


def test_readers_see_one_state_while_the_writer_goes_on(run: RunStore) -> None:
    run.add(passed(key(1)))
    run.add(passed(key(3)))
    with open_for_reading(run.directory) as reader:
        reading = reader.trials()
        seen = [next(reading).key.trial]
        run.add(passed(key(2)))
        seen += [trial.key.trial for trial in reading]

        assert seen == [1, 3]
        assert len(reader) == 3
        with pytest.raises(StoreError, match="readonly"):
            reader.add(passed(key(4)))


def test_a_second_writer_is_refused_and_told_who_writes(base: Path, run: RunStore) -> None:
    with pytest.raises(StoreError, match=rf"pid {os.getpid()}\) is writing to .*--fresh"):
        open_or_resume(base, SAME)

    (run.directory / "writer.pid").unlink()
    with pytest.raises(StoreError, match="another process is writing"):
        open_or_resume(base, SAME)

    run.close()
    open_or_resume(base, SAME).close()


def test_only_one_process_at_a_time_looks_for_a_run(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rundirs, "_OPENING_WAIT_S", 0.0)
    with rundirs.lock_base(base), pytest.raises(StoreError, match="is opening a run"):
        open_or_resume(base, SAME)


def test_a_store_that_cannot_be_opened_is_not_left_locked(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "set_latest", interrupted)
        with pytest.raises(KeyboardInterrupt):
            open_or_resume(base, SAME)

    with open_or_resume(base, SAME) as run:
        assert len(run.meta.invocations) == 2


@pytest.mark.parametrize("name", ["writer.lock", "trials.sqlite"])
def test_a_lock_or_file_that_cannot_be_used_is_reported_and_not_left_locked(
    base: Path, run: RunStore, name: str
) -> None:
    run.close()
    (run.directory / "trials.sqlite").rename(run.directory / "kept")
    (run.directory / name).unlink(missing_ok=True)
    (run.directory / name).mkdir()

    with pytest.raises(StoreError, match=f"cannot use .*{name}: unable to open"):
        store._open_for_writing(run.directory, ())
    assert not (run.directory / "writer.pid").exists()
    (run.directory / name).rmdir()
    (run.directory / "kept").rename(run.directory / "trials.sqlite")
    open_or_resume(base, SAME).close()


def test_every_command_signs_and_secrets_do_not_reach_the_disk(base: Path) -> None:
    first = Invocation(command=("surecall", "eval"), code="0.1.0", config={"key": SECRET})
    open_or_resume(base, SAME, first, secrets=Secret(SECRET)).close()
    with open_or_resume(base, SAME, Invocation(config={"n": 2}), secrets=SECRET) as run:
        leaky = Trial(key=key(), status="failed", category="AUTH", error=f"bad key {SECRET}")
        run.add(leaky, TRACE + b'{"body":"Bearer ' + SECRET.encode() + b'"}\n')
        run.add(passed(key(2)), TRACE)

        meta = run.meta
        (told, _), trace = run.trials(), run.trace(key())

    assert meta.identity == SAME
    assert [one.command for one in meta.invocations] == [("surecall", "eval"), ()]
    assert (meta.invocations[0].code, meta.latest.config) == ("0.1.0", {"n": 2})
    assert meta.created_at == meta.invocations[0].started < meta.latest.started
    assert meta.latest.config_hash == json_digest({"n": 2})
    assert "[redacted]" in told.error
    assert trace is not None
    assert trace.startswith(TRACE)
    assert SECRET.encode() not in trace
    assert all(
        SECRET.encode() not in path.read_bytes() for path in base.rglob("*") if path.is_file()
    )


def test_a_closed_run_is_one_plain_file(run: RunStore) -> None:
    run.add(passed(key()), TRACE)
    assert {path.suffix for path in run.directory.glob("trials*")} >= {".sqlite", ".sqlite-wal"}
    run.close()

    assert sorted(path.name for path in run.directory.iterdir()) == ["trials.sqlite", "writer.lock"]
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        # One that stays in the mode of the write-ahead log is not read without write access.
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    with open_for_reading(run.directory) as reader:
        assert list(reader.trials()) == [passed(key())]


def test_who_has_closed_a_run_can_no_longer_write_into_it(run: RunStore) -> None:
    run.add(passed(key(1)))
    run.close()

    with pytest.raises(StoreError, match="closed"):
        run.add(passed(key(2)))
    with open_for_reading(run.directory) as reader:
        assert reader.completed_trials() == CompletedTrials([key(1)])


def test_closing_does_not_wait_for_readers(run: RunStore) -> None:
    run.add(passed(key(1)))
    run.add(passed(key(2)))
    with open_for_reading(run.directory) as reader:
        reading = reader.trials()
        next(reading)
        run.close()
        assert next(reading) == passed(key(2))


def test_a_full_disk_loses_no_recorded_trial(run: RunStore) -> None:
    large = f'"{os.urandom(50_000).hex()}"'.encode()
    run.add(passed(key(1)), TRACE)
    (pages,) = run._connection.execute("PRAGMA page_count").fetchone()
    run._connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError, match=r"disk is full.*all recorded trials are safe"):
        run.add(passed(key(2)), large)
    assert run.completed_trials() == CompletedTrials([key(1)])

    run._connection.execute("PRAGMA max_page_count = 100000")
    run.add(passed(key(2)), large)
    with reopened(run) as reader:
        assert [trial.key.trial for trial in reader.trials()] == [1, 2]


FILLS_THE_DISK = """
import os, resource, sys
from pathlib import Path
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import CompletedTrials
from surecall.eval.storage.trial import Cell, Key, Trial

def trial(number):
    return Trial(key=Key(Cell("m"), "s", number), status="passed")

with open_or_resume(Path(sys.argv[1]), {}) as run:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    added = 0
    try:
        while True:
            run.add(trial(added), os.urandom(20_000).hex().encode())
            added += 1
    except StoreError as error:
        print(added > 3, "could not be written" in str(error), len(run) == added)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    run.add(trial(added), b"")
    print(len(run.completed_trials()) == added + 1)
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="there are no file size limits")
def test_a_write_that_the_system_refuses_loses_no_recorded_trial(base: Path) -> None:
    command = [sys.executable, "-c", FILLS_THE_DISK, str(base)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (ran.stdout.split(), ran.stderr) == (["True"] * 4, "")


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "latest").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(StoreError, match="No space left"):
            rundirs.set_latest(tmp_path, tmp_path / "new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("latest", b"old")]


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_hundred_kills_and_one_at_every_point_lose_and_repeat_nothing() -> None:
    script = str(ROOT / "scripts" / "kill_test.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if MEMORY.is_dir():  # what a kill does is the same there, and a busy disk takes its time
        environment["TMPDIR"] = str(MEMORY)
    ran = subprocess.run(
        [sys.executable, script, "--kills", "100", "--trials", "40"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count('"lost":0,"repeated":0,"altered":0,"refused":0') == 2


def test_a_record_that_matches_its_checksum_and_is_no_trial_is_refused(run: RunStore) -> None:
    with transaction(run._connection):
        run._records.add_trial(store._key_columns(key()), ("passed", "", 1, "{"), b"\0")

    with pytest.raises(StoreError, match="is damaged"):
        list(run.trials())
    with pytest.raises(StoreError, match="is damaged"):
        run.trace(key())


def test_a_trace_that_cannot_be_unpacked_is_refused(run: RunStore) -> None:
    run.absorb([(passed(key()), b"\0")])

    with pytest.raises(StoreError, match="is damaged"):
        run.trace(key())


def test_what_is_told_of_a_trial_has_no_secrets(tmp_path: Path) -> None:
    secret = "sk-made-up-0123456789"
    with open_or_resume(tmp_path, SAME, secrets=[secret]) as store:
        trial = msgspec.structs.replace(spoiled(key(1)), error=f"refused: {secret}")

        assert store.redact_trial(trial).error == "refused: [redacted]"
        assert store.redact_trial(passed(key(1))) == passed(key(1))
        assert store.redact_text(f"all were refused: {secret}") == "all were refused: [redacted]"


# Runs put together: every result once, or none; and what is read of a run that is damaged


def test_shards_are_put_together(base: Path, tmp_path: Path, run: RunStore) -> None:
    run.add(passed(key(1)), TRACE)
    run.add(spoiled(key(2)))
    with open_or_resume(tmp_path / "elsewhere", SAME) as shard:
        shard.add(passed(key(1)), TRACE)
        shard.add(passed(key(2)), TRACE)
        shard.add(spoiled(key(3)))
        with open_or_resume(base, SAME, fresh=True) as into:
            assert merge([run, shard], into) == 3
            assert merge([run, shard], into) == 0
            assert list(into.trials()) == [passed(key(1)), passed(key(2)), spoiled(key(3))]
            assert into.trace(key(2)) == TRACE


def test_shards_that_disagree_or_do_not_belong_together_are_refused(
    base: Path, tmp_path: Path, run: RunStore
) -> None:
    run.add(passed(key(2)))
    with (
        open_or_resume(tmp_path / "b", SAME) as shard,
        open_or_resume(base, OTHER) as stranger,
        open_or_resume(base, SAME, fresh=True) as into,
    ):
        shard.add(passed(key(1)))
        shard.add(passed(key(2), elapsed_ms=99))
        with pytest.raises(StoreError, match="a different result"):
            merge([run, shard], into)
        with pytest.raises(StoreError, match="different settings"):
            merge([run, stranger], into)
        assert len(into) == 0


def test_a_damaged_trace_ends_the_reading_unless_the_rest_is_to_be_salvaged(run: RunStore) -> None:
    run.add(passed(key(1)), TRACE)
    run.add(passed(key(2)), TRACE)
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("UPDATE traces SET lines = x'00' WHERE trial_id = 1")
        connection.commit()

    with pytest.raises(StoreError, match="trace of the record of the trial"):
        list(run.packed_trials())
    (first, lost), (second, kept) = run.packed_trials(salvage=True)
    assert (first, lost) == (passed(key(1)), DAMAGED_TRACE)
    assert (second, zlib.decompress(kept or b"")) == (passed(key(2)), TRACE)


def test_nothing_is_put_together_with_a_run_whose_traces_are_damaged(
    tmp_path: Path, run: RunStore
) -> None:
    run.add(passed(key(1)))
    run.add(passed(key(2)), TRACE)
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("UPDATE traces SET lines = x'00'")
        connection.commit()

    with open_or_resume(tmp_path / "b", SAME) as into:
        with pytest.raises(StoreError, match="is damaged"):
            merge([run], into)
        assert len(into) == 0


# What makes a run: settings and matrix, and when two of them belong together


SETTINGS: JSON = {"seed": 1, "base_url": "sim"}
ONE = run_identity(SETTINGS, [Cell("a"), Cell("b")], ["x", "y"])


def test_the_order_of_cells_and_scenarios_makes_no_other_run() -> None:
    turned = run_identity(SETTINGS, [Cell("b"), Cell("a")], ["y", "x"])

    assert json_digest(turned) == json_digest(ONE)
    assert identity_settings(ONE) == SETTINGS


def test_another_cell_scenario_or_setting_makes_another_run() -> None:
    others = [
        run_identity(SETTINGS, [Cell("a")], ["x", "y"]),
        run_identity(SETTINGS, [Cell("a"), Cell("b", "warm")], ["x", "y"]),
        run_identity(SETTINGS, [Cell("a"), Cell("b", strategy="raw")], ["x", "y"]),
        run_identity(SETTINGS, [Cell("a"), Cell("b")], ["x"]),
        run_identity(SETTINGS | {"seed": 2}, [Cell("a"), Cell("b")], ["x", "y"]),
        SETTINGS,
    ]

    assert len({json_digest(one) for one in (ONE, *others)}) == 7


def test_runs_that_are_put_together_keep_every_matrix_once() -> None:
    two = run_identity(SETTINGS, [Cell("c")], ["x"])

    assert merge_identities([ONE, ONE]) == ONE
    assert merge_identities([two, ONE, two]) == merge_identities([ONE, two])
    assert [len(merge_identities(them)[MATRIX_KEY]) for them in ([ONE, two], [ONE, SETTINGS])] == [
        2,
        2,
    ]
    assert merge_identities([SETTINGS, SETTINGS]) == SETTINGS


def test_differences_are_those_of_the_settings() -> None:
    assert setting_differences(ONE, run_identity(SETTINGS, [Cell("c")], ["x"])) == []
    assert setting_differences(ONE, SETTINGS) == []
    assert setting_differences({"seed": 1, "a": None}, {"seed": 2}) == [
        "a: null and nothing",
        "seed: 1 and 2",
    ]
