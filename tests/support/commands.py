"""Commands for tests: in this process, on a terminal, comparing endpoints, or killed midway."""

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from surecall import cli
from surecall.core.outcome import RunResult
from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.running.protocol_probe import MAGIC_WORD
from surecall.eval.storage.store import Invocation, RunStore, open_or_resume
from surecall.eval.storage.trial import Key, Trial
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.presets import raw as raw_config
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedModel, calls, says
from surecall.values.trace import Trace
from surecall.values.types import JSON
from tests.support.timing import until
from tests.support.tools import add
from tests.support.trials import trial

# Running commands in this process, and stores for them to read


Run: TypeAlias = Callable[..., tuple[int, str, str]]

# Ends the line, clears the screen, turns the direction of writing; the last two are not printable.
HOSTILE = "x\n\x1b[2J\u202egnp.exe\x9b1m\xa0\u2028"
IDENTITY: JSON = {"base_url": "sim", "seed": 0}
SETTINGS: JSON = {"base_url": "sim", "bar": 90.0}


def command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return what runs a command in an empty folder: exit code, output, remarks."""
    monkeypatch.chdir(folder)
    for name in list(os.environ):
        if name.startswith(("SURECALL_", "OPENROUTER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.with_name(f"{folder.name}-config")))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        out, err = capsys.readouterr()
        for line in (out + err).split("\n"):
            assert line.isprintable(), line
        return code, out, err

    return run


def stored(
    trials: Iterable[Trial],
    *,
    base: str = ".surecall",
    identity: Mapping[str, Any] = IDENTITY,
    settings: Mapping[str, Any] = SETTINGS,
    traces: Mapping[Key, bytes] | None = None,
    simulated: bool = True,
    **invocation: Any,
) -> Path:
    """Make a run that holds these trials; return its directory. The rest is the command's."""
    kept = list(trials)
    cells = dict.fromkeys(trial.key.cell for trial in kept)
    scenarios = tuple(dict.fromkeys(trial.key.scenario for trial in kept))
    columns = tuple(SheetColumn(cell, simulated=simulated) for cell in cells)
    sheet = Sheet(columns, scenarios, dict(settings))
    command = Invocation(config={"sheet": msgspec.to_builtins(sheet)}, **invocation)
    with open_or_resume(Path(base), identity, command, fresh=True) as store:
        for trial in kept:
            store.add(trial, (traces or {}).get(trial.key))
        return store.directory


def one_line(err: str) -> str:
    """Return the only complaint."""
    assert err.startswith("surecall: ")
    assert err.count("\n") == 1
    return err


# Commands on a terminal of a chosen width, and what must hold of what they print there


_ROWS = 40
_BETWEEN = "\x1e"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Drawings, and numbers: a time may be another one the next time.
_DRAWN = re.compile("[·─●┼.o|-]+")
_NUMBER = re.compile(r"[\d.]+")
_MAIN = f"""
import json, sys
from surecall.cli import main
codes = []
for words in json.loads(sys.argv[1]):
    codes.append(main(words))
    print({_BETWEEN!r}, flush=True)
sys.exit(max(codes))
"""


