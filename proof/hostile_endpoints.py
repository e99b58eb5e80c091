"""D14: whatever an endpoint sends, reading it takes bounded memory and time, and says what it is.

Each answer is played on loopback to a process of its own, and to proxies. An answer that leads to
another host is not followed, so that the key stays where it belongs.
"""

import argparse
import asyncio
import gc
import importlib
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from proof import hostile_upstreams
from proof.claims import Claim, Outcome, gathered
from proof.hostile_answers import CASES, KEY, MODES, REDIRECTS, Listener
from proof.hostile_upstreams import Asked
from surecall import OpenAICompatible, RunFailed, ToolLoopRunner, presets

DEADLINE_S: Final = 3.0
GRACE_S: Final = 1.0
TOGETHER: Final = 3
BAR_MIB: Final = 64


class Ended(msgspec.Struct, frozen=True):
    """How a conversation ended, what it took, and what nobody had expected."""

    code: str = ""
    peak_mib: float = 0.0
    seconds: float = 0.0
    raised: str = ""


async def converse(url: str, mode: str) -> str:
    """Hold one conversation; return the code of its failure, blank if it was answered."""
    client = OpenAICompatible(url, KEY)
    config = presets.raw().replace(run_deadline_s=DEADLINE_S)
    runner = ToolLoopRunner(client=client, model="m", config=config)
    try:
        if mode == "plain":
            await runner.run("Hello.")
        else:
            async for _ in runner.stream("Hello."):
                pass
    except RunFailed as failure:
        return str(failure.code)
    return ""


def _memory(field: str) -> float:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


def _forget_peak() -> None:
    """Begin a new peak; the kernel does so when told 5."""
    Path("/proc/self/clear_refs").write_text("5", "utf-8")


async def measured(url: str, mode: str, name: str) -> Ended:
    """Hold a conversation about a case in this process, after one that warms it up."""
    clean = "no+last+blank+line" if mode == "streamed" else "byte+order+mark"
    await converse(f"{url}/{clean}", mode)
    gc.collect()
    before = _memory("VmRSS")
    _forget_peak()
    started = time.perf_counter()
    try:
        code, raised = await converse(f"{url}/{name}", mode), ""
    except Exception as error:  # noqa: BLE001  # an untyped error is what is looked for
        code, raised = "", f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    return Ended(code, _memory("VmHWM") - before, seconds, raised)


async def _in_a_process(url: str, mode: str, name: str) -> Ended:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proof.hostile_endpoints", url, mode, name),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await process.communicate()
    try:
        return msgspec.json.decode(said, type=Ended)
    except msgspec.DecodeError:
        return Ended(raised=complained.decode("utf-8", "replace").strip()[-200:] or "it died")


def judged(
    name: str, mode: str, ended: Ended, answered: tuple[str, ...] | None = None
) -> Iterator[str]:
    """Say what is not as it should be."""
    told = f"{name.replace('+', ' ')}, {mode}"
    if ended.raised:
        yield f"{told}: {ended.raised}"
    if ended.peak_mib > BAR_MIB:
        yield f"{told}: {ended.peak_mib:.0f} MiB over the base"
    if ended.seconds > DEADLINE_S + GRACE_S:
        yield f"{told}: {ended.seconds:.1f} s"
    if answered is not None and mode not in answered and not ended.code:
        yield f"{told}: it was taken for an answer"
    if answered is not None and mode in answered and ended.code:
        yield f"{told}: {ended.code}, though it can be read"


async def _tried(
    names: list[tuple[str, str]], questions: Sequence[Asked] = ()
) -> tuple[list[str], list[Ended]]:
    gate = asyncio.Semaphore(TOGETHER)
    listener = Listener()

    async def one(name: str, mode: str) -> tuple[list[str], Ended]:
        async with gate:
            ended = await _in_a_process(url, mode, name)
        answered = () if name.isdigit() else CASES[name.replace("+", " ")].answered
        return list(judged(name, mode, ended, answered)), ended

    async with listener as url:
        found, through = await asyncio.gather(
            asyncio.gather(*(one(*each) for each in names)), _through(url, questions)
        )
    found += through
    failures = [problem for problems, _ in found for problem in problems]
    failures += [f"another host was asked: {head[:80]!r}" for head in listener.strangers]
    if not any(KEY.encode() in head for head in listener.heads):
        failures.append("the endpoint itself never got the key, so nothing was tried")
    return failures, [ended for _, ended in found]


async def _through(url: str, questions: Sequence[Asked]) -> list[tuple[list[str], Ended]]:
    """Ask proxies, if there is something to ask."""
    done = await hostile_upstreams.asked_through(url, questions) if questions else []
    return [
        (
            hostile_upstreams.judged(asked, got, BAR_MIB, GRACE_S),
            Ended(got.code, got.peak_mib, got.seconds, got.problem),
        )
        for asked, got in done
    ]


def own_names() -> list[tuple[str, str]]:
    """Name every case and every redirect, in both modes."""
    names = [name.replace(" ", "+") for name in CASES]
    return [(name, mode) for name in (*names, *map(str, REDIRECTS)) for mode in MODES]


async def more_bodies(count: int, seed: int) -> tuple[list[str], list[float]]:
    """Measure bodies that cost most to read, by the bench that knows them; failures and peaks."""
    bench = importlib.import_module("bench.memory")
    todo = [
        (name, bench.SIZES[label], mode)
        for name, body in bench.ALL.items()
        for label in body.sizes
        for mode in ("run", "stream")
    ]
    server = await asyncio.start_server(bench.play, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    failures, peaks = [], []
    for name, size, mode in random.Random(seed).sample(todo, min(count, len(todo))):
        row = await bench.measured(url, name, size, mode)
        ended = Ended(row["outcome"], row["peak"], 0.0)
        failures += list(judged(name, mode, ended))
        peaks.append(ended.peak_mib)
    server.close()
    return failures, peaks


def attempt(size: int, seed: int) -> Outcome:
    """Play `size` answers: every case, the same through proxies, then bodies of the bench."""
    names, questions = own_names(), hostile_upstreams.questions()
    for each in (names, questions):
        random.Random(seed).shuffle(each)
    questions = questions[: max(0, size - len(names))]
    failures, ended = asyncio.run(_tried(names[:size], questions))
    left = size - len(ended)
    more, peaks = asyncio.run(more_bodies(left, seed)) if left > 0 else ([], [])
    peak = max(*peaks, *(one.peak_mib for one in ended), 0.0)
    slowest = max(one.seconds for one in ended)
    return Outcome(
        f"{len(ended)} answers on loopback, each to a separate process or a proxy "
        f"({len(questions)}): endless, dripping, one gigabyte, compressed, headers of 10 MB, "
        "redirects; "
        f"a run has a deadline of {DEADLINE_S:g} s; {len(peaks)} bodies of bench/memory.py",
        len(ended) + len(peaks),
        gathered([*failures, *more]),
        figures=f"at most {peak:.0f} MiB over the base (limit {BAR_MIB}), {slowest:.1f} s; the key "
        "went to no other host",
    )


def main() -> int:
    """Measure one case, for the process that asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("url", "mode", "case"):
        parser.add_argument(name)
    chosen = parser.parse_args()
    ended = asyncio.run(measured(chosen.url, chosen.mode, chosen.case))
    print(msgspec.json.encode(ended).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())


CLAIM = Claim(
    "D14",
    "A hostile endpoint costs bounded memory and time, and cannot redirect a key.",
    attempt,
    (94, 213, 553),
    long=True,
)
