"""What a hostile answer takes of the memory, in a process of its own: the worst that are known."""

import asyncio
import json
import sys

import pytest

from surecall.parsing.budget import MAX_BYTES, MAX_TEXT
from tests.support.costly_inputs import ALL, CLEAN
from tests.support.project_files import ROOT

BAR_MIB = 64
WORST = [
    ("small strings", MAX_BYTES - 4096, "run"),
    ("text of calls and an emoji", MAX_BYTES - 4096, "stream"),
    ("text of calls and an emoji", MAX_TEXT - 4096, "run"),
    ("text with half a character", MAX_BYTES - 4096, "run"),
    ("arguments of many calls", MAX_BYTES - 4096, "run"),
    ("calls in a string", MAX_BYTES - 4096, "run"),
    ("stream of one event with an emoji", MAX_BYTES - 4096, "stream"),
]


async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve the answer that the path names."""
    head = await reader.readuntil(b"\r\n\r\n")
    name, size = head.split(b" ")[1].decode().split("/")[1:3]
    for piece in (ALL | CLEAN)[name.replace("+", " ")].pieces(int(size)):
        writer.write(piece)
        await writer.drain()
    writer.close()


async def peak_of(name: str, size: int, mode: str) -> float:
    """Return what reading an answer takes at most over the base, in MiB."""
    server = await asyncio.start_server(play, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    command = ("bench/memory.py", "--child", base, name.replace(" ", "+"), str(size), mode)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    server.close()
    return float(json.loads(said)["peak"])


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(("name", "size", "mode"), WORST)
def test_a_hostile_answer_takes_less_than_the_bar(name: str, size: int, mode: str) -> None:
    assert asyncio.run(peak_of(name, size, mode)) < BAR_MIB
