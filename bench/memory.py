"""What reading a hostile answer costs: memory over the base, CPU, the event loop's longest wait.

Each answer of `tests/support/costly_inputs.py` is served on loopback to a process of its own,
which holds a conversation with the default settings, plain (`run`) and streamed (`stream`). The
base is the process after one clean conversation. Printed is the peak over it in MiB, what is still
held afterwards with the trace, and how the conversation ended. Exits with 1 if one of them takes
more than the bar.

    python bench/memory.py [NAME …]        only answers whose name holds one of these words
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from surecall import OpenAICompatible, RunFailed, ToolLoopRunner, tool
from surecall.parsing.budget import MAX_TEXT
from surecall.settings.connection import DEFAULT_LIMITS
from tests.support.costly_inputs import ALL, CLEAN, GIGABYTE, HUGE, Hostile

BAR_MIB = 64.0
DEADLINE_S = 60.0
_KIB = 1024
# Just below the limit costs most: more than that is not read to its end.
SIZES = {
    "most": DEFAULT_LIMITS.max_response_bytes - 4096,
    "text": MAX_TEXT - 4096,
    "31 MiB": HUGE,
    "1 GiB": GIGABYTE,
}


def note(text: str) -> str:
    """Write something down."""
    return str(len(text))


def memory(field: str) -> float:
    """Return a figure of this process in MiB: `VmRSS` for now, `VmHWM` for the peak."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) / _KIB


def forget_peak() -> None:
    """Begin a new peak; the kernel does so when told 5."""
    Path("/proc/self/clear_refs").write_text("5")


async def ticking(gaps: list[float]) -> None:
    """Note how late each millisecond comes."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        gaps.append(now - last - 0.001)
        last = now


async def converse(url: str, mode: str, kept: list[object]) -> str:
    """Hold one conversation; return how it ended."""
    runner = ToolLoopRunner(client=OpenAICompatible(url), model="m", tools=[tool(note)])
    runner = ToolLoopRunner(
        client=OpenAICompatible(url),
        model="m",
        tools=[tool(note)],
        config=runner.config.replace(run_deadline_s=DEADLINE_S, max_turns=1),
    )
    try:
        if mode == "run":
            result = await runner.run("Hello.")
        else:
            stream = runner.stream("Hello.")
            async for _ in stream:
                pass
            result = stream.result
    except RunFailed as error:
        kept.append(error)
        return str(error.code)
    kept.append(result)
    return f"answer of {len(result.assistant_text)}"


async def child(base: str, name: str, size: str, mode: str) -> dict[str, Any]:
    """Measure one conversation in this process."""
    kept: list[object] = []
    await converse(f"{base}/{'clean-plain' if mode == 'run' else 'clean-stream'}/0", mode, [])
    gc.collect()
    before = memory("VmRSS")
    forget_peak()
    gaps: list[float] = []
    ticker = asyncio.create_task(ticking(gaps))
    started, cpu = time.perf_counter(), time.process_time()
    outcome = await converse(f"{base}/{name}/{size}", mode, kept)
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    ticker.cancel()
    gc.collect()
    return {
        "peak": memory("VmHWM") - before,
        "held": memory("VmRSS") - before,
        "seconds": took,
        "cpu": cpu,
        "block_ms": max(gaps, default=0.0) * 1000,
        "outcome": outcome,
    }


async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve the answer that the path names."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        head = await reader.readuntil(b"\r\n\r\n")
        name, size = head.split(b" ")[1].decode().split("/")[1:3]
        for piece in served(name, size):
            writer.write(piece)
            await writer.drain()
        # The client's request must be read, or closing would reset the connection.
        writer.write_eof()
        while await reader.read(_KIB * _KIB):
            pass
    writer.close()


def served(name: str, size: str) -> Iterator[bytes]:
    """Return the pieces of an answer by its name in the path."""
    name = name.replace("%20", " ").replace("+", " ")
    hostile: Hostile = {**ALL, **CLEAN}[name]
    return hostile.pieces(int(size))


async def measured(base: str, name: str, size: int, mode: str) -> dict[str, Any]:
    """Measure one conversation in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--child", base, name.replace(" ", "+"), str(size), mode,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    figures: dict[str, Any] = json.loads(said)
    return figures


def shown(name: str, row: dict[str, Any]) -> str:
    """Write a row of the table."""
    figures = f"{row['peak']:6.1f} {row['held']:6.1f} {row['cpu']:6.2f} {row['block_ms']:5.0f}ms"
    over = "  OVER" if row["peak"] > BAR_MIB else ""
    return f"{name:58} {figures}  {row['outcome']}{over}"


async def main(words: list[str]) -> int:
    """Print a row for each answer; fail if one is over the bar."""
    server = await asyncio.start_server(play, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    over = 0
    print(f"{'answer':58} {'peak':>6} {'held':>6} {'CPU s':>6} {'block':>7}  outcome")
    for name in ALL:
        if words and not any(word in name for word in words):
            continue
        for label, size in SIZES.items():
            if label not in ALL[name].sizes:
                continue
            for mode in ("run", "stream"):
                row = await measured(base, name, size, mode)
                over += row["peak"] > BAR_MIB
                print(shown(f"{name}, {label}, {mode}", row), flush=True)
    server.close()
    return int(over > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(asyncio.run(child(*sys.argv[2:6]))))
    else:
        sys.exit(asyncio.run(main(sys.argv[1:])))
