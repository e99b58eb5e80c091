"""What a trial of `surecall eval` costs: CPU of one with a single request, memory of very many.

The endpoint runs in a process of its own, so the figures are those of the evaluation alone. A trial
is one request: the control, which offers no tools, and a scenario that offers two tools to a model
that answers at once. CPU per trial is that of a whole command with many trials less that of one
with few, divided by the difference: what a command does once is not in it, what it does for every
trial is, the reports at its end included. The simulated models answer inside the process, so their
figure has the simulator in it; it has no bar.

    python bench/trials.py                 CPU per trial: at most 2 ms
    python bench/trials.py --memory [N]    N trials (100,000) in one command: at most 200 MB
                                           resident, reports included, and the last tenth costs at
                                           most 1.1 times as much CPU as the first
    python bench/trials.py --resume [N]    a run of N trials (1,000,000) is continued: at most
                                           200 MB resident until the first new trial has ended
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.server import served_by
from surecall import tool
from surecall.eval import expect, scenario
from surecall.eval.scenarios.function_scenarios import ScenarioRun
from surecall.eval.storage.store import open_for_reading, open_to_extend

BAR_MS = 2.0
BAR_MB = 200.0
BAR_GROWTH = 1.1
FEW, MANY, ROUNDS = 100, 600, 5
CELLS, CHUNK = 10, 2_000
_KB = 1000
_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_S = 0.1
MODEL = "turns-0"
CONTROL = "chat_only"
WITH_TOOLS = f"{__file__}::answers_at_once"


@tool
def look_up(word: str) -> str:
    """Look up a word in the dictionary."""
    return word


@tool
def write_down(word: str, meaning: str, *, replace: bool = False) -> str:
    """Write a word and its meaning into the dictionary."""
    return f"{word}: {meaning} {replace}"


@scenario(
    tools=[look_up, write_down],
    state={"written": []},
    system="You keep a dictionary.",
    config={"tool_use_mode": "relaxed"},
)
async def answers_at_once(run: ScenarioRun) -> None:
    """Let the model answer without a call."""
    out = await run("Answer with exactly one word: Done.")
    expect.text(out, "Done.")


class Sample(NamedTuple):
    """What a process has used by some time."""

    at: float
    cpu_s: float
    rss_mb: float


def server() -> AbstractContextManager[str]:
    """Run the endpoint in another process; it answers with the one word that is asked for."""
    return served_by(Path(__file__).with_name("server.py"), "Done.")


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for runs, and remove it."""
    made = Path(tempfile.mkdtemp(prefix="trials-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def command(output: Path, trials: int, *words: str) -> list[str]:
    """Return the words of an evaluation that shows no progress."""
    fixed = ("-m", "surecall", "eval", "--verbosity", "0", "--runs", str(output), "-n", str(trials))
    return [sys.executable, *fixed, *words]


def at(base: str, scenario_filter: str) -> tuple[str, ...]:
    """Return the words that send an evaluation to the endpoint."""
    return ("--base-url", base, "-m", MODEL, "-s", scenario_filter)


def started(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Begin a command whose output nobody reads."""
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=nowhere, stderr=nowhere)  # noqa: S603  # our own command


def cpu_of(words: Sequence[str]) -> float:
    """Run a command to its end; return the seconds of CPU that it used."""
    process = started(words)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def per_trial_ms(words: Sequence[str]) -> float:
    """Return what one trial more costs a command, in milliseconds of CPU."""
    with folder() as output:
        few = cpu_of(command(output / "few", FEW, *words))
        many = cpu_of(command(output / "many", MANY, *words))
    return (many - few) / (MANY - FEW) * _KB


def show(name: str, values: Sequence[float], unit: str, bar: float | None = None) -> bool:
    """Print one line; say whether the median is within the bar, if there is one."""
    median = statistics.median(values)
    within = bar is None or median <= bar
    spread = f"{min(values):.2f} to {max(values):.2f}, n={len(values)}"
    told = "" if bar is None else f"bar {bar:g}{unit}; "
    verdict = "" if bar is None else "  ok" if within else "  OVER"
    print(f"{name:<44} {median:8.2f}{unit}  ({told}{spread}){verdict}", flush=True)
    return within


def costs() -> bool:
    """Measure CPU per trial, in rounds that take turns."""
    with server() as base:
        rows = {
            "CPU per trial, one request, no tools": at(base, CONTROL),
            "CPU per trial, one request, two tools": at(base, WITH_TOOLS),
            "the same, simulated model inside, no tools": (
                "-m", "sim/clean", "-s", CONTROL,
            ),
        }  # fmt: skip
        found: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(ROUNDS):
            for name, words in rows.items():
                found[name].append(per_trial_ms(words))
    *barred, simulated = rows
    passed = [show(name, found[name], " ms", BAR_MS) for name in barred]
    show(simulated, found[simulated], " ms")
    return all(passed)


def sample(pid: int) -> Sample | None:
    """Read what a process uses; None when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
    return Sample(time.time(), cpu_s, int(resident[0]) * 1024 / 1e6) if resident else None


def watched(process: subprocess.Popen[bytes]) -> list[Sample]:
    """Look at a process until it ends."""
    samples: list[Sample] = []
    while process.poll() is None:
        if (found := sample(process.pid)) is not None:
            samples.append(found)
        time.sleep(_EVERY_S)
    return samples


def run_in(output: Path) -> Path:
    """Return the only run."""
    (run,) = (path.parent for path in output.glob("runs/*/trials.sqlite"))
    return run


def begun(output: Path) -> list[float]:
    """Return when each trial of the only run began, in order."""
    with open_for_reading(run_in(output)) as store:
        return sorted(trial.started_at for trial in store.trials())


def memory(trials: int) -> bool:
    """Run very many trials in one command; measure its memory, and whether they cost alike."""
    with server() as base, folder() as output:
        samples = watched(started(command(output, trials, *at(base, WITH_TOOLS))))
        starts = begun(output)
    times = [each.at for each in samples]

    def cpu_until(moment: float) -> float:
        return samples[min(bisect_left(times, moment), len(samples) - 1)].cpu_s

    tenth = len(starts) // 10
    first = cpu_until(starts[tenth]) - cpu_until(starts[0])
    last = cpu_until(starts[-1]) - cpu_until(starts[-1 - tenth])
    ran = [each.rss_mb for each in samples if each.at <= starts[-1]]
    print(f"{len(starts)} trials; all of it took {samples[-1].cpu_s:.0f} s of CPU,")
    print(f"the trials {cpu_until(starts[-1]) - cpu_until(starts[0]):.0f} s of it")
    return all(
        (
            show("resident while trials run", [max(ran)], " MB", BAR_MB),
            show("resident to the end, reports included", [peak(samples)], " MB", BAR_MB),
            show("CPU per trial, first tenth", [first / tenth * _KB], " ms", BAR_MS),
            show("last tenth against first tenth", [last / first], " x", BAR_GROWTH),
        )
    )


def peak(samples: Sequence[Sample]) -> float:
    """Return the most that was ever resident."""
    return max(each.rss_mb for each in samples)


def fill(run: Path, trials: int) -> None:
    """Copy the only trial of each cell of a run, with its trace, as often as is asked for."""
    with open_for_reading(run) as store:
        meta, known = store.meta, list(store.packed_trials())
    with open_to_extend(run, meta.identity, meta.latest) as store:
        for first in range(2, trials + 1, CHUNK):
            numbers = range(first, min(first + CHUNK, trials + 1))
            store.absorb(
                (replace(one, key=replace(one.key, trial=number)), lines)
                for number in numbers
                for one, lines in known
            )


def resume(trials: int) -> bool:
    """Continue a run that has very many trials; measure what it takes until one is added."""
    models = ",".join(f"m{number}/{MODEL}" for number in range(CELLS))
    with server() as base, folder() as output:
        words = ("--base-url", base, "-m", models, "-s", WITH_TOOLS)
        cpu_of(command(output, 1, *words))
        fill(run_in(output), trials // CELLS)
        lines = output / "lines"
        with lines.open("wb") as told:
            process = subprocess.Popen(  # noqa: S603  # our own command
                [*command(output, trials // CELLS + 1, *words), "--verbosity", "2"],
                stdout=subprocess.DEVNULL, stderr=told,
            )  # fmt: skip
        samples = []
        while b"passed" not in lines.read_bytes() and process.poll() is None:
            if (found := sample(process.pid)) is not None:
                samples.append(found)
            time.sleep(_EVERY_S)
        process.kill()
        process.wait()
    print(
        f"{trials} trials recorded; the next one has ended after {samples[-1].cpu_s:.1f} s of CPU"
    )
    return show("resident until then", [peak(samples)], " MB", BAR_MB)


def main(words: Sequence[str]) -> int:
    """Print the table; the exit code says whether every bar holds."""
    number = int(words[1]) if words[1:] else 0
    match words[:1]:
        case ["--memory"]:
            passed = memory(number or 100_000)
        case ["--resume"]:
            passed = resume(number or 1_000_000)
        case _:
            passed = costs()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
