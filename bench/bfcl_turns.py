"""Holds our judge of BFCL's multi-turn cases against its own checker, on its own data.

    pip download --no-deps bfcl-eval; pip install mpmath
    python -m bench.bfcl_turns bfcl_eval-*.whl

A scripted model makes the golden calls of every case, those of a turn in one reply, in whole trials
under `raw`. Then it makes calls that were changed at random: one dropped, repeated or with another
value, or those of a turn reversed or left out. surecall makes no call that breaks the schema of its
tool, and none twice in a row, so their checker, run from the wheel as it is, judges the calls that
were made.
"""

import argparse
import asyncio
import copy
import importlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.bfcl_changes import changed
from bench.bfcl_judge import told
from surecall.cli import main as surecall
from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.bfcl_turns import (
    MULTI_TURN_SETS,
    PACKAGE,
    MultiTurnCase,
    parse_call_text,
)
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.scenario import Scenario, World
from surecall.eval.storage.trial import Cell, Key
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON

FLOOR = 0.995
Turns = list[list[tuple[str, JSON]]]
Pair = tuple[Scenario, MultiTurnCase]


def golden(one: Scenario, case: MultiTurnCase) -> Turns:
    """Read the golden calls; an argument without a name is that of its place."""
    tools = {tool.name: tool.spec.parameters for tool in one.begin("-").registry.definitions}
    return [[_read(each, tools) for each in turn.golden] for turn in case.turns]


def _read(text: str, tools: dict[str, JSON]) -> tuple[str, JSON]:
    name, positional, named = parse_call_text(text)
    values = dict(zip(tools[name]["properties"], positional, strict=False))
    plain: JSON = msgspec.to_builtins(values | named)
    return name, plain


def changed_turns(turns: Turns, dice: random.Random) -> tuple[str, Turns]:
    """Change something in the calls of a case; return what was done."""
    turns = copy.deepcopy(turns)
    turn = dice.choice([each for each in turns if each])
    at = dice.randrange(len(turn))
    match dice.randrange(5):
        case 0:
            del turn[at]
            return "drop_call", turns
        case 1:
            turn.append(copy.deepcopy(turn[at]))
            return "repeat_call", turns
        case 2:
            turn.clear()
            return "drop_turn", turns
        case 3:
            turn.reverse()
            return "reverse", turns
        case _:
            arguments = turn[at][1]
            if arguments:
                key = dice.choice([*arguments])
                arguments[key] = changed(arguments[key], dice)
            return "change_value", turns


def their_checker(wheel: Path) -> Callable[[MultiTurnCase, Turns], str]:
    """Return their verdict as a function."""
    sys.path.insert(0, str(wheel))
    for name in [name for name in sys.modules if name.partition(".")[0] == "bfcl_eval"]:
        del sys.modules[name]
    package = PACKAGE.rpartition(".")[0]
    check = importlib.import_module(f"{package}.multi_turn_checker").multi_turn_checker
    number = iter(range(10**9))

    def verdict(case: MultiTurnCase, turns: Turns) -> str:
        entry = {
            "id": case.id.removeprefix("bfcl_"),
            "initial_config": case.begin,
            "involved_classes": case.classes,
        }
        made = [[[_written(each)] for each in turn] for turn in turns]
        wanted = [turn.golden for turn in case.turns]
        try:
            found = check(made, wanted, entry, "", f"m{next(number)}")
        except Exception as error:  # noqa: BLE001  # whatever it raises is what is compared
            return f"raised {type(error).__name__}"
        return "valid" if found["valid"] else "invalid"

    return verdict


def _written(call: tuple[str, JSON]) -> str:
    name, arguments = call
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def our_verdict(one: Scenario, turns: Turns) -> tuple[str, Turns]:
    """Run a whole trial with a model that makes these calls; return also those that were made."""
    script: list[JSON] = []
    owners: list[int] = []
    for number, turn in enumerate(turns):
        asked = [calls_many(*(calls(name, **given) for name, given in turn))] if turn else []
        script += [*asked, says("Done.")]
        owners += [number] * (len(asked) + 1)
    model = ScriptedModel(*script)
    made: Turns = [[] for _ in turns]

    def begin(name: str) -> World:
        world: Any = one.begin(name)
        execute = world.executor

        async def watched(name: str, arguments: JSON) -> Any:
            made[owners[len(model.requests) - 1]].append((name, arguments))
            return await execute(name, arguments)

        world.executor = watched
        return world  # type: ignore[no-any-return]

    watching = msgspec.structs.replace(one, begin=begin)
    case = TrialCase(watching, make_cell_setup("m", strategy="raw", extra_attempts=0))
    trial, _ = asyncio.run(run_trial(Key(Cell("m"), one.id, 1), case, model))
    return "valid" if trial.ok else "invalid" if trial.status == "failed" else trial.error, made


def compared(
    judged: Iterable[tuple[str, Pair, Turns]], theirs: Callable[[MultiTurnCase, Turns], str]
) -> float:
    """Judge by both, print where they agree and what they differ in, and return the share."""
    pairs: Counter[tuple[str, str, str]] = Counter()
    differences: list[str] = []
    for kind, (one, case), turns in judged:
        ours, made = our_verdict(one, turns)
        said = theirs(case, made), ours
        pairs[kind, *said] += 1
        if said[0] != said[1]:
            differences.append(f"  {kind}: {case.id}: theirs {said[0]}, ours {said[1]}: {made}")
    return told(pairs, differences)


def changes(pairs: Sequence[Pair], number: int, seed: int) -> Iterator[tuple[str, Pair, Turns]]:
    """Return so many changed conversations."""
    dice = random.Random(seed)  # noqa: S311  # no secret
    for _ in range(number):
        pair = dice.choice(pairs)
        kind, turns = changed_turns(golden(*pair), dice)
        yield kind, pair, turns


def main() -> int:
    """Compare, print what was found, and fail where the judges do not agree enough."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("wheel", type=Path)
    options.add_argument("--changed", type=int, default=3_000)
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory() as place:
        if surecall(["pack", "bfcl", str(given.wheel), "--into", f"{place}/bfcl"]):
            return 1
        for name in MULTI_TURN_SETS:
            path = Path(place, "bfcl", "multi_turn", f"{name}.json")
            lines = path.read_bytes().splitlines()
            cases = [msgspec.json.decode(line, type=MultiTurnCase) for line in lines]
            pairs += zip(load_scenarios(str(path.with_suffix(".py"))), cases, strict=True)
        theirs = their_checker(given.wheel.resolve())
    print(f"golden calls of {len(pairs)} cases")
    known = compared((("golden", pair, golden(*pair)) for pair in pairs), theirs)
    print(f"changed calls, seed {given.seed}")
    unknown = compared(changes(pairs, given.changed, given.seed), theirs)
    return int(known < 1 or unknown < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
