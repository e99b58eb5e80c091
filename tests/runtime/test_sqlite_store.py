"""Tests of `surecall.runtime.sqlite_store`."""

import gc
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from surecall import (
    ConfigError,
    Conversation,
    SqliteStore,
    Store,
    StoreConflict,
    Stored,
    SurecallError,
    ToolLoopRunner,
)
from surecall.runtime import sqlite_store
from surecall.runtime.sqlite_store import transaction
from surecall.testing import ScriptedModel, says

# Conversations in an SQLite file: versions, damage, files of others, several connections


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def versions(store: Store, key: str = "k") -> int:
    stored = store.load(key)
    return 0 if stored is None else stored.version


def test_what_was_saved_is_loaded_by_another_connection(path: Path) -> None:
    first, second = SqliteStore(path), SqliteStore(path)
    first.save("k", 0, b"head", 0, [b"1", b"2", b"3"])
    first.save("k", 1, b"new head", 1, [b"two"])

    assert second.load("k") == Stored(2, b"new head", (b"1", b"two"))
    assert second.load("k", known=1) == second.load("k")
    assert second.load("k", known=2) is None
    assert second.load("other") is None
    assert second.keys() == ["k"]


def test_a_version_is_replaced_once(path: Path) -> None:
    first, second = SqliteStore(path), SqliteStore(path)
    first.save("k", 0, b"", 0, [b"1"])
    for store, version in ((second, 0), (second, 2), (first, 0)):
        with pytest.raises(StoreConflict, match="'k' was changed concurrently"):
            store.save("k", version, b"lost", 0, [])
    with pytest.raises(StoreConflict):
        first.save("new", 1, b"", 0, [])

    assert first.load("k") == Stored(1, b"", (b"1",))
    assert first.keys() == ["k"]


def test_of_many_threads_that_replace_a_version_one_does(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(4)]
    together = threading.Barrier(8)
    won: list[int] = []

    def work(number: int) -> None:
        together.wait()
        for version in range(5):
            try:
                stores[number % 4].save("k", version, b"%d" % number, version, [b"%d" % number])
            except StoreConflict:
                continue
            won.append(version)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(won) == list(range(len(won)))
    assert versions(stores[0]) == len(won)


@pytest.mark.parametrize("key", ["a\0b", "' OR 1=1 --", "ключ", " ", "k" * 10_000, "/../x"])
def test_a_key_is_any_text(path: Path, key: str) -> None:
    store = SqliteStore(path)
    store.save(key, 0, b"head", 0, [])
    store.save("a", 0, b"", 0, [])

    assert store.load(key) == Stored(1, b"head", ())
    assert store.keys() == [key, "a"]


def test_only_the_owner_may_read_a_file_that_is_made_here(path: Path) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"", 0, [])
    files = list(path.parent.iterdir())

    assert len(files) == 4  # the file, its log, the index of the log, and the last write
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


def loaded(path: Path, key: str) -> Stored | ConfigError | None:
    """Load a conversation from a file that may be damaged."""
    try:
        return SqliteStore(path).load(key)
    except ConfigError as error:
        return error


def test_every_bit_that_changes_is_noticed(path: Path) -> None:
    sound = Stored(1, b'{"extras":{"a":1}}', (b'{"role":"user"}', b'{"role":"tool"}'))
    store = SqliteStore(path)
    store.save("k", 0, sound.head, 0, sound.messages)
    store.close()
    whole = path.read_bytes()
    places = [whole.index(text) for text in (*sound.messages, sound.head)]
    copy = path.with_name("damaged.db")
    noticed = 0
    # What a row says of itself, its header, is before its texts.
    for at in (at for place in places for at in range(place - 6, min(place + 20, len(whole)))):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        copy.write_bytes(data)
        found = loaded(copy, "k")
        assert found == sound or isinstance(found, ConfigError), at
        noticed += found != sound

    assert noticed > 60


