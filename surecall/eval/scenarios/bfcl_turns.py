"""Multi-turn cases of the Berkeley Function-Calling Leaderboard (BFCL) as scenarios.

The tools are methods of BFCL's own Python classes.

    multi_turn/multi_turn_base.py     the file for -s; loading it runs third-party code
    multi_turn/multi_turn_base.json   its cases, one per line
    multi_turn/_tools.json            the tools of each class
    multi_turn/_code/                 the classes, copied from the wheel

After each user turn, the golden calls are made on separate objects. The turn passes if the model's
objects are in the same state, and if every result of the golden calls was also returned to the
model, in this turn or an earlier one. A turn without golden calls is not judged. The conversation
ends after a wrong turn.
"""

import ast
import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import msgspec

from surecall.eval.scenarios.bfcl import (
    PACK,
    BfclFunction,
    MappingCounts,
    find_folder,
    openai_tool,
    read_answers,
    read_cases,
    read_file,
    read_json_lines,
    sample_evenly,
)
from surecall.eval.scenarios.expectations import ConversationResult, last_turn, make_miss, shorten
from surecall.eval.scenarios.function_scenarios import FunctionWorld, ScenarioRun
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Miss
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON
from surecall.wire.chat_format import encode

TOOLS_FILE: Final = "_tools.json"
CODE_FOLDER: Final = "_code"
CALLED_CHECK: Final = "a tool is called"
STATE_CHECK: Final = "the state is that after the golden calls"
RESULTS_CHECK: Final = "every result of the golden calls was returned"
PACKAGE: Final = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
# The module of each class.
MODULE_BY_CLASS: Final[Mapping[str, str]] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
# BFCL's limit of requests per user turn.
_CONFIG: Final[JSON] = {
    "tool_use_mode": "relaxed",
    "tool_failure_policy": "tolerated",
    "max_turns": 21,
}


class BfclTurn(msgspec.Struct, frozen=True):
    """A user message, and the golden calls that fulfill it, as Python source."""

    text: str
    golden: list[str] = []


class MultiTurnCase(msgspec.Struct, frozen=True):
    """A case: its turns, the classes whose tools it exposes, and their initial state."""

    id: str
    tags: list[str]
    turns: list[BfclTurn]
    classes: list[str]
    begin: JSON = {}
    long: bool = False


def scenarios_in(path: Path) -> list[Scenario]:
    """Return the cases of a file; their classes are imported from the code folder next to it."""
    tools = msgspec.json.decode((path.parent / TOOLS_FILE).read_bytes(), type=dict[str, list[JSON]])
    lines = path.read_bytes().splitlines()
    cases = [msgspec.json.decode(line, type=MultiTurnCase) for line in lines]
    classes = _import_classes(
        {name for case in cases for name in case.classes}, path.parent / CODE_FOLDER
    )
    return [
        _multi_turn_scenario(case, tools, classes, line.decode())
        for case, line in zip(cases, lines, strict=True)
    ]


def _import_classes(names: set[str], code: Path) -> dict[str, type]:
    """Import BFCL classes, from an installed package or the code folder."""
    if str(code) not in sys.path:
        sys.path.append(str(code))
    found: dict[str, type] = {}
    for name in sorted(names):
        try:
            module = importlib.import_module(f"{PACKAGE}.{MODULE_BY_CLASS[name]}")
        except ModuleNotFoundError as error:
            raise ConfigError(f"{name} needs a package: pip install {error.name}") from error
        found[name] = getattr(module, name)
    return found


def _multi_turn_scenario(
    case: MultiTurnCase, tools: Mapping[str, list[JSON]], classes: Mapping[str, type], source: str
) -> Scenario:
    registry = ToolRegistry([tool for name in case.classes for tool in tools[name]])

    def objects() -> ApiObjects:
        return ApiObjects(
            {name: classes[name] for name in case.classes}, case.begin, long=case.long
        )

    return Scenario(
        id=case.id,
        summary="a conversation about objects that tools change",
        begin=lambda _: MultiTurnWorld(case.turns, registry, objects(), objects()),
        tags=tuple(case.tags),
        config=_CONFIG,
        source=source,
    )


