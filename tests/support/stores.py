"""Stores for tests: one in memory, and one whose process dies at a given moment."""

from collections.abc import Callable, Sequence
from typing import Any

from surecall import Store, StoreConflict, Stored


class DictStore:
    """A store in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, Stored] = {}

    def load(self, key: str, known: int = 0) -> Stored | None:
        stored = self.kept.get(key)
        return None if stored is None or stored.version == known else stored

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        before = self.kept.get(key) or Stored(0, b"", ())
        if before.version != version:
            raise StoreConflict("another version is stored")
        assert keep <= len(before.messages)
        self.kept[key] = Stored(version + 1, head, (*before.messages[:keep], *messages))


class Killed(BaseException):
    """The process is dead. Nothing that it would do on any error happens any more."""


class Mortal:
    """A store as a process sees it that dies with its n-th write, before it or right after it."""

    def __init__(self, store: Store, writes: int, *, after: bool) -> None:
        self._store = store
        self._left = writes
        self._after = after
        self.is_dead = False

    def load(self, key: str, known: int = 0) -> Stored | None:
        if self.is_dead:
            raise Killed
        return self._store.load(key, known)

    def save(self, *change: Any) -> None:
        self._left -= 1
        if self.is_dead or (not self._left and not self._after):
            self.is_dead = True
            raise Killed
        self._store.save(*change)
        if not self._left:
            self.is_dead = True
            raise Killed


class Meddled(DictStore):
    """A store in which somebody else is faster: `meddle` is called before the next write."""

    def __init__(self) -> None:
        super().__init__()
        self.meddle: Callable[[], object] | None = None

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        super().save(key, version, head, keep, messages)