@pytest.mark.parametrize(
    ("place", "bit"),
    [
        (b"CREATE TABLE conversations", 0x80),
        (b"version INTEGER", 0x80),
        (b"version INTEGER", 1),
    ],
)
def test_names_that_are_damaged_are_told_in_one_sentence(
    path: Path, place: bytes, bit: int
) -> None:
    with closing(SqliteStore(path)) as store:
        store.save("customer", 0, b"head", 0, [])
    whole = path.read_bytes()
    at = whole.index(place)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])

    with pytest.raises(ConfigError, match=r"cannot use .*chats\.db for conversations"):  # noqa: PT012
        store = SqliteStore(path)
        store.load("customer")


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM messages WHERE place = 2",
        "DELETE FROM messages WHERE place = 1",
        "UPDATE messages SET place = 9 WHERE place = 0",
        "UPDATE messages SET message = x'31', sum = 5 WHERE place = 2",
        "UPDATE conversations SET version = 7",
        "UPDATE conversations SET head = 'text'",
        "UPDATE messages SET conversation = 2",
        "UPDATE messages SET message = 7",
    ],
)
def test_a_row_that_vanished_moved_or_changed_is_noticed(path: Path, damage: str) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"head", 0, [b"1", b"2", b"3"])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    assert store.keys() == ["k"]

    with pytest.raises(ConfigError) as told:
        store.load("k")
    assert str(told.value) == (
        f"conversation 'k' in {path} is damaged: it does not match its checksum. "
        "Restore the file from a backup."
    )


LOST = [
    "DELETE FROM conversations WHERE id = 2",
    "UPDATE conversations SET key = CAST('other' AS BLOB) WHERE id = 2",
    "DELETE FROM conversations WHERE id = 2; DELETE FROM directory WHERE key = CAST('k' AS BLOB)",
    "DELETE FROM conversations WHERE id = 2; DELETE FROM directory",
    "DELETE FROM conversations WHERE id = 2; UPDATE directory SET next = key",
]


@pytest.mark.parametrize("damage", LOST)
def test_a_conversation_that_was_lost_is_damage_and_not_a_new_one(path: Path, damage: str) -> None:
    store = SqliteStore(path)
    for key in ("j", "k", "l"):
        store.save(key, 0, b"head", 0, [b"1"])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(damage)

    lost = f"conversation 'k' may be lost: {path} is damaged. Restore it from a backup."
    with pytest.raises(ConfigError) as told:
        store.load("k")
    assert str(told.value) == lost
    with pytest.raises(ConfigError, match="'k' may be lost"):
        store.save("k", 0, b"new", 0, [])
    with pytest.raises(ConfigError, match=r"conversations do not match its directory\. Restore it"):
        store.keys()
    assert store.load("j") == store.load("l") == Stored(1, b"head", (b"1",))


def test_a_directory_that_lists_too_little_is_damage(path: Path) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"", 0, [])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM directory WHERE key = CAST('k' AS BLOB)")

    with pytest.raises(ConfigError, match="'new' may be lost"):
        store.load("new")
    assert versions(store) == 1


def test_a_version_that_is_known_and_not_stored_is_damage(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(ConfigError, match="'k' may be lost"):
        store.load("k", known=3)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE conversations SET version = 2",
        "UPDATE conversations SET count = 9",
        "UPDATE conversations SET count = 'x'",
        "UPDATE messages SET sum = 7",
    ],
)
def test_a_known_version_is_checked_before_it_counts_as_unchanged(path: Path, damage: str) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"head", 0, [b"1"])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)

    for known in (1, 2):
        with pytest.raises(ConfigError, match=r"'k' in .* is damaged"):
            store.load("k", known)
    for version in (1, 2):
        with pytest.raises(ConfigError, match=r"'k' in .* is damaged"):
            store.save("k", version, b"new head", 0, [])


def test_a_row_of_another_conversation_is_damage(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        for key in ("zero", "first", "other"):
            store.save(key, 0, b"head", 0, [b"1"])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"first\x02", b"first\x03"))  # in the index: another row

    store = SqliteStore(path)
    for known in (0, 1):
        with pytest.raises(ConfigError, match=r"'first' in .* is damaged"):
            store.load("first", known)
    with pytest.raises(ConfigError, match=r"'first' in .* is damaged"):
        store.save("first", 1, b"", 0, [])
    assert store.load("other") == Stored(1, b"head", (b"1",))


def test_a_blank_key_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(ConfigError, match="the key of a conversation must not be empty"):
        store.load("")
    with pytest.raises(ConfigError, match="the key of a conversation must not be empty"):
        store.save("", 0, b"", 0, [])


def killed(path: Path) -> Path:
    """Copy a store that is open, as a process that is killed leaves it."""
    copy = path.with_name("killed.db")
    for end in ("", "-wal", "-last"):
        if (source := Path(f"{path}{end}")).exists():
            Path(f"{copy}{end}").write_bytes(source.read_bytes())
    return copy


