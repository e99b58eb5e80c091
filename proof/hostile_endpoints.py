"""D14: whatever an endpoint sends, reading it takes bounded memory and time, and says what it is.

Each answer is played on loopback to a process of its own. An answer that leads to another host is
not followed, so that the key stays where it belongs.
"""

import argparse
import asyncio
import gc
import importlib
import itertools
import random
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from proof.claims import Claim, Outcome, gathered
from surecall import OpenAICompatible, RunFailed, ToolLoopRunner, presets

KEY: Final = "sk-canary-0123456789abcdef"
MIB: Final = 1024 * 1024
BAR_MIB: Final = 64
DEADLINE_S: Final = 3.0
GRACE_S: Final = 1.0
TOGETHER: Final = 3
MODES: Final = ("plain", "streamed")
OK: Final = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
GZIP: Final = b"Content-Encoding: gzip\r\n"
BEGIN: Final = b'{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"'
END: Final = b'"}}]}'


def event(text: bytes, finish: bytes = b"null") -> bytes:
    """Write one event of a stream."""
    choice = b'{"index":0,"finish_reason":' + finish + b',"delta":{"content":"' + text + b'"}}'
    return b'data: {"choices":[' + choice + b"]}\n\n"


DONE: Final = event(b"", b'"stop"') + b"data: [DONE]\n\n"


class Case(msgspec.Struct, frozen=True):
    """An answer: its head, what comes once, what is repeated, and what comes at the end.

    `times` None repeats for ever; `pause_s` lies between the repetitions. `answered` names the
    modes in which it can be read, and in others it must fail; None leaves it open.
    """

    head: bytes = OK + b"\r\n"
    first: bytes = b""
    again: bytes = b""
    times: int | None = 0
    last: bytes = b""
    pause_s: float = 0.0
    answered: tuple[str, ...] | None = ()

    def pieces(self) -> Iterator[bytes]:
        """Go through the answer."""
        yield self.head
        yield self.first
        yield from itertools.repeat(self.again, *(() if self.times is None else (self.times,)))
        yield self.last


