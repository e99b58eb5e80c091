"""Holds our judge of calls against BFCL's own checker, on its own data.

    pip download --no-deps bfcl-eval
    python -m bench.bfcl_judge bfcl_eval-*.whl

Three things are done with every single-turn case that lists the calls it wants:

- The golden calls, made of the first accepted values, are judged by both.
- Calls that were changed at random, 3,000 times, are judged by both. Differences are listed.
- A scripted model that answers with the golden calls, and one that leaves the last call out, go
  through a whole evaluation of the pack, under `raw` and `production`.

Their checker is run from the wheel as it is. It imports a table of all models, which would need
forty packages; of that table it reads one field, so a table with one model is put in its place.
"""

import argparse
import asyncio
import copy
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec

from bench.bfcl_changes import Calls, Judged, changed_calls, golden
from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.accepted_calls import WantedCall, call_misses
from surecall.eval.scenarios.bfcl import (
    SET_NAMES,
    WITHOUT_ANSWERS,
    MappingCounts,
    find_data,
    is_unanswerable,
    read_set,
)
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key
from surecall.settings.presets import Strategy
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON, ToolCall

MODEL = "surecall"
MOST_LISTED = 40
FLOOR = 0.995


def their_checker(wheel: Path) -> Callable[[Judged, Calls], str]:
    """Return their verdict as a function: valid, invalid, or what it raised."""
    table = ModuleType("bfcl_eval.constants.model_config")
    table.MODEL_CONFIG_MAPPING = {MODEL: SimpleNamespace(underscore_to_dot=True)}  # type: ignore[attr-defined]
    sys.modules[table.__name__] = table
    sys.path.insert(0, str(wheel))
    from bfcl_eval.constants.enums import Language  # type: ignore[import-not-found]  # noqa: PLC0415
    from bfcl_eval.eval_checker.ast_eval.ast_checker import (  # type: ignore[import-not-found]  # noqa: PLC0415
        ast_checker,
    )

    def verdict(case: Judged, made: Calls) -> str:
        output = copy.deepcopy([{name: arguments} for name, arguments in made])
        try:
            found = ast_checker(
                case.functions, output, case.answer, Language.PYTHON, case.category, MODEL
            )
        except Exception as error:  # noqa: BLE001  # whatever it raises is what is compared
            return f"raised {type(error).__name__}"
        return "valid" if found["valid"] else "invalid"

    return verdict


def our_verdict(case: Judged, made: Calls) -> str:
    """Judge as an evaluation does."""
    read = [ToolCall(f"call_{at}", name, arguments) for at, (name, arguments) in enumerate(made)]
    misses = call_misses(case.wanted, [(0, call) for call in read], case.schemas, 0)
    return "invalid" if next(misses, None) else "valid"


def cases_in(source: Path) -> list[Judged]:
    """Read every case that lists the calls it wants, as theirs and as ours."""
    folder, found = find_data(source), []
    for name in (each for each in SET_NAMES if each not in WITHOUT_ANSWERS):
        theirs = _rows(folder.joinpath(f"BFCL_v4_{name}.json").read_bytes())
        answers = _rows(folder.joinpath(f"possible_answer/BFCL_v4_{name}.json").read_bytes())
        for case, answer, line in zip(
            theirs, answers, read_set(folder, name, MappingCounts(), None), strict=True
        ):
            tools = [tool["function"] for tool in line["tools"]]
            found.append(
                Judged(
                    case["id"],
                    name,
                    case["function"],
                    answer["ground_truth"],
                    msgspec.convert(line["expect"]["calls"], list[WantedCall]),
                    {tool["name"]: tool["parameters"] for tool in tools},
                )
            )
    return found


def _rows(data: bytes) -> list[JSON]:
    return [msgspec.json.decode(line) for line in data.split(b"\n") if line.strip()]


def compared(
    judged: Iterable[tuple[str, Judged, Calls]], theirs: Callable[[Judged, Calls], str]
) -> float:
    """Judge by both, print where they agree and what they differ in, and return the share."""
    pairs: Counter[tuple[str, str, str]] = Counter()
    differences: list[str] = []
    for kind, case, made in judged:
        verdicts = theirs(case, made), our_verdict(case, made)
        pairs[kind, *verdicts] += 1
        if verdicts[0] != verdicts[1]:
            differences.append(
                f"  {kind}: {case.id}: theirs {verdicts[0]}, ours {verdicts[1]}: {made}"
            )
    return told(pairs, differences)


