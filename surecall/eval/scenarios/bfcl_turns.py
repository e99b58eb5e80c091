"""The multi-turn cases of the Berkeley leaderboard (BFCL), whose tools are programs of theirs.

    multi_turn/multi_turn_base.py     what is named with -s: to load it is to run their code
    multi_turn/multi_turn_base.json   its cases, one on each line
    multi_turn/_tools.json            the tools of each class
    multi_turn/_code/                 their classes, as they are in the wheel

After each turn of the user, the golden calls are made on objects of their own. The turn is right if
the objects of the model are then in the same state, and if everything that the golden calls
returned was returned to the model as well, in this turn or before. A turn without golden calls is
not judged. What follows a wrong turn is not asked.
"""

import ast
import importlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import msgspec

from surecall.eval.scenarios.expectations import Heard
from surecall.eval.scenarios.functions import FunctionWorld, Running
from surecall.eval.scenarios.misses import bounded, last_turn, missed
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Miss
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON

TOOLS_FILE: Final = "_tools.json"
CODE_FOLDER: Final = "_code"
CALLED: Final = "a tool is called"
SAME_STATE: Final = "the state is that after the golden calls"
SAME_RESULTS: Final = "every result of the golden calls was returned"
PACKAGE: Final = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
# The class, and the module that it is in.
CLASSES: Final[Mapping[str, str]] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_STATELESS: Final = frozenset({"MathAPI"})
# As many requests as they allow for one turn of the user.
_CONFIG: Final[JSON] = {
    "tool_use_mode": "relaxed",
    "tool_failure_policy": "tolerated",
    "max_turns": 21,
}


class Turn(msgspec.Struct, frozen=True):
    """What the user says, and the calls that do it, written as in Python."""

    text: str
    golden: list[str] = []


class MultiTurn(msgspec.Struct, frozen=True):
    """A case: its turns, the classes whose tools it offers, and how their objects begin."""

    id: str
    tags: list[str]
    turns: list[Turn]
    classes: list[str]
    begin: JSON = {}
    long: bool = False


def scenarios_in(path: Path) -> list[Scenario]:
    """Return the cases of a file; their classes are loaded from the folder of code beside it."""
    tools = msgspec.json.decode((path.parent / TOOLS_FILE).read_bytes(), type=dict[str, list[JSON]])
    lines = path.read_bytes().splitlines()
    cases = [msgspec.json.decode(line, type=MultiTurn) for line in lines]
    classes = _loaded({name for case in cases for name in case.classes}, path.parent / CODE_FOLDER)
    return [
        _scenario(case, tools, classes, line.decode())
        for case, line in zip(cases, lines, strict=True)
    ]


def _loaded(names: set[str], code: Path) -> dict[str, type]:
    """Import classes of theirs, from where they are installed or from the folder of code."""
    if str(code) not in sys.path:
        sys.path.append(str(code))
    found: dict[str, type] = {}
    for name in sorted(names):
        try:
            module = importlib.import_module(f"{PACKAGE}.{CLASSES[name]}")
        except ModuleNotFoundError as error:
            raise ConfigError(f"{name} needs a package: pip install {error.name}") from error
        found[name] = getattr(module, name)
    return found


def _scenario(
    case: MultiTurn, tools: Mapping[str, list[JSON]], classes: Mapping[str, type], source: str
) -> Scenario:
    registry = ToolRegistry([tool for name in case.classes for tool in tools[name]])

    def objects() -> Objects:
        return Objects({name: classes[name] for name in case.classes}, case.begin, long=case.long)

    return Scenario(
        id=case.id,
        summary="a conversation about objects that tools change",
        begin=lambda _: MultiTurnWorld(case.turns, registry, objects(), objects()),
        tags=tuple(case.tags),
        config=_CONFIG,
        source=source,
    )