def _bomb(unit: bytes) -> bytes:
    """Pack something so that it can be sent again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)


def _again(unit: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)


HEADERS: Final = b"".join(b"X-Filler-%d: %s\r\n" % (at, b"h" * 1000) for at in range(10_000))
WORDS: Final = b"word " * 13_000
CASES: Final[dict[str, Case]] = {
    "endless stream": Case(again=event(b"la " * 4000), times=None),
    "endless small deltas": Case(again=event(b".") * 500, times=None),
    "endless comments": Case(again=b": keep-alive\n\n" * 4000, times=None),
    "endless blank lines": Case(again=b"\n" * 64_000, times=None),
    "endless line": Case(first=b"data: ", again=b"la" * 32_000, times=None),
    "endless body": Case(first=BEGIN, again=WORDS, times=None),
    "drip of a body": Case(first=BEGIN, again=b"w", times=None, pause_s=1.0),
    "drip of a stream": Case(first=event(b"a"), again=b":", times=None, pause_s=1.0),
    "drip of a head": Case(head=OK, again=b"X", times=None, pause_s=1.0),
    "drip of comments": Case(again=b": x\n\n", times=None, pause_s=0.2),
    "gigabyte of content": Case(first=BEGIN, again=WORDS, times=16_600, last=END),
    "million deltas": Case(again=event(b".") * 500, times=2000, last=DONE),
    "gzip bomb": Case(OK + GZIP + b"\r\n", _bomb(BEGIN), _again(b"la" * 512 * 1024), times=1024),
    "gzip bomb in a stream": Case(
        OK + GZIP + b"\r\n", _bomb(event(b"a")), _again(b": x\n\n" * 200_000), times=1024
    ),
    "ten megabytes of headers": Case(OK + HEADERS + b"\r\n", BEGIN, last=b"Hello." + END),
    "endless headers": Case(OK, again=b"X-Filler: " + b"h" * 1000 + b"\r\n", times=None),
    "endless status line": Case(b"HTTP/1.1 200 ", again=b"OK" * 4000, times=None),
    "invalid UTF-8": Case(first=BEGIN + b"\xff\xfe Hello." + END, answered=None),
    "invalid UTF-8 in a stream": Case(first=event(b"\xff\xfe Hello.") + DONE, answered=None),
    "byte order mark": Case(first=b"\xef\xbb\xbf" + BEGIN + b"Hello." + END, answered=MODES),
    "byte order mark in a stream": Case(
        first=b"\xef\xbb\xbf" + event(b"Hello.") + DONE, answered=("streamed",)
    ),
    "no last blank line": Case(first=event(b"Hello.") + DONE.rstrip(), answered=("streamed",)),
}
REDIRECTS: Final = (301, 302, 303, 307, 308)


class Ended(msgspec.Struct, frozen=True):
    """How a conversation ended, what it took, and what nobody had expected."""

    code: str = ""
    peak_mib: float = 0.0
    seconds: float = 0.0
    raised: str = ""


class Listener:
    """An endpoint that plays cases, and another host that nobody should come to."""

    def __init__(self) -> None:
        self.strangers: list[bytes] = []
        self.heads: list[bytes] = []
        self._elsewhere = b""

    async def __aenter__(self) -> str:
        other = await asyncio.start_server(self._stranger, "127.0.0.1", 0)
        self._elsewhere = b"http://localhost:%d/v1" % other.sockets[0].getsockname()[1]
        here = await asyncio.start_server(self._play, "127.0.0.1", 0)
        self._servers = (other, here)
        return f"http://127.0.0.1:{here.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    async def _stranger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.strangers.append(await reader.read(MIB))
        writer.close()

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            async for piece in self._answer(head.split(b" ")[1].split(b"/")[1].decode()):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            while await reader.read(MIB):
                pass
        writer.close()

    async def _answer(self, name: str) -> AsyncIterator[bytes]:
        if name.isdigit():
            yield b"HTTP/1.1 %s Moved\r\nConnection: close\r\n" % name.encode()
            yield b"Location: %s/chat/completions\r\nContent-Length: 0\r\n\r\n" % self._elsewhere
            return
        case = CASES[name.replace("+", " ")]
        for piece in case.pieces():
            yield piece
            await asyncio.sleep(case.pause_s)


async def converse(url: str, mode: str) -> str:
    """Hold one conversation; return the code of its failure, blank if it was answered."""
    client = OpenAICompatible(url, KEY)
    config = presets.raw().but(run_deadline_s=DEADLINE_S)
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


async def _tried(names: list[tuple[str, str]]) -> tuple[list[str], list[Ended]]:
    gate = asyncio.Semaphore(TOGETHER)
    listener = Listener()

    async def one(name: str, mode: str) -> tuple[list[str], Ended]:
        async with gate:
            ended = await _in_a_process(url, mode, name)
        answered = () if name.isdigit() else CASES[name.replace("+", " ")].answered
        return list(judged(name, mode, ended, answered)), ended

    async with listener as url:
        found = await asyncio.gather(*(one(*each) for each in names))
    failures = [problem for problems, _ in found for problem in problems]
    failures += [f"another host was asked: {head[:80]!r}" for head in listener.strangers]
    if not any(KEY.encode() in head for head in listener.heads):
        failures.append("the endpoint itself never got the key, so nothing was tried")
    return failures, [ended for _, ended in found]


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
    """Play `size` answers: first every case, plain and streamed, then bodies of the bench."""
    names = own_names()
    random.Random(seed).shuffle(names)
    failures, ended = asyncio.run(_tried(names[:size]))
    more, peaks = (
        asyncio.run(more_bodies(size - len(names), seed)) if size > len(names) else ([], [])
    )
    peak = max(*peaks, *(one.peak_mib for one in ended), 0.0)
    slowest = max(one.seconds for one in ended)
    return Outcome(
        f"{len(ended)} answers on loopback, each to a process of its own: endless, dripping, a "
        "gigabyte, packed, headers of 10 MB, redirects; a run has a deadline of "
        f"{DEADLINE_S:g} s; {len(peaks)} bodies of bench/memory.py",
        len(ended) + len(peaks),
        gathered([*failures, *more]),
        figures=f"at most {peak:.0f} MiB over the base (bar {BAR_MIB}), {slowest:.1f} s; the key "
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
    "A hostile endpoint costs bounded memory and time, and gets no key elsewhere.",
    attempt,
    (54, 114, 454),
)