class ApiObjects:
    """Instances of BFCL classes, and the results of their methods."""

    def __init__(self, classes: Mapping[str, type], begin: JSON, *, long: bool) -> None:
        self.by_class: dict[str, Any] = {name: each() for name, each in classes.items()}
        for name in self.by_class.keys() - {"MathAPI"}:
            self.by_class[name]._load_scenario(deepcopy(begin.get(name, {})), long_context=long)  # noqa: SLF001  # BFCL's initializer
        self.returned: list[str] = []

    def call(self, name: str, /, *positional: Any, **arguments: Any) -> str:
        """Call a method and return its result as text in BFCL's format; raise `ToolError`."""
        # If several classes have the method, the last one counts.
        owners = (each for each in reversed(self.by_class.values()) if hasattr(each, name))
        try:
            written = _result_text(getattr(next(owners, None), name)(*positional, **arguments))
        except Exception as error:
            written = f"Error during execution: {error}"
            raise ToolError(written) from error
        finally:
            self.returned.append(written)
        return written

    def make_calls(self, calls: Sequence[str]) -> list[str]:
        """Make calls given as Python source, and return their results."""
        before = len(self.returned)
        for each in calls:
            name, positional, arguments = parse_call_text(each)
            try:
                self.call(name, *positional, **arguments)
            except ToolError:
                continue  # its text is among the results
        return self.returned[before:]


def _result_text(value: Any) -> str:
    """Return a method's result as text, in BFCL's format."""
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)


def _result_for_model(result: str) -> Any:
    """Return a result as sent to the model: a JSON object as data, anything else as text."""
    try:
        found = json.loads(result)
    except ValueError:
        return result
    return found if isinstance(found, dict) else result


