"""What is wrong with the SQLite file of a run, in one clear sentence."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from surecall.eval.storage.run_directories import StoreError

_DAMAGED: Final = (
    "{path} is damaged ({error}) and was left as it is; restore it, or begin again with --fresh"
)
_UNWRITTEN: Final = (
    "{path} could not be written ({error}); every trial recorded before is safe, and the same "
    "command continues once there is room"
)
_USELESS: Final = "cannot use {path}: {error}"
_SENTENCES: Final = {
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_FULL: _UNWRITTEN,
    sqlite3.SQLITE_IOERR: _UNWRITTEN,
}


class BlankStore(StoreError):
    """A killed command left a file without tables."""


def damaged(path: Path, error: object) -> StoreError:
    """Say what is damaged, on one line."""
    return StoreError(_DAMAGED.format(path=path, error=" ".join(str(error).split())))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite says about a file into one clear sentence."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the kind of error; the rest says where inside SQLite it was noticed.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(_SENTENCES.get(kind, _USELESS).format(path=path, error=error)) from error
    except (UnicodeError, OverflowError) as error:
        # A name that is no text, a number that is too large.
        raise StoreError(_USELESS.format(path=path, error=error)) from error
