"""Loads scenarios from Python files, installed packages, and files of recorded requests.

    path.py          every @scenario in the file, including those in lists
    path.py::name    one of them, or a group
    folder/          every *.py and *.jsonl file in it
    log.jsonl        every request in it; data only, see `recorded_scenarios`

Loading a Python file runs it.
"""

import importlib.metadata
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.recorded_scenarios import load_recorded
from surecall.eval.scenarios.scenario import (
    RESERVED_ID_ERROR,
    Scenario,
    select_scenarios,
    short_hash,
)
from surecall.eval.scenarios.work import WORK
from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message

ENTRY_POINT_GROUP: Final = "surecall.scenarios"
# The prefix of the names of modules loaded from scenario files.
MODULE_PREFIX: Final = "surecall_scenarios_"
_PYTHON_SUFFIX, _JSONL_SUFFIX, _NAME_SEPARATOR = ".py", ".jsonl", "::"
# SystemExit included: a file must not end the program silently and with success.
_CRASHES = (Exception, SystemExit)


def choose_scenarios(expression: str, additional: Iterable[Scenario] = ()) -> tuple[Scenario, ...]:
    """Return the scenarios that an expression of names, groups, and files selects.

    An expression with only files selects only those; a blank one selects the default group.
    """
    tokens = [token for part in expression.split(",") if (token := part.strip())]
    files = [token for token in tokens if is_scenario_file(token)]
    names = [token for token in tokens if not is_scenario_file(token)]
    loaded = tuple(scenario for token in files for scenario in load_scenarios(token))
    known = (*SCENARIOS, *WORK, *additional)
    named = select_scenarios(",".join(names), known) if names or not files else ()
    chosen = (*named, *loaded)
    _check_unique_ids(chosen)
    return chosen


def is_scenario_file(token: str) -> bool:
    """Whether a token of an expression is a file or a folder."""
    path = path_in_token(token)
    return path.endswith((_PYTHON_SUFFIX, _JSONL_SUFFIX)) or "/" in path


def path_in_token(token: str) -> str:
    """Return the path in a token, without `::name`."""
    return token.partition(_NAME_SEPARATOR)[0]


def load_scenarios(token: str) -> tuple[Scenario, ...]:
    """Load the scenarios of a file, a folder, or `file::name`."""
    location, part, name = token.partition(_NAME_SEPARATOR)
    path = Path(location)
    if path.is_dir():
        found = [item for file in _scenario_files(path) for item in _load_file(file)]
    elif path.is_file():
        found = list(_load_file(path))
    else:
        raise ConfigError(f"no scenario file {location!r}")
    if not part:
        return tuple(found)
    chosen = tuple(item for item in found if name in {item.id, *item.tags})
    if not chosen:
        known = [item.id for item in found]
        raise ConfigError(f"{location}: {unknown_name_message('scenario', name, known)}")
    return chosen


def load_installed() -> tuple[Scenario, ...]:
    """Load the scenarios of installed packages, from their entry points."""
    found: list[Scenario] = []
    for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        try:
            loaded = entry.load()
        except _CRASHES as error:
            raise ConfigError(
                f"entry point {entry.name!r} of {ENTRY_POINT_GROUP}: {_error_text(error)}"
            ) from error
        offered = _find_scenarios(loaded)
        if not offered:
            raise ConfigError(
                f"entry point {entry.name!r} of {ENTRY_POINT_GROUP} has no scenarios: name a "
                "module with @scenario functions"
            )
        _check_not_control(offered, f"entry point {entry.name!r} of {ENTRY_POINT_GROUP}")
        found += offered
    _check_unique_ids(found)
    return tuple(found)


def _scenario_files(folder: Path) -> list[Path]:
    files = sorted(
        file for file in folder.iterdir() if file.suffix in {_PYTHON_SUFFIX, _JSONL_SUFFIX}
    )
    return [file for file in files if not file.name.startswith(("_", "."))]


def _load_file(path: Path) -> Sequence[Scenario]:
    found = (
        load_recorded(path) if path.suffix == _JSONL_SUFFIX else _find_scenarios(_run_module(path))
    )
    if not found:
        raise ConfigError(f"{path}: the file has no scenarios: decorate a function with @scenario")
    _check_not_control(found, str(path))
    return found


def _run_module(path: Path) -> ModuleType:
    """Run a Python file as a module; errors name the file and line."""
    name = f"{MODULE_PREFIX}{path.stem}_{short_hash(str(path.resolve()))}"
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
        raise ConfigError(f"{path}:{_error_line(path, error)}: {_error_text(error)}") from error
    return module


def _error_line(path: Path, error: BaseException) -> int:
    """Return the number of the last line of the file that the traceback names; 0 if none."""
    frames = traceback.extract_tb(error.__traceback__)
    # Tracebacks use absolute paths.
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path.absolute()]
    return (lines[-1] if lines else 0) or 0


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"


def _find_scenarios(loaded: Any) -> list[Scenario]:
    """Return the scenarios in a scenario, an iterable, or a module and its lists."""
    if isinstance(loaded, Scenario):
        return [loaded]
    if isinstance(loaded, ModuleType):
        values = list(vars(loaded).values())
        items = [*values, *(item for each in values if isinstance(each, list) for item in each)]
    else:
        items = list(loaded) if isinstance(loaded, Iterable) else []
    found = (item for item in items if isinstance(item, Scenario))
    # A module may have several names for one scenario.
    return list({id(item): item for item in found}.values())


def _check_not_control(scenarios: Iterable[Scenario], source: str) -> None:
    """Raise `ConfigError` for the control's id, which only the decorator checks."""
    for one in scenarios:
        if one.is_control:
            raise ConfigError(f"{source}: {RESERVED_ID_ERROR}")


def _check_unique_ids(scenarios: Iterable[Scenario]) -> None:
    seen: set[str] = set()
    for one in scenarios:
        if one.id in seen:
            raise ConfigError(f"two scenarios have the id {one.id!r}: rename one")
        seen.add(one.id)
