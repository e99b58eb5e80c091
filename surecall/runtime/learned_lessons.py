"""What endpoints have rejected: learned from one request, stored for the next run.

    rejection ─ LessonLearner ─► lessons ─ confirmed ─► LessonBook ─► lessons.db in the user's cache

A `LessonBook` belongs to one endpoint and maps each model to its lessons. It reads the file at the
first request, and writes it only when something was learned. The file may be missing, damaged,
locked, or written by a newer version; then lessons last as long as the process. Lessons expire, so
that a changed endpoint is relearned. `sqlite3`, `pathlib`, and `logging` are imported inside
functions, so that importing this module is cheap.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from surecall.core.refusals import is_about_request
from surecall.settings.connection import is_loopback
from surecall.settings.overlay import union
from surecall.values.errors import ConfigError, Fault
from surecall.wire.request_adaptations import API_PREFIX, describe_lesson, is_known_lesson

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

# Rejections that a request may learn from. If it is still rejected, more changes will not help.
MAX_REJECTIONS: Final = 3
# The name of a retry without the lessons that were known before.
RELEARNED: Final = "relearned"

FindLessons = Callable[[tuple[str, ...], tuple[str, ...]], tuple[str, ...]]


class LessonLearner:
    """The lessons of one request: those known for its model, and those its rejections teach.

    A lesson is confirmed, and cached for the next request, once the endpoint has accepted a request
    with it or rejects it for another reason. One that does not help is dropped. If a request is
    rejected that only earlier lessons have changed, the endpoint may have changed: it is sent once
    more without them.
    """

    def __init__(
        self, cache: MutableMapping[str, tuple[str, ...]], model: str, always: tuple[str, ...] = ()
    ) -> None:
        self._cache = cache
        self._model = model
        self._always = always
        self._known = tuple(cache.get(model, ()))
        self._unconfirmed: tuple[str, ...] = ()
        self._tried: tuple[str, ...] = ()
        self._last_rejection = ""
        self.rejections = 0
        self.lessons = union(always, self._known) if self._known else always

    def confirm(self) -> None:
        """Cache the lessons that helped."""
        if self._unconfirmed:
            self._cache_lessons()
            self._unconfirmed = ()

    def _cache_lessons(self, withdrawn: tuple[str, ...] = ()) -> None:
        """Cache the lessons for later requests to the model, without the withdrawn ones."""
        ours = tuple(each for each in self.lessons if each not in self._always)
        # Another request may have learned something else in the meantime.
        cached = (each for each in self._cache.get(self._model, ()) if each not in withdrawn)
        self._cache[self._model] = union(tuple(cached), ours)

    def learn(self, fault: Fault, find: FindLessons) -> tuple[str, ...]:
        """Return the names of the changes that a rejection teaches, if any.

        `find` returns the lessons for a request that was adapted to the first argument; those in
        the second were tried unsuccessfully.
        """
        if self.rejections >= MAX_REJECTIONS or not is_about_request(fault):
            return ()
        if self._unconfirmed and fault.message == self._last_rejection:
            self.lessons = tuple(each for each in self.lessons if each not in self._unconfirmed)
            if _is_for_client(self._unconfirmed):
                self._cache_lessons(withdrawn=self._unconfirmed)
            self._unconfirmed = ()
        else:
            self.confirm()
        self._last_rejection = fault.message
        found = find(self.lessons, self._tried)
        if found:
            self._tried = (*self._tried, *found)
            self._unconfirmed = found
            self.lessons = union(self.lessons, found)
            if _is_for_client(found):
                self._cache_lessons()
        elif self._known:
            self._cache.pop(self._model, None)
            self.lessons, self._known = self._always, ()
            found = (RELEARNED,)
        self.rejections += bool(found)
        return found


def _is_for_client(lessons: tuple[str, ...]) -> bool:
    """Whether the client must know the lessons to send the next request."""
    return any(lesson.startswith(API_PREFIX) for lesson in lessons)


# The file of lessons.

FILE_VARIABLE: Final = "SURECALL_LESSONS"
_OFF: Final = frozenset({"off", "0", "no", "false"})
_VERSION: Final = 1
_LIFE_S: Final = 30 * 24 * 3600.0
# Ports that the system assigns belong to another server tomorrow.
_ASSIGNED_PORTS: Final = 32768
_ASSIGNED_LIFE_S: Final = 3600.0
_BUSY_S: Final = 0.5
_MAX_LESSONS: Final = 64
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS lesson (
    endpoint TEXT NOT NULL, model TEXT NOT NULL, lesson TEXT NOT NULL, learned_at REAL NOT NULL,
    PRIMARY KEY (endpoint, model, lesson)
)
"""


