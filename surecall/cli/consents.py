"""What the user has allowed: which addresses the files of which directory may send a key to.

    ~/.config/surecall/trust.json      or below XDG_CONFIG_HOME; never in the directory itself

A consent is for one directory, by its real path, and one origin: scheme, host and port. Only a
file that the user owns, and that nobody else can change, counts.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from surecall.eval.storage.run_directories import typed_errors, write_file
from surecall.values.errors import ConfigError

_FILE: Final = "trust.json"
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_BYTES: Final = 2**20


class Consent(msgspec.Struct, frozen=True, order=True):
    """One address that the files of a directory may send a key to."""

    directory: str
    origin: str


_DECODER: Final = msgspec.json.Decoder(list[Consent])


def consent_file() -> Path:
    """Return where the consents of this user are kept."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative path would lie in the working directory, whose files must not count.
    base = given if given.is_absolute() else _home() / ".config"
    return base / "surecall" / _FILE


def _home() -> Path:
    """Return the home of the user; one without any, as in a container, has trusted nothing."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)  # nothing is below it, and nothing can be


def consents() -> tuple[Consent, ...]:
    """Read the consents; without a file that can be opened there are none."""
    path = consent_file()
    try:
        data = _read(path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            return ()
        raise ConfigError(f"{path} is a symbolic link and does not count; remove it") from None
    try:
        return tuple(_DECODER.decode(data))
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read ({error}); remove it to trust nothing") from None


def keep(found: Iterable[Consent]) -> Path:
    """Write all consents, for the user's eyes only; return where they are."""
    path = consent_file()
    with typed_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, msgspec.json.format(msgspec.json.encode(sorted(set(found)))) + b"\n")
    return path


def trusted_in(directory: Path) -> frozenset[str]:
    """Return the origins that the files of a directory may send a key to."""
    here = real(directory)
    return frozenset(each.origin for each in consents() if each.directory == here)


def real(directory: Path) -> str:
    """Name a directory by its real path, so that no link stands for another one."""
    return str(directory.resolve())


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if status.st_mode & _OTHERS_MAY_WRITE or status.st_uid != _user(status):
            raise ConfigError(
                f"{path} can be changed by others, so it does not count; chmod 600 it"
            )
        return file.read(_MOST_BYTES)


def _user(status: os.stat_result) -> int:
    """Return who runs this program; where nobody has a number, whoever owns the file."""
    return os.geteuid() if hasattr(os, "geteuid") else status.st_uid