class Objects:
    """Objects of their classes, and what their methods returned."""

    def __init__(self, classes: Mapping[str, type], begin: JSON, *, long: bool) -> None:
        self.by_class: dict[str, Any] = {name: each() for name, each in classes.items()}
        for name in self.by_class.keys() - _STATELESS:
            self.by_class[name]._load_scenario(deepcopy(begin.get(name, {})), long_context=long)  # noqa: SLF001  # how theirs begin
        self.returned: list[str] = []

    def call(self, name: str, /, *positional: Any, **arguments: Any) -> str:
        """Call a method; return what it returned as they write it, also if it raised."""
        # The last class that has a method is the one that is meant.
        owners = (each for each in reversed(self.by_class.values()) if hasattr(each, name))
        try:
            written = _written(getattr(next(owners, None), name)(*positional, **arguments))
        except Exception as error:
            written = f"Error during execution: {error}"
            raise ToolError(written) from error
        finally:
            self.returned.append(written)
        return written

    def make(self, calls: Sequence[str]) -> list[str]:
        """Make calls that are written as in Python; return what they returned."""
        before = len(self.returned)
        for each in calls:
            name, positional, arguments = read_call(each)
            try:
                self.call(name, *positional, **arguments)
            except ToolError:
                continue  # it is among what was returned
        return self.returned[before:]


def _written(value: Any) -> str:
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)


def _as_data(written: str) -> Any:
    """Return what a model is shown: an object as one, anything else as a text."""
    try:
        found = json.loads(written)
    except ValueError:
        return written
    return found if isinstance(found, dict) else written


def read_call(call: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Read a call with plain values, such as `cd(folder='x')`; nothing is evaluated."""
    match ast.parse(call, mode="eval").body:
        case ast.Call(ast.Name(name), positional, named):
            given = {str(each.arg): ast.literal_eval(each.value) for each in named}
            return name, [ast.literal_eval(each) for each in positional], given
        case _:
            raise ConfigError(f"{call!r:.80} is no call")


class MultiTurnWorld(FunctionWorld):
    """One attempt: the objects that the model changes, and those of the golden calls."""

    def __init__(
        self, turns: Sequence[Turn], registry: ToolRegistry, own: Objects, golden: Objects
    ) -> None:
        super().__init__(self._converse, registry)
        self.executor = self._execute
        self._turns = turns
        self._own = own
        self._golden = golden

    async def _execute(self, name: str, arguments: JSON) -> Any:
        # Theirs keep what they are given, and change it later.
        return _as_data(self._own.call(name, **deepcopy(arguments)))

    async def _converse(self, run: Running) -> None:
        history: list[Any] = []
        for turn in self._turns:
            heard = await run(turn.text, history=history)
            returned = self._golden.make(turn.golden)
            if turn.golden and not self._is_right(heard, returned):
                return
            if heard.failure is not None:
                return
            history = heard.history

    def _is_right(self, heard: Heard, wanted: Sequence[str]) -> bool:
        ended = last_turn(heard.result.run)
        if not heard.calls:
            return heard.note("process", missed(CALLED, "a call", "no call", ended))
        states = heard.note("state", *self._other_states(ended))
        left = list(self._own.returned)
        lacking = [each for each in wanted if not _taken(left, each)]
        misses = (missed(SAME_RESULTS, each, "another result", ended) for each in lacking)
        return heard.note("process", *misses) and states

    def _other_states(self, ended: int | None) -> Iterator[Miss]:
        for name, golden in self._golden.by_class.items():
            own = self._own.by_class[name]
            for key, wanted in vars(golden).items():
                if not key.startswith("_") and getattr(own, key) != wanted:
                    got = f"{name}.{key} is {_in_words(getattr(own, key))}"
                    yield missed(SAME_STATE, f"{name}.{key} is {_in_words(wanted)}", got, ended)


def _taken(left: list[str], wanted: str) -> bool:
    """Take one out of a list, if it is there."""
    if wanted not in left:
        return False
    left.remove(wanted)
    return True


def _in_words(value: Any) -> str:
    return bounded(repr(value))