class StoredLesson(msgspec.Struct, frozen=True):
    """One lesson about an endpoint and a model."""

    endpoint: str
    model: str
    lesson: str
    learned_at: float

    def has_expired(self, now: float) -> bool:
        """Whether the lesson is too old to be used; one from the future is, too."""
        parts = urlsplit(self.endpoint)
        assigned = is_loopback(parts.hostname or "") and (parts.port or 0) >= _ASSIGNED_PORTS
        return not 0 <= now - self.learned_at < (_ASSIGNED_LIFE_S if assigned else _LIFE_S)


def default_lesson_file(environment: Mapping[str, str] = os.environ) -> "Path | None":
    """Return the file in the user's cache directory; None if the environment turns it off."""
    from pathlib import Path  # noqa: PLC0415 - see the module's first lines

    given = environment.get(FILE_VARIABLE, "").strip()
    if given.lower() in _OFF:
        return None
    if given:
        return Path(given).expanduser()
    cache = environment.get("XDG_CACHE_HOME", "")
    with suppress(RuntimeError):  # no home directory
        base = Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache"
        return base / "surecall" / "lessons.db"
    return None


class LessonStore:
    """The lessons of all endpoints, in one SQLite file that several processes may use."""

    def __init__(self, path: "Path", clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.clock = clock

    def read(self, endpoint: str | None = None) -> list[StoredLesson]:
        """Return the lessons that have not expired; empty if the file cannot be read."""
        query = "SELECT endpoint, model, lesson, learned_at FROM lesson ORDER BY learned_at, rowid"
        now = self.clock()
        found = [StoredLesson(*row) for row in self._execute(query) if _is_valid_row(row)]
        return [
            each
            for each in found
            if not each.has_expired(now) and endpoint in {None, each.endpoint}
        ]

    def add(self, lessons: list[StoredLesson]) -> None:
        """Store lessons. A damaged file is replaced; one of a newer version is left alone."""
        import sqlite3  # noqa: PLC0415 - see the module's first lines

        with suppress(OSError, sqlite3.OperationalError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                self._write(lessons)
            except sqlite3.OperationalError:  # locked, read-only, or newer
                raise
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                self.path.unlink()
                self._write(lessons)

    def remove(
        self, endpoint: str | None = None, model: str | None = None, lesson: str | None = None
    ) -> int:
        """Remove the lessons that match, or all; return how many."""
        wanted = {"endpoint": endpoint, "model": model, "lesson": lesson}
        given = {key: value for key, value in wanted.items() if value is not None}
        where = " AND ".join(f"{key} = ?" for key in given) or "1"
        query = f"DELETE FROM lesson WHERE {where} RETURNING 1"  # noqa: S608  # the keys are fixed
        return len(self._execute(query, *given.values()))

    def _execute(self, query: str, *parameters: str) -> list[Any]:
        """Return the rows of a statement; empty if the file is missing or cannot be used."""
        import sqlite3  # noqa: PLC0415 - see the module's first lines

        if not self.path.is_file():
            return []
        with (
            suppress(sqlite3.Error, OSError, UnicodeDecodeError),
            self._connect() as database,
            database,
        ):
            return database.execute(query, parameters).fetchall()
        return []

    def _write(self, lessons: list[StoredLesson]) -> None:
        with self._connect() as database, database:
            database.execute(_SCHEMA)
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.executemany(
                "INSERT OR REPLACE INTO lesson VALUES (?, ?, ?, ?)",
                [msgspec.structs.astuple(each) for each in lessons],
            )

    @contextmanager
    def _connect(self) -> "Iterator[sqlite3.Connection]":
        """Open the file; raise `sqlite3.Error` if a newer version wrote it."""
        import sqlite3  # noqa: PLC0415 - see the module's first lines

        with closing(sqlite3.connect(self.path, timeout=_BUSY_S)) as database:
            if database.execute("PRAGMA user_version").fetchone()[0] > _VERSION:
                raise sqlite3.OperationalError("written by a newer version")
            # A lesson lost in a power failure is learned again.
            database.execute("PRAGMA synchronous = OFF")
            yield database


def _is_valid_row(row: tuple[object, ...]) -> bool:
    endpoint, model, lesson, learned_at = row
    return (
        isinstance(endpoint, str)
        and isinstance(model, str)
        and isinstance(learned_at, int | float)
        and isinstance(lesson, str)
        and is_known_lesson(lesson)
    )


class LessonBook(MutableMapping[str, tuple[str, ...]]):
    """The lessons of one endpoint, by model; with a store, they outlast the process."""

    def __init__(self, endpoint: str, store: LessonStore | None) -> None:
        self._endpoint = endpoint
        self._store = store
        self._by_model: dict[str, tuple[str, ...]] | None = None

    def _lessons_by_model(self) -> dict[str, tuple[str, ...]]:
        if self._by_model is None:
            self._by_model = {}
            stored = [] if self._store is None else self._store.read(self._endpoint)
            for each in stored[:_MAX_LESSONS]:
                known = self._by_model.get(each.model, ())
                self._by_model[each.model] = (*known, each.lesson)
        return self._by_model

    def get(self, model: str, default: Any = None) -> Any:
        """Return the lessons of a model; asked before each request, so without an exception."""
        return self._lessons_by_model().get(model, default)

    def __getitem__(self, model: str) -> tuple[str, ...]:
        return self._lessons_by_model()[model]

    def __setitem__(self, model: str, lessons: tuple[str, ...]) -> None:
        known = self._lessons_by_model().get(model, ())
        added = [each for each in lessons if each not in known]
        self._lessons_by_model()[model] = lessons
        self._log(model, added)
        if self._store is None:
            return
        now = self._store.clock()
        if added:
            self._store.add([StoredLesson(self._endpoint, model, each, now) for each in added])
        for each in set(known).difference(lessons):
            self._store.remove(self._endpoint, model, each)

    def _log(self, model: str, added: list[str]) -> None:
        """Log the lessons that were learned."""
        if not added:
            return
        import logging  # noqa: PLC0415 - see the module's first lines

        what = "; ".join(map(describe_lesson, added))
        logging.getLogger("surecall").warning(
            "%s at %s refused a request: surecall now %s", model, self._endpoint, what
        )

    def __delitem__(self, model: str) -> None:
        del self._lessons_by_model()[model]
        if self._store is not None:
            self._store.remove(self._endpoint, model)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lessons_by_model())

    def __len__(self) -> int:
        return len(self._lessons_by_model())


def lesson_store(place: "bool | str | Path") -> LessonStore | None:  # yes or no, or where
    """Return the store at a path, the default one for true, and None for false."""
    from pathlib import Path  # noqa: PLC0415 - see the module's first lines

    path = default_lesson_file() if place is True else Path(place) if place else None
    return None if path is None else LessonStore(path)


def export_lessons(lessons: list[StoredLesson]) -> bytes:
    """Return lessons as JSON, to be imported elsewhere."""
    return msgspec.json.format(msgspec.json.encode({"version": _VERSION, "lessons": lessons}))


class _LessonFile(msgspec.Struct):
    """Exported lessons, with the version of their format."""

    version: int
    lessons: list[StoredLesson]


def import_lessons(data: bytes) -> list[StoredLesson]:
    """Parse exported lessons; raise `ConfigError` if the data is not a list of known lessons."""
    try:
        given = msgspec.json.decode(data, type=_LessonFile)
    except msgspec.MsgspecError as problem:
        raise ConfigError(f"not a file of lessons: {problem}") from None
    if given.version > _VERSION:
        raise ConfigError(f"the file has version {given.version}; this surecall reads {_VERSION}")
    for each in given.lessons:
        if not is_known_lesson(each.lesson):
            raise ConfigError(f"unknown lesson {each.lesson!r}")
    return given.lessons