def on_terminal(
    folder: Path,
    width: int,
    *commands: Sequence[str],
    code: str = _MAIN,
    variables: Mapping[str, str] | None = None,
) -> tuple[int, list[str]]:
    """Run commands one after the other in one process; return the worst code and what each said."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, width, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(commands)],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "PYTHONUTF8": "1"} | dict(variables or {}),
    ) as process:
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 65536):
                printed += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    texts = printed.decode().replace("\r\n", "\n").split(f"{_BETWEEN}\n")
    return process.returncode, texts[: len(commands)]


def colourless(text: str) -> str:
    """Take the colours out."""
    return _COLOUR.sub("", text)


def words_of(text: str) -> set[str]:
    """Return the words of a text, without colours, drawings, numbers and marks between words."""
    words = (word.strip(";:,.") for word in colourless(text).split())
    return {
        word
        for word in words
        if word and not _DRAWN.fullmatch(word) and not _NUMBER.fullmatch(word)
    }


def assert_fits(text: str, width: int) -> None:
    """No line is longer than the terminal is wide."""
    for line in colourless(text).split("\n"):
        assert len(line) <= width, line


def assert_whole(text: str, reference: str) -> None:
    """No word is cut: each is in the reference, or is the beginning of one there and says so."""
    known = words_of(reference)
    for word in words_of(text) - known:
        assert word.endswith("…"), word
        assert any(each.startswith(word[:-1]) for each in known), word


def assert_aligned(text: str) -> None:
    """Below a head, columns begin where their heads do, in every row until a blank line."""
    for block in colourless(text).split("\n\n"):
        head, *rows = block.split("\n")
        starts = [found.start() for found in re.finditer(r"(?<=  )\S", head)]
        for row in rows:
            is_below = row.startswith("    ") and not row.startswith("     ")
            for start in () if is_below else starts:
                gap = row[start - 2 : start].strip()
                assert not gap or _DRAWN.fullmatch(gap), (head, row)


# Recorded requests that the simulator understands, and commands that compare endpoints by them


TOOL: JSON = {
    "type": "function",
    "function": {
        "name": "state_get",
        "description": "Read the workspace.",
        "parameters": {
            "type": "object",
            "properties": {"workspace_id": {"type": "string"}},
            "required": ["workspace_id"],
        },
    },
}
ASK = "workspace_id=ws_{}. Set /draft/foo to bar, then reply Done."
LOG = "requests.jsonl"


def written(folder: Path, number: int, **more: Any) -> None:
    """Write so many recorded requests."""
    lines = [
        json.dumps(
            {"messages": [{"role": "user", "content": ASK.format(at)}], "tools": [TOOL]} | more
        )
        for at in range(number)
    ]
    (folder / LOG).write_text("\n".join(lines))


def compare(*words: str, reference: str = "good", against: str = "cheap") -> tuple[str, ...]:
    return ("eval", "-s", LOG, "--reference", reference, "--against", against, *words)


def agreement(folder: Path) -> JSON:
    (path,) = folder.glob(".surecall/runs/*/agreement.json")
    (found,) = json.loads(path.read_text())["comparisons"]
    return dict(found)


# A command that is killed (-9) when it has recorded so many trials.
#     python -m tests.support.commands 3 before eval -n 10 …
#
# `before`: the trial that would be the next is over, and not yet recorded; `after`: it just was. So
# the moment depends on no clock, and the other trials under way are wherever they are.


def main(count: str, moment: str, *arguments: str) -> int:
    """Run a command that does not come far."""
    add, recorded = RunStore.add, iter(range(int(count)))

    def adding(self: RunStore, *what: Any, **named: Any) -> None:
        last = next(recorded, None) is None
        if last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, *what, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    RunStore.add = adding  # type: ignore[method-assign]  # this process is nobody else's
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))


# Fixtures that several folders share; the `conftest.py` of each names those that it needs


@pytest.fixture(name="run")
def run_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run commands in an empty folder, in this process."""
    return command_line(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """Serve the simulator while the tests of a module last."""
    with Simulator(seed=11) as running:
        yield running


MODEL = ("-m", "my-model")


BOUND = json.dumps({"tool": "echo", "arguments": {"text": MAGIC_WORD}})


TAGGED = '<tool_call>{"name": "echo", "arguments": {"text": "hello"}}</tool_call>'


TRIED = (calls("echo", text="hello"), says("Done."))


# The replies of an endpoint that honours all protocols, in the order in which it is asked.
NATIVE, GUIDED, PROMPTED = calls("echo", text="hello"), says(BOUND), says(TAGGED)


PROBED = (NATIVE, GUIDED, PROMPTED)


def protocols_in(out: str) -> dict[str, str]:
    lines = [line.partition("  ") for line in out.splitlines()]
    names = ("native", "guided", "prompted")
    return {name: said.strip() for name, _, said in lines if name in names}


SMALL = ("eval", "-m", "sim/clean,sim/lazy", "-s", "happy_path,chat_only", "-n", "3")


def recorded_statuses(folder: Path) -> dict[str, int]:
    """Count the trials of the only run by status."""
    (database,) = folder.glob(".surecall/runs/*/trials.sqlite")
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT status, count(*) FROM trials GROUP BY status").fetchall()
    return dict(rows)


def until_recorded(folder: Path, count: int) -> None:
    """Wait until some trials are on the disk."""

    def is_recorded() -> bool:
        if not list(folder.glob(".surecall/runs/*/trials.sqlite")):
            return False
        try:
            return sum(recorded_statuses(folder).values()) >= count
        except sqlite3.Error:  # it is being made
            return False

    until(is_recorded)


STRICT_SURECALL = (sys.executable, "-W", "error", "-m", "surecall")


QUIET_SMALL = ("eval", "-q", "-m", "sim/clean,sim/lazy", "-s", "happy_path,chat_only")


def sum_trace(text: str = "3", asked: str = "1 + 2?") -> Trace:
    """Hold a conversation that ends with this text."""
    runner = ToolLoopRunner(
        client=ScriptedModel(calls("add", a=1, b=2), says(text)),
        model="m",
        registry=[add],
        config=raw_config(),
    )
    result: RunResult = asyncio.run(runner.run(asked))
    return result.trace


def with_trace(trace: bytes | None, one: Trial | None = None) -> Path:
    kept = one or trial("failed", error=f"ASSERTION_FAILED: {HOSTILE}", hint=HOSTILE)
    return stored([kept], traces={} if trace is None else {kept.key: trace})


def is_group_empty(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
