"""Scenarios from users: Python files, installed packages, and recorded requests.

    path.py          every @scenario in the file, also those in lists
    path.py::name    one of them, or a group
    folder/          every *.py and *.jsonl file in it
    log.jsonl        every request in it, which is data: see `recorded`

To load a Python file is to run it.
"""

import importlib.metadata
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.recorded import load_recorded
from surecall.eval.scenarios.scenario import (
    RESERVED,
    Scenario,
    digest,
    select_scenarios,
)
from surecall.eval.scenarios.work import WORK
from surecall.values.errors import ConfigError
from surecall.values.family import unknown

GROUP: Final = "surecall.scenarios"
# The names of modules that are made from scenario files begin so.
MODULES: Final = "surecall_scenarios_"
_PYTHON, _LINES, _PART = ".py", ".jsonl", "::"
# A file that ends the program would end it silently, and with success.
_CRASHES = (Exception, SystemExit)


def choose(expression: str, more: Iterable[Scenario] = ()) -> tuple[Scenario, ...]:
    """Return the scenarios that an expression picks; it may mix names, groups and files.

    Without any name in it, the files alone are meant; blank means the default group.
    """
    tokens = [token for part in expression.split(",") if (token := part.strip())]
    files = [token for token in tokens if is_file(token)]
    names = [token for token in tokens if not is_file(token)]
    loaded = tuple(scenario for token in files for scenario in load(token))
    known = (*SCENARIOS, *WORK, *more)
    named = select_scenarios(",".join(names), known) if names or not files else ()
    chosen = (*named, *loaded)
    _check_ids(chosen)
    return chosen


def is_file(token: str) -> bool:
    """Whether a token of an expression means a file or a folder."""
    path = file_in(token)
    return path.endswith((_PYTHON, _LINES)) or "/" in path


def file_in(token: str) -> str:
    """Return the path in a token, without the name of a scenario in the file."""
    return token.partition(_PART)[0]


def load(token: str) -> tuple[Scenario, ...]:
    """Load the scenarios of a file, of a folder, or those that `file::name` means."""
    location, part, name = token.partition(_PART)
    path = Path(location)
    if path.is_dir():
        found = [item for file in _files_in(path) for item in _load_file(file)]
    elif path.is_file():
        found = list(_load_file(path))
    else:
        raise ConfigError(f"there is no scenario file {location!r}")
    if not part:
        return tuple(found)
    chosen = tuple(item for item in found if name in {item.id, *item.tags})
    if not chosen:
        known = [item.id for item in found]
        raise ConfigError(f"{location}: {unknown('scenario', name, known)}")
    return chosen


def installed() -> tuple[Scenario, ...]:
    """Load the scenarios that installed packages offer."""
    found: list[Scenario] = []
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            loaded = entry.load()
        except _CRASHES as error:
            raise ConfigError(f"entry point {entry.name!r} of {GROUP}: {_said(error)}") from error
        offered = _scenarios_in(loaded)
        if not offered:
            raise ConfigError(f"entry point {entry.name!r} of {GROUP} offers no scenario")
        _check_own(offered, f"entry point {entry.name!r} of {GROUP}")
        found += offered
    _check_ids(found)
    return tuple(found)


def _files_in(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.suffix in {_PYTHON, _LINES})
    return [file for file in files if not file.name.startswith(("_", "."))]


def _load_file(path: Path) -> Sequence[Scenario]:
    found = load_recorded(path) if path.suffix == _LINES else _scenarios_in(_module(path))
    if not found:
        raise ConfigError(f"{path}: there is no scenario in it")
    _check_own(found, str(path))
    return found


def _module(path: Path) -> ModuleType:
    """Run a Python file as a module of its own; errors name the file and line."""
    name = f"{MODULES}{path.stem}_{digest(str(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ConfigError(f"{path}:{error.lineno or 0}: {error.msg}") from error
    except _CRASHES as error:
        raise ConfigError(f"{path}:{_line_in(path, error)}: {_said(error)}") from error
    return module


def _line_in(path: Path, error: BaseException) -> int:
    """Return the last line of the file itself that led to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    # Python names a file by its whole path, however it was asked for.
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path.absolute()]
    return (lines[-1] if lines else 0) or 0


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"


def _scenarios_in(loaded: Any) -> list[Scenario]:
    """Find scenarios: one, several, or those that a module defines, also in lists."""
    if isinstance(loaded, Scenario):
        return [loaded]
    if isinstance(loaded, ModuleType):
        values = list(vars(loaded).values())
        items = [*values, *(item for each in values if isinstance(each, list) for item in each)]
    else:
        items = list(loaded) if isinstance(loaded, Iterable) else []
    found = (item for item in items if isinstance(item, Scenario))
    # A module may have a scenario under several names.
    return list({id(item): item for item in found}.values())


def _check_own(scenarios: Iterable[Scenario], place: str) -> None:
    """Refuse the id of the control, also in a scenario that was made without the decorator."""
    for one in scenarios:
        if one.is_control:
            raise ConfigError(f"{place}: {RESERVED}")


def _check_ids(scenarios: Iterable[Scenario]) -> None:
    seen: set[str] = set()
    for one in scenarios:
        if one.id in seen:
            raise ConfigError(f"two scenarios are called {one.id!r}")
        seen.add(one.id)
