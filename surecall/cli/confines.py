"""What a file of the working directory may not decide: which Python runs, where files are written.

A directory may come from anyone. Whoever names something on the command line means it.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from surecall.eval.scenarios.plugins import file_in, is_file
from surecall.eval.settings.fields import FIELDS, Settings
from surecall.eval.settings.keys import Place
from surecall.eval.settings.load import DEFAULT, Effective
from surecall.eval.settings.parse import DASK, LOCAL
from surecall.values.errors import ConfigError

_SCENARIOS, _OUTPUT, _ENGINE = "scenarios", "output_dir", "engine"
_DATA: Final = ".jsonl"


def confined(effective: Effective, here: Path) -> Effective:
    """Leave out scenario files that may not be loaded; refuse to write outside the directory."""
    _check_output(effective, here)
    _check_engine(effective)
    place = effective.place(_SCENARIOS)
    if place in {Place.COMMAND_LINE, Place.NOWHERE}:
        return effective
    tokens = [token.strip() for token in effective.settings.scenarios.split(",")]
    unloaded = tuple(
        token for token in tokens if is_file(token) and not _is_data(token, here, place)
    )
    if not unloaded:
        return effective
    return _without(effective, [token for token in tokens if token not in unloaded], unloaded)


def _is_data(token: str, here: Path, place: Place) -> bool:
    """Whether a token names recorded requests; a file of the directory may only name its own."""
    path = here / file_in(token)
    if path.suffix != _DATA or not path.is_file():
        return False
    return not place.in_directory or path.resolve().is_relative_to(here.resolve())


def _without(effective: Effective, kept: list[str], unloaded: tuple[str, ...]) -> Effective:
    source, files = effective.sources[_SCENARIOS], ",".join(unloaded)
    told = (
        f"{source} names {files}, which was not loaded: a file with scenarios is read only if it "
        f"is named on the command line, as in {FIELDS[_SCENARIOS].flags[-1]} {files}"
    )
    scenarios = ",".join(kept) or Settings().scenarios
    return msgspec.structs.replace(
        effective,
        settings=msgspec.structs.replace(effective.settings, scenarios=scenarios),
        sources=effective.sources | ({} if kept else {_SCENARIOS: DEFAULT}),
        warnings=(*effective.warnings, told),
        unloaded=unloaded,
    )


def _check_output(effective: Effective, here: Path) -> None:
    if effective.place(_OUTPUT) in {Place.COMMAND_LINE, Place.ENVIRONMENT}:
        return
    source, given = effective.sources[_OUTPUT], effective.settings.output_dir
    named = given if source == DEFAULT else source
    path = Path(os.path.normpath(here / given))
    if not path.is_relative_to(here):
        raise ConfigError(f"{named}: must be a folder in this directory; {_HOW}")
    if (here / given).resolve() != here.resolve() / path.relative_to(here):
        raise ConfigError(f"{named}: is a symbolic link, or behind one; {_HOW}")


def _check_engine(effective: Effective) -> None:
    """Refuse a cluster that a file names: it would be sent code and keys."""
    engine = effective.settings.engine
    if effective.place(_ENGINE).in_directory and engine not in {LOCAL, DASK}:
        raise ConfigError(
            f"{effective.sources[_ENGINE]} names a cluster, which only the command line or the "
            f"environment may do: pass {FIELDS[_ENGINE].flags[-1]} {engine}"
        )


_HOW: Final = f"to write elsewhere, name the place with {FIELDS[_OUTPUT].flags[-1]}"