def told(pairs: Counter[tuple[str, str, str]], differences: Sequence[str]) -> float:
    """Print how often both came to which verdict, and where they differ; the share that agrees."""
    for (kind, theirs_said, ours_said), times in sorted(pairs.items()):
        print(f"  {kind:16} theirs {theirs_said:18} ours {ours_said:8} {times:6}")
    total = pairs.total()
    same = total - len(differences)
    print(f"  the same verdict on {same} of {total} ({100 * same / total:.2f} %)")
    for each in differences[:MOST_LISTED]:
        print(each[:400])
    return same / total


# Whole evaluations.

Run = tuple[str, Scenario, JSON]


def answer_golden(request: JSON) -> JSON:
    """Answer with the golden calls; where none are listed, in words, or with any call."""
    wanted = request["expect"].get("calls")
    if wanted is not None:
        tools = [tool["function"] for tool in request["tools"]]
        schemas = {tool["name"]: tool["parameters"] for tool in tools}
        made = golden(msgspec.convert(wanted, list[WantedCall]), schemas)
        return calls_many(*(calls(name, **arguments) for name, arguments in made))
    if request["expect"]["tool_call"]:
        return calls(request["tools"][0]["function"]["name"])
    return says("None of the tools can do that.")


def answer_less(request: JSON) -> JSON:
    """Answer with the golden calls but the last one; where none is wanted, with one."""
    expected = request["expect"]
    wanted = expected.get("calls", ())
    if len(wanted) > 1:
        return answer_golden(request | {"expect": {"calls": wanted[:-1]}})
    return says("Done.") if wanted or expected.get("tool_call") else calls("anything")


async def evaluated(
    runs: Sequence[Run], strategy: Strategy, answer: Callable[[JSON], JSON]
) -> None:
    """Run each scenario once, and print how many of each set passed."""
    passed: Counter[str] = Counter()
    valid: Counter[str] = Counter()
    setup = make_cell_setup("m", strategy=strategy, extra_attempts=0)
    failed: list[str] = []
    for name, one, request in runs:
        model = ScriptedModel(answer(request))
        trial, _ = await run_trial(Key(Cell("m"), one.id, 1), TrialCase(one, setup), model)
        passed[name] += trial.ok
        valid[name] += trial.score.facts.get("schema_valid", False)
        if not trial.ok:
            why = "no call is accepted" if is_unanswerable(request) else trial.error
            failed.append(f"  {one.id}: {why}"[:300])
    for name, number in Counter(name for name, _, _ in runs).items():
        print(f"  {name:24} passed {passed[name]:5} of {number:5}, schema valid {valid[name]:5}")
    for each in failed[:MOST_LISTED] if answer is answer_golden else ():
        print(each)


def loaded(source: Path) -> list[Run]:
    """Write the pack, and load it as a user would."""
    found: list[Run] = []
    folder = find_data(source)
    with tempfile.TemporaryDirectory() as place:
        for name in SET_NAMES:
            lines = read_set(folder, name, MappingCounts(), None)
            path = Path(place, f"{name}.jsonl")
            path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            scenarios = load_scenarios(str(path))
            found += [(name, one, line) for one, line in zip(scenarios, lines, strict=True)]
    return found


def main() -> int:
    """Compare, print what was found, and fail where the judges do not agree enough."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("wheel", type=Path)
    options.add_argument("--changed", type=int, default=3_000)
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    theirs, cases = their_checker(given.wheel), cases_in(given.wheel)
    print(f"golden calls of {len(cases)} cases")
    known = compared(
        (("golden", case, golden(case.wanted, case.schemas)) for case in cases), theirs
    )
    print(f"changed calls, seed {given.seed}")
    unknown = compared(changed_calls(cases, given.changed, given.seed), theirs)
    runs = loaded(given.wheel)
    strategies: tuple[Strategy, ...] = ("raw", "production")
    for answer in (answer_golden, answer_less):
        for strategy in strategies:
            print(f"{answer.__name__}, {strategy}")
            asyncio.run(evaluated(runs, strategy, answer))
    return int(known < 1 or unknown < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
