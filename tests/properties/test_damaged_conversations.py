"""Property test of damaged files: a stored conversation is loaded as it was, or refused.

Each case damages a copy of a file with several conversations: bytes of the b-tree structure, cells
that vanish from a table or an index, whole pages, rows deleted by someone else, truncation, and the
write-ahead log of a process that was killed.
Then every key is loaded, also with the version that the reader knows. An untyped error, another
content, or "there is no such conversation" for one that was stored breaks the property.
"""

import itertools
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from surecall import SqliteStore, Stored, SurecallError
from tests.support.generated import Broken, check, dice, many
from tests.support.trials import damaged_pages, in_small_pages

pytestmark = pytest.mark.slow

ABSENT: Final = ("0", "customer-7x", "zzz")
# Of a write-ahead log: its header, and a frame with its page.
LOG_HEADER: Final = 32
FRAME: Final = 24 + 4096
ROWS: Final = (
    "DELETE FROM conversations WHERE id = {0}",
    "DELETE FROM messages WHERE conversation = {0}",
    "DELETE FROM directory WHERE key = (SELECT key FROM conversations WHERE id = {0})",
    "DELETE FROM directory WHERE key = ''",
    "DELETE FROM directory",
    "DELETE FROM conversations",
    "UPDATE conversations SET key = CAST(key || 'x' AS BLOB) WHERE id = {0}",
    "UPDATE conversations SET version = version - 1 WHERE id = {0}",
    "UPDATE conversations SET id = id + 100 WHERE id = {0}",
    "UPDATE OR REPLACE messages SET conversation = conversation + 1 WHERE conversation = {0}",
    "UPDATE directory SET next = '' WHERE key = ''",
    "UPDATE directory SET sum = sum + {0}",
)


class Sound(NamedTuple):
    """A sound file, and what it holds."""

    data: bytes
    stored: dict[str, Stored]


def sound_file(path: Path, rng: random.Random, conversations: int) -> Sound:
    """Write conversations of several sizes and versions, in small pages, so that trees are deep."""
    with closing(SqliteStore(path)) as store:
        for number in rng.sample(range(conversations), conversations):
            for version in range(rng.randint(1, 3)):
                messages = [rng.randbytes(rng.choice((0, 9, 60))) for _ in range(rng.randint(0, 3))]
                head = rng.randbytes(rng.choice((0, 20, 40, 700)))
                store.save(f"customer-{number}", version, head, 0, messages)
        keys = store.keys()
        stored = {key: stored for key in keys if (stored := store.load(key)) is not None}
    assert len(stored) == conversations
    return Sound(in_small_pages(path), stored)


def changed_rows(sound: Sound, path: Path) -> Iterator[tuple[str, bytes]]:
    for number in range(1, len(sound.stored) + 1):
        for statement in ROWS:
            path.write_bytes(sound.data)
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(statement.format(number))
            yield statement.format(number), path.read_bytes()


def wrong_loads(path: Path, sound: Sound) -> Iterator[str]:
    """Load every conversation in all ways; say what is neither as stored nor refused."""
    try:
        with closing(SqliteStore(path)) as store:
            yield from _wrong_keys(store, sound)
            for key, stored in sound.stored.items():
                for known in (0, stored.version, stored.version + 1):
                    expected = None if known == stored.version else stored
                    try:
                        found = store.load(key, known)
                    except SurecallError:
                        continue
                    if found != expected:
                        yield f"{key} ({known=}) is {found}, not {expected}"
    except SurecallError:
        return
    except Exception as error:  # noqa: BLE001  # an untyped error is what is looked for
        yield f"{type(error).__name__}: {error}"


def _wrong_keys(store: SqliteStore, sound: Sound) -> Iterator[str]:
    try:
        if sorted(keys := store.keys()) != sorted(sound.stored):
            yield f"the keys are {keys}"
    except SurecallError:
        pass
    for key in ABSENT:
        try:
            if (found := store.load(key)) is not None:
                yield f"{key} was never stored and is {found}"
        except SurecallError:
            continue


def changed_logs(sound: bytes, rng: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Damage a write-ahead log: its header, headers of frames, pages, and its length."""
    frames = range(LOG_HEADER, len(sound), FRAME)
    for _ in range(count):
        at = rng.choice((rng.randrange(LOG_HEADER), rng.choice(frames) + rng.randrange(24)))
        at = rng.choice((at, rng.randrange(len(sound))))
        flipped = bytes([sound[at] ^ 1 << rng.randrange(8)])
        yield f"bit in the log at {at}", sound[:at] + flipped + sound[at + 1 :]
        yield f"log cut at {at}", sound[:at]


def saved_into(path: Path, sound: Sound, rng: random.Random) -> Sound:
    """Save a version of one conversation; return what must be loaded if that succeeded."""
    key = rng.choice([*sound.stored, "customer-5y"])
    stored = sound.stored.get(key, Stored(0, b"", ()))
    keep = rng.randint(0, len(stored.messages))
    new = Stored(stored.version + 1, b"head" * 200, (*stored.messages[:keep], b"new" * 100))
    try:
        with closing(SqliteStore(path)) as store:
            store.save(key, stored.version, new.head, keep, new.messages[keep:])
    except SurecallError:
        return sound
    return Sound(sound.data, {**sound.stored, key: new})


@pytest.mark.parametrize("conversations", [1, 9, 24])
def test_a_damaged_file_is_read_as_it_was_or_refused(tmp_path: Path, conversations: int) -> None:
    rng = dice("damaged conversations", conversations)
    sound = sound_file(tmp_path / "sound.db", rng, conversations)
    cases = [
        *damaged_pages(sound.data, rng, many(600)),
        *changed_rows(sound, tmp_path / "rows.db"),
    ]
    broken = []
    path = tmp_path / "damaged.db"
    for number, (name, data) in enumerate(cases):
        for old in tmp_path.glob("damaged.db*"):
            old.unlink()
        path.write_bytes(data)
        # Whoever goes on with one conversation must not harm the others.
        expected = saved_into(path, sound, rng) if number % 10 == 0 else sound
        if wrong := next(wrong_loads(path, expected), ""):
            broken.append(Broken(name.split()[0], name, wrong))

    check(broken, len(cases))


def test_a_damaged_log_is_read_as_it_was_or_refused(tmp_path: Path) -> None:
    rng = dice("damaged logs")
    source = tmp_path / "source.db"
    store = SqliteStore(source)
    for version, number in itertools.product(range(3), range(6)):
        store.save(f"customer-{number}", version, rng.randbytes(40), 0, [rng.randbytes(9)])
    keys = store.keys()
    stored = {key: stored for key in keys if (stored := store.load(key)) is not None}
    sound = Sound(source.read_bytes(), stored)
    note = Path(f"{source}-last").read_bytes()
    cases = [*changed_logs(Path(f"{source}-wal").read_bytes(), rng, many(250))]
    broken = []
    path = tmp_path / "damaged.db"
    for name, log in cases:
        for old in tmp_path.glob("damaged.db*"):
            old.unlink()
        path.write_bytes(sound.data)
        Path(f"{path}-wal").write_bytes(log)
        Path(f"{path}-last").write_bytes(note)
        if wrong := next(wrong_loads(path, sound), ""):
            broken.append(Broken(name.split()[0], name, wrong))

    check(broken, len(cases))
