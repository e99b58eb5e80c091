"""Running commands in this process, and stores for them to read."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from surecall import cli
from surecall.eval.report.common import Column, Sheet
from surecall.eval.storage.store import Invocation, open_or_resume
from surecall.eval.storage.trial import Key, Trial
from surecall.values.types import JSON

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
    columns = tuple(Column(cell, simulated=simulated) for cell in cells)
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
