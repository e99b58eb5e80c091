"""D10: whoever is killed loses nothing and repeats nothing.

Three things die by SIGKILL and are resumed: the writer of an evaluation's store, a run with tools
that leave effects, and, above the smallest size, a whole evaluation. Streams are left, too.
"""

import contextlib
import io
import random
import tempfile
from pathlib import Path

import msgspec

from proof.claims import Claim, Outcome, gathered
from proof.killed_runs import kill_runs, leave_streams
from scripts import kill_eval
from scripts.kill_test import Tally, deaths_at_every_point, random_deaths

# What a kill does is the same there, and a busy disk takes its time.
MEMORY = Path("/dev/shm")  # noqa: S108  # a directory of our own is made in it
WHOLE = 1000


def attempt(size: int, seed: int) -> Outcome:
    """Kill; a quarter as often the writer of a store, and at each of its points."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        folder = Path(name)
        died, failures = kill_runs(folder / "run", size, seed)
        times_left, problems = leave_streams(folder / "stream")
        tallies = [
            deaths_at_every_point(folder / "store"),
            random_deaths(folder / "store", size // 4, seed, 40),
        ]
        evaluations = size // 100 if size >= WHOLE else 0
        if evaluations:
            problems += kill_evaluations(folder, evaluations, seed)
    kills = [tally.kills for tally in tallies]
    return Outcome(
        "SIGKILL before, during, and after each write and each effect, then resume; "
        f"{died} runs, {sum(kills)} store writers ({kills[0]} at each of its points), "
        f"{evaluations} whole evaluations; {times_left} streams left",
        died + sum(kills) + evaluations + times_left,
        gathered([*failures, *problems, *store_failures(tallies)]),
        figures="no effect twice, nothing lost, nothing repeated; unknown outcomes reported",
    )


def store_failures(tallies: list[Tally]) -> list[str]:
    """Say what a store has lost, repeated or altered."""
    return [msgspec.json.encode(tally).decode() for tally in tallies if not tally.clean]


def kill_evaluations(folder: Path, kills: int, seed: int) -> list[str]:
    """Kill a whole evaluation; what it comes to must be what one comes to that nobody kills."""
    disturbed, left_alone = folder / "disturbed", folder / "left_alone"
    for place in (disturbed, left_alone):
        place.mkdir()
    with contextlib.redirect_stdout(io.StringIO()):
        lost, changed = kill_eval.killed(disturbed, kills, random.Random(seed))
    kill_eval.finished(disturbed)
    kill_eval.finished(left_alone)
    same = kill_eval.summaries(disturbed) == kill_eval.summaries(left_alone)
    if lost or changed or not same:
        return [f"an evaluation: lost {lost}, changed {changed}, same summary: {same}"]
    return []


CLAIM = Claim(
    "D10",
    "A killed process loses nothing and repeats nothing.",
    attempt,
    (200, 1000, 3000),
)