@pytest.mark.parametrize("new", [False, True])
def test_writes_that_a_damaged_log_has_lost_are_noticed(path: Path, *, new: bool) -> None:
    store = SqliteStore(path)
    store.save("a longer key", 0, b"", 0, [])
    store.save("k", 0, b"head", 0, [])
    store.save("new" if new else "k", 0 if new else 1, b"new head", 0, [])
    copy = killed(path)
    log = Path(f"{copy}-wal")
    log.write_bytes(log.read_bytes()[:-1])

    for _ in range(2):
        with pytest.raises(ConfigError) as told:
            SqliteStore(copy)
        assert str(told.value) == (
            f"{copy} has lost its last writes: {copy}-wal is damaged or missing. Restore both from "
            f"a backup, or delete {copy}-last to accept the loss."
        )
    Path(f"{copy}-last").unlink()
    assert versions(SqliteStore(copy)) == 1


@pytest.mark.parametrize("note", [None, b"", b"garbage", b"0 9 1 k", b"zz 9 1 k", b"1 2 3"])
def test_a_note_of_the_last_write_that_is_missing_or_damaged_says_nothing(
    path: Path, note: bytes | None
) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"head", 0, [b"1"])
    copy = killed(path)
    Path(f"{copy}-last").unlink()
    if note is not None:
        Path(f"{copy}-last").write_bytes(note)

    assert SqliteStore(copy).load("k") == Stored(1, b"head", (b"1",))


def test_a_note_that_cannot_be_written_stops_nothing(path: Path) -> None:
    Path(f"{path}-last").mkdir()
    store = SqliteStore(path)
    store.save("k", 0, b"head", 0, [])
    store.close()

    assert versions(store) == 1


def test_the_note_of_the_last_write_stays_while_another_process_has_the_file_open(
    path: Path,
) -> None:
    first, second = SqliteStore(path), SqliteStore(path)
    first.save("k", 0, b"", 0, [])
    second.save("k", 1, b"", 0, [])
    first.close()
    assert Path(f"{path}-last").exists()
    second.close()

    assert [each.name for each in path.parent.iterdir()] == ["chats.db"]


AS_VERSION_1 = "DROP TRIGGER listed_first; DROP TABLE directory; PRAGMA user_version = 1"


