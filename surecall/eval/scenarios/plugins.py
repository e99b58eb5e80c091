"""Scenarios from users: Python files, installed packages, and recorded requests.

    path.py          every @scenario in the file, also those in lists
    path.py::name    one of them, or a group
    folder/          every *.py and *.jsonl file in it
    log.jsonl        one line = the full body of a request, perhaps with an `expect` beside it

A recorded request is sent once. It is judged as the verifiers of vendors do: the calls in the
reply must fit the schemas of their tools, and `expect` may say whether there should be any:

    {"messages": […], "tools": […], "expect": {"tool_call": true, "tools": ["state_get"]}}
"""

import importlib.metadata
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.outcome import RunFailed, RunResult
from surecall.core.state import Run
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.misses import (
    answer_missed,
    bounded,
    call_in_words,
    last_turn,
    missed,
    shown,
    what_came,
)
from surecall.eval.scenarios.scenario import (
    RESERVED,
    Ask,
    Executor,
    Scenario,
    check_id,
    digest,
    select_scenarios,
)
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Miss, Score
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.family import unknown
from surecall.values.types import JSON, ToolCall
from surecall.wire.content_parts import text_of
from surecall.wire.messages import RESERVED_OPTIONS

FITS: Final = "every call fits the schema of its tool"
GROUP: Final = "surecall.scenarios"
# The names of modules that are made from scenario files begin so.
MODULES: Final = "surecall_scenarios_"
_PYTHON, _LINES, _PART = ".py", ".jsonl", "::"
_SHOWN = 120
# A file that ends the program would end it silently, and with success.
_CRASHES = (Exception, SystemExit)
# Not options: what the runner or this module owns.
_OWNED = RESERVED_OPTIONS | {"id", "expect", "tags"}


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
    found = _recorded(path) if path.suffix == _LINES else _scenarios_in(_module(path))
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


# Recorded requests.


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a recorded request should lead to; an absent field is not checked."""

    tool_call: bool | None = None
    tools: tuple[str, ...] = ()
    text: str | None = None


class Recorded(msgspec.Struct, frozen=True):
    """One line of a file of requests."""

    messages: list[JSON]
    tools: list[JSON] = []
    tool_choice: str | JSON | None = None
    id: str = ""
    tags: tuple[str, ...] = ()
    expect: Expected = Expected()


async def _nothing(_name: str, _arguments: JSON) -> JSON:
    return {}


class RecordedWorld:
    """One attempt at a recorded request: it is sent once, and its tools do nothing."""

    def __init__(self, recorded: Recorded, registry: ToolRegistry) -> None:
        self.registry = registry
        self.executor: Executor | None = _nothing
        self.draft: JSON = {}
        self._recorded = recorded

    async def converse(self, ask: Ask) -> RunResult:
        """Send the request; a reply with calls ends it as well as one without."""
        try:
            return await ask(history=_conversation(self._recorded))
        except RunFailed as failure:
            if failure.code is not ErrorCode.MAX_TURNS_EXCEEDED:
                raise
            return failure.result

    def judge(self, result: RunResult) -> Score:
        """Judge the calls by their schemas, then by what was expected."""
        expected, calls = self._recorded.expect, _calls(result.run)
        invalid = [miss for turn, call in calls if (miss := _objection(turn, call))]
        unmet = list(_unmet(expected, calls, result))
        wanted = expected.text
        text = None if wanted is None else wanted in result.assistant_text
        wrong = () if wanted is None or text else (_lacking(result, wanted),)
        return Score(
            process=not invalid and not unmet,
            final=text,
            misses=(*invalid, *unmet, *wrong),
            facts={"tool_call": bool(calls), "schema_valid": not invalid},
        )


_Calls: TypeAlias = Sequence[tuple[int, ToolCall]]


def _calls(run: Run) -> _Calls:
    """List the calls of a run, each with its turn."""
    return [
        (turn, call)
        for turn, message in enumerate(run.said)
        for call in (*message.calls, *message.dropped)
    ]


def _objection(turn: int, call: ToolCall) -> Miss | None:
    # A call beyond the limit of the cell says nothing about its arguments.
    if call.problem is None or call.ignored:
        return None
    got = bounded(f"{call.name[:_SHOWN]}: {call.problem.code}: {call.problem.message}")
    return Miss(FITS, "fits the schema of its tool", got, turn, call.id)


def _unmet(expected: Expected, calls: _Calls, result: RunResult) -> Iterator[Miss]:
    """Hold the calls against those that are expected."""
    names = {call.name for _, call in calls}
    made = ", ".join(call_in_words(call.name, call.arguments) for _, call in calls)
    came, ended = made or what_came(result), last_turn(result.run)
    for name in expected.tools:
        if name not in names:
            yield missed(f"there is a call of {name}", f"a call of {name}", came, ended)
    if expected.tool_call and not calls:
        yield missed("there is a call of a tool", "a call of a tool", came, ended)
    elif expected.tool_call is False and calls:
        turn, call = calls[0]
        yield Miss("there is no call", "no call", bounded(came), turn, call.id)


def _lacking(result: RunResult, text: str) -> Miss:
    return answer_missed(result, f"the answer contains {shown(text)}", shown(text))


def _conversation(recorded: Recorded) -> list[JSON]:
    """Return the messages but the leading system text, which the runner sends by itself."""
    first = recorded.messages[0]
    return recorded.messages[1:] if first.get("role") == "system" else recorded.messages


def _recorded(path: Path) -> list[Scenario]:
    found: dict[str, Scenario] = {}
    # Only a line feed ends a line: JSON may hold the other separators as they are.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                one = _of_line(line.decode().strip(), f"{path.stem}_{number:03}")
                _check_ids((*found.values(), one))
            except RecursionError:
                raise ConfigError(f"{path}:{number}: nested too deeply") from None
            except (ConfigError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ConfigError(f"{path}:{number}: {error}") from None
            found[one.id] = one
    return list(found.values())


def _of_line(line: str, default_id: str) -> Scenario:
    body = msgspec.json.decode(line, type=dict[str, Any])
    recorded = msgspec.convert(body, Recorded)
    if not recorded.messages:
        raise ConfigError("messages is empty")
    if "response_format" in body:
        raise ConfigError("response_format cannot be sent from a recorded request")
    scenario_id = recorded.id or default_id
    check_id(scenario_id)
    registry = ToolRegistry(recorded.tools)
    first = recorded.messages[0]
    config: JSON = {"tool_use_mode": "relaxed" if recorded.tools else "disabled", "max_turns": 1}
    if recorded.tools and recorded.tool_choice is not None:
        config["tool_choice"] = recorded.tool_choice
    return Scenario(
        id=scenario_id,
        summary="a recorded request",
        begin=lambda _: RecordedWorld(recorded, registry),
        tags=recorded.tags,
        system=text_of(first.get("content")) if first.get("role") == "system" else "",
        config=config,
        options={key: body[key] for key in body if key not in _OWNED},
        uses_tools=bool(recorded.tools),
        source=line,
    )