def parse_call_text(call: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Parse a call with literal values, such as `cd(folder='x')`, without evaluating it."""
    match ast.parse(call, mode="eval").body:
        case ast.Call(ast.Name(name), positional, named):
            given = {str(each.arg): ast.literal_eval(each.value) for each in named}
            return name, [ast.literal_eval(each) for each in positional], given
        case _:
            raise ConfigError(f"{call!r:.80} is not a call")


class MultiTurnWorld(FunctionWorld):
    """One attempt: the objects that the model changes, and those of the golden calls."""

    def __init__(
        self, turns: Sequence[BfclTurn], registry: ToolRegistry, own: ApiObjects, golden: ApiObjects
    ) -> None:
        super().__init__(self._converse, registry)
        self.executor = self._execute
        self._turns = turns
        self._model_objects = own
        self._golden_objects = golden

    async def _execute(self, name: str, arguments: JSON) -> Any:
        # BFCL's methods keep references to their arguments and change them later.
        return _result_for_model(self._model_objects.call(name, **deepcopy(arguments)))

    async def _converse(self, run: ScenarioRun) -> None:
        """Hold the conversation turn by turn, until a turn is wrong."""
        history: list[Any] = []
        for turn in self._turns:
            conversation = await run(turn.text, history=history)
            returned = self._golden_objects.make_calls(turn.golden)
            if turn.golden and not self._judge_turn(conversation, returned):
                return
            if conversation.failure is not None:
                return
            history = conversation.history

    def _judge_turn(self, conversation: ConversationResult, golden_results: Sequence[str]) -> bool:
        """Score a turn; return whether the states and the golden results match."""
        ended = last_turn(conversation.result.run)
        if not conversation.calls:
            return conversation.add_to_score(
                "process", make_miss(CALLED_CHECK, "a call", "no call", ended)
            )
        states = conversation.add_to_score("state", *self._state_misses(ended))
        left = list(self._model_objects.returned)
        lacking = [each for each in golden_results if not _remove_one(left, each)]
        misses = (make_miss(RESULTS_CHECK, each, "another result", ended) for each in lacking)
        return conversation.add_to_score("process", *misses) and states

    def _state_misses(self, turn: int | None) -> Iterator[Miss]:
        """Yield a miss for each object whose state is wrong."""
        for name, golden in self._golden_objects.by_class.items():
            own = self._model_objects.by_class[name]
            for key, wanted in vars(golden).items():
                if not key.startswith("_") and getattr(own, key) != wanted:
                    got = f"{name}.{key} is {_shortened_repr(getattr(own, key))}"
                    yield make_miss(
                        STATE_CHECK, f"{name}.{key} is {_shortened_repr(wanted)}", got, turn
                    )


def _remove_one(values: list[str], value: str) -> bool:
    """Remove a value from a list once; return whether it was there."""
    if value not in values:
        return False
    values.remove(value)
    return True


def _shortened_repr(value: Any) -> str:
    return shorten(repr(value))


# Writes the files of multi-turn cases: cases, tools, and the code of the classes.
#
# Nothing is run here. Loading one of the written Python files runs third-party code.

MULTI_TURN_SETS: Final = ("multi_turn_base", "multi_turn_miss_param", "multi_turn_long_context")
_MODULES: Final = (*MODULE_BY_CLASS.values(), "long_context")
_PATH: Final = PACKAGE.replace(".", "/")
_SCRIPT: Final = b'''"""Multi-turn cases of BFCL. To load them is to run the code in `_code`."""

from pathlib import Path

from surecall.eval.scenarios.bfcl_turns import scenarios_in

SCENARIOS = scenarios_in(Path(__file__).with_suffix(".json"))
'''


class UserMessage(msgspec.Struct, frozen=True):
    """The user message of a turn."""

    content: str


class SourceCase(msgspec.Struct, frozen=True):
    """A case in BFCL's data."""

    id: str
    question: list[tuple[UserMessage]]
    involved_classes: list[str]
    initial_config: dict[str, object] = {}


class SourceAnswer(msgspec.Struct, frozen=True):
    """The golden calls of each turn of a case."""

    id: str
    ground_truth: list[list[str]]


def find_code(source: Path) -> Traversable | None:
    """Return the folder of the classes in a wheel or a directory; None if it has none."""
    return find_folder(source, f"{_MODULES[0]}.py", (_PATH, _PATH.partition("/")[2]))


def read_multi_turn_cases(
    folder: Traversable, name: str, max_cases: int | None
) -> list[MultiTurnCase]:
    """Read a set: all cases, or at most `max_cases`, sampled evenly."""
    answers = {each.id: each.ground_truth for each in read_answers(folder, name, SourceAnswer)}
    return [
        _convert_case(name, case, answers.get(case.id, []))
        for case in sample_evenly(read_cases(folder, name, SourceCase), max_cases)
    ]


def _convert_case(name: str, case: SourceCase, golden: Sequence[list[str]]) -> MultiTurnCase:
    if len(golden) != len(case.question):
        raise ConfigError(f"{case.id}: the numbers of answers and turns differ")
    if unknown := set(case.involved_classes) - MODULE_BY_CLASS.keys():
        raise ConfigError(f"{case.id}: unknown class {min(unknown)}")
    return MultiTurnCase(
        id=f"{PACK}_{case.id}",
        tags=[PACK, f"{PACK}_{name}"],
        turns=[
            BfclTurn(words.content, calls)
            for (words,), calls in zip(case.question, golden, strict=True)
        ],
        classes=case.involved_classes,
        begin=case.initial_config,
        long="long_context" in name,
    )


def multi_turn_files(
    folder: Traversable,
    code: Traversable,
    sets: dict[str, list[MultiTurnCase]],
    mapped: MappingCounts,
) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of each file to write."""
    for name, cases in sets.items():
        yield f"{name}.json", b"".join(encode(case) + b"\n" for case in cases)
        yield f"{name}.py", _SCRIPT
    tools = {}
    for each, module in MODULE_BY_CLASS.items():
        found: Counter[str] = Counter()
        functions = read_json_lines(folder, f"multi_turn_func_doc/{module}.json", BfclFunction)
        tools[each] = [openai_tool(function, found, each) for function in functions]
        mapped.add(found)
    yield TOOLS_FILE, encode(tools)
    for module in _MODULES:
        yield f"{CODE_FOLDER}/{_PATH}/{module}.py", read_file(code, f"{module}.py")