def test_a_file_of_version_1_gets_a_directory_when_it_is_opened(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        for key in ("b", "ключ", "a"):
            store.save(key, 0, b"head", 0, [b"1"])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(AS_VERSION_1)
    store = SqliteStore(path)

    assert store.keys() == ["b", "ключ", "a"]
    assert store.load("a") == Stored(1, b"head", (b"1",))
    assert store.load("c") is None
    store.save("c", 0, b"", 0, [])
    assert store.keys() == ["b", "ключ", "a", "c"]


def test_a_damaged_file_of_version_1_is_refused_and_left_unchanged(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        for key in ("zero", "first"):
            store.save(key, 0, b"head", 0, [])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(AS_VERSION_1)
    data = path.read_bytes().replace(b"first\x02", b"fi_st\x02")  # only in the index
    path.write_bytes(data)

    with pytest.raises(ConfigError, match=r"cannot use .*chats\.db .*: it is damaged"):
        SqliteStore(path)
    assert path.read_bytes() == data


def test_an_earlier_version_cannot_add_what_the_directory_does_not_list(path: Path) -> None:
    store = SqliteStore(path)
    with closing(sqlite3.connect(path)) as earlier:
        statement = sqlite_store._BEGIN
        with pytest.raises(sqlite3.IntegrityError, match="a newer version of surecall uses this"):
            earlier.execute(statement, (b"k",))

    assert store.load("k") is None


def test_a_file_whose_tables_changed_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER listed_first")
    with pytest.raises(ConfigError, match=r"cannot use .*chats\.db .*: its tables are damaged"):
        SqliteStore(path)


def test_a_message_that_should_stay_and_is_not_there_is_damage(path: Path) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"", 0, [b"1"])
    with pytest.raises(ConfigError, match="damaged"):
        store.save("k", 1, b"", 3, [])

    assert versions(store) == 1


def test_what_is_no_store_is_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"This is a letter, not a database." * 40)
    with pytest.raises(ConfigError, match=r"cannot use .*chats.db for conversations: .*database"):
        SqliteStore(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE conversations (mine)")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"chats\.db is not a conversation store"):
        SqliteStore(path)
    assert path.read_bytes() == before
    path.unlink()
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(ConfigError, match="written by a newer version of surecall: update"):
        SqliteStore(path)


def test_a_path_that_cannot_be_used_is_told_in_one_sentence(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot create .*: No such file or directory"):
        SqliteStore(path / "below" / "chats.db")
    with pytest.raises(ConfigError, match=r"cannot use .* for conversations: unable to open"):
        SqliteStore(path.parent)
    path.symlink_to("nowhere.db")
    with pytest.raises(ConfigError, match=r"cannot use .*chats\.db: No such file or directory"):
        SqliteStore(path)


def test_a_file_that_is_cut_is_never_read_as_something_else(path: Path) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"head" * 500, 0, [b"x" * 3000] * 20)
    sound = store.load("k")
    store.close()
    whole = path.read_bytes()
    for size in (1, 100, 511, 512, *range(4095, len(whole), 4096)):
        path.write_bytes(whole[:size])
        found = loaded(path, "k")
        # The last page has room to spare.
        assert isinstance(found, ConfigError) or (size > len(whole) - 4096 and found == sound)


def test_a_blank_file_becomes_a_store(path: Path) -> None:
    path.touch()

    assert SqliteStore(path).keys() == []


def test_a_file_that_others_hold_too_long_is_told_and_nothing_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_BUSY_S", 0.0)
    store = SqliteStore(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SurecallError, match="cannot be read or written: database is locked"):
            store.save("k", 0, b"", 0, [])
        assert versions(store) == 0
    store.save("k", 0, b"", 0, [])


def test_a_new_file_that_another_process_is_at_work_on_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    monkeypatch.setattr(sqlite_store, "_BUSY_S", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConfigError, match="database is locked"):
            SqliteStore(path)
        monkeypatch.setattr("time.sleep", lambda _: other.rollback())

        assert SqliteStore(path).keys() == []


def test_a_store_in_memory_ends_with_it() -> None:
    store = SqliteStore(":memory:")
    store.save("k", 0, b"", 0, [])

    assert store.keys() == ["k"]
    assert not Path(":memory:").exists()


def test_a_store_closes_itself(path: Path) -> None:
    store = SqliteStore(path)
    store.save("k", 0, b"", 0, [])
    del store
    gc.collect()

    assert [each.name for each in path.parent.iterdir()] == ["chats.db"]


def test_a_closed_store_opens_again_when_it_is_used(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    store.save("k", 0, b"", 0, [])
    store.close()
    store.close()

    assert [each.name for each in path.parent.iterdir()] == ["chats.db"]
    assert store.keys() == ["k"]


def test_a_store_that_was_in_use_is_refused_after_a_fork(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, unused = SqliteStore(path), SqliteStore(path)
    store.save("k", 0, b"", 0, [])
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(ConfigError, match="used before this process was forked"):
            store.load("k")
        unused.save("k", 1, b"", 0, [])
        unused.close()

    assert versions(store) == 2


def test_a_conversation_is_kept_in_a_file(path: Path) -> None:
    for words, answer in (("One", "First."), ("Two", "Second.")):
        runner = ToolLoopRunner(client=ScriptedModel(says(answer)), model="m")
        assert Conversation(runner, SqliteStore(path), "k").say_sync(words).assistant_text == answer

    stored = SqliteStore(path).load("k")
    assert stored is not None
    assert len(stored.messages) == 4


# A transaction is kept whole, or not at all


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.execute("CREATE TABLE kept (value INTEGER)")
        yield opened


def kept(connection: sqlite3.Connection) -> list[int]:
    return [value for (value,) in connection.execute("SELECT value FROM kept")]


def broken_off(connection: sqlite3.Connection, statement: str) -> None:
    with transaction(connection, "DEFERRED"):
        connection.execute(statement)
        raise KeyboardInterrupt


def test_what_happens_inside_is_kept(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        connection.execute("INSERT INTO kept VALUES (1)")
    assert kept(connection) == [1]


def test_nothing_is_kept_of_what_is_broken_off(connection: sqlite3.Connection) -> None:
    with pytest.raises(KeyboardInterrupt):
        broken_off(connection, "INSERT INTO kept VALUES (1)")
    assert (kept(connection), connection.in_transaction) == ([], False)


def test_an_error_after_which_sqlite_has_undone_everything_comes_through(
    connection: sqlite3.Connection,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        broken_off(connection, "ROLLBACK")
    assert not connection.in_transaction
