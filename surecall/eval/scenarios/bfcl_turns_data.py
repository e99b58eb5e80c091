"""The files of the multi-turn cases of BFCL: their cases, their tools, and their classes as code.

Nothing is run here. Whoever loads one of the Python files that are written runs their code.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import msgspec

from surecall.eval.scenarios.bfcl import PACK, Function, Mapped, tool_of
from surecall.eval.scenarios.bfcl_data import (
    answers_of,
    bytes_of,
    cases_of,
    folder_with,
    lines_of,
    spread,
)
from surecall.eval.scenarios.bfcl_turns import (
    CLASSES,
    CODE_FOLDER,
    PACKAGE,
    TOOLS_FILE,
    MultiTurn,
    Turn,
)
from surecall.values.errors import ConfigError
from surecall.wire.messages import encode

MULTI_TURN_SETS: Final = ("multi_turn_base", "multi_turn_miss_param", "multi_turn_long_context")
_LONG: Final = "long_context"
_MODULES: Final = (*CLASSES.values(), "long_context")
_PATH: Final = PACKAGE.replace(".", "/")
_PLACES: Final = (_PATH, _PATH.partition("/")[2])
_SCRIPT: Final = b'''"""Multi-turn cases of BFCL. To load them is to run the code in `_code`."""

from pathlib import Path

from surecall.eval.scenarios.bfcl_turns import scenarios_in

SCENARIOS = scenarios_in(Path(__file__).with_suffix(".json"))
'''


class Words(msgspec.Struct, frozen=True):
    """What somebody says in a turn."""

    content: str


class TheirCase(msgspec.Struct, frozen=True):
    """A case as it is in their data."""

    id: str
    question: list[tuple[Words]]
    involved_classes: list[str]
    initial_config: dict[str, object] = {}


class TheirAnswer(msgspec.Struct, frozen=True):
    """The golden calls of each turn of a case."""

    id: str
    ground_truth: list[list[str]]


def code_in(source: Path) -> Traversable | None:
    """Return the folder with their classes, if a wheel or a directory has it."""
    return folder_with(source, f"{_MODULES[0]}.py", _PLACES)


def multi_turn_cases(folder: Traversable, name: str, most: int | None) -> list[MultiTurn]:
    """Read a set: all cases, or at most so many, spread evenly over it."""
    answers = {each.id: each.ground_truth for each in answers_of(folder, name, TheirAnswer)}
    return [
        _case(name, case, answers.get(case.id, []))
        for case in spread(cases_of(folder, name, TheirCase), most)
    ]


def _case(name: str, case: TheirCase, golden: Sequence[list[str]]) -> MultiTurn:
    if len(golden) != len(case.question):
        raise ConfigError(f"{case.id}: there are not as many answers as turns")
    if unknown := set(case.involved_classes) - CLASSES.keys():
        raise ConfigError(f"{case.id}: the class {min(unknown)} is not known")
    return MultiTurn(
        id=f"{PACK}_{case.id}",
        tags=[PACK, f"{PACK}_{name}"],
        turns=[
            Turn(words.content, calls)
            for (words,), calls in zip(case.question, golden, strict=True)
        ],
        classes=case.involved_classes,
        begin=case.initial_config,
        long=_LONG in name,
    )


def multi_turn_files(
    folder: Traversable, code: Traversable, sets: dict[str, list[MultiTurn]], mapped: Mapped
) -> Iterator[tuple[str, bytes]]:
    """Return what has to be written, each file with its path."""
    for name, cases in sets.items():
        yield f"{name}.json", b"".join(encode(case) + b"\n" for case in cases)
        yield f"{name}.py", _SCRIPT
    tools = {}
    for each, module in CLASSES.items():
        found: Counter[str] = Counter()
        functions = lines_of(folder, f"multi_turn_func_doc/{module}.json", Function)
        tools[each] = [tool_of(function, found, each) for function in functions]
        mapped.add(found)
    yield TOOLS_FILE, encode(tools)
    for module in _MODULES:
        yield f"{CODE_FOLDER}/{_PATH}/{module}.py", bytes_of(code, f"{module}.py")
