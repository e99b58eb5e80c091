"""`surecall eval --reference A --against B` as people run it: on a terminal, and interrupted."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.compared_endpoints import agreement, compare, written
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE_S, until
from tests.support.terminals import on_terminal


@pytest.mark.processes
def test_it_fits_a_terminal(tmp_path: Path) -> None:
    written(tmp_path, 8)
    (tmp_path / ".env").write_text("CHEAP_BASE_URL=sim\nGOOD_BASE_URL=sim\n")
    words = compare("-n", "2", "-q", reference="good=sim/clean", against="cheap=sim/lazy")
    code, (text,) = on_terminal(tmp_path, 80, words)

    assert code == 1
    rows = [line for line in text.splitlines() if line.startswith(("call or not", "same calls"))]
    assert [row.rstrip().endswith("worse") for row in rows] == [True, True]
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.processes
def test_the_example_of_the_documentation_runs_as_it_is(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
    (example,) = re.findall(r"```bash\n(for n in .*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    ours = f'surecall() {{ {sys.executable} -W error -m surecall "$@"; }}\n'
    done = subprocess.run(
        ["/bin/bash", "-c", ours + example[0]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, example[1]), done.stderr


@pytest.mark.processes
def test_ctrl_c_loses_nothing_and_the_same_command_continues(tmp_path: Path) -> None:
    written(tmp_path, 80)
    words = compare("-n", "2", "-q", "-j", "2", reference="sim=sim/clean", against="sim=sim/lazy")
    command = (sys.executable, "-W", "error", "-m", "surecall", *words)
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, env=os.environ) as process:
        until(lambda: recorded(tmp_path) >= 10)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    before = recorded(tmp_path)

    assert process.returncode == 130
    assert b"the same command continues" in err
    assert 10 <= before < 320
    assert agreement(tmp_path)["counts"]["asked"] < 160
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert again.returncode == 1
    assert recorded(tmp_path) == 320
    assert agreement(tmp_path)["counts"]["asked"] == 160


def recorded(folder: Path) -> int:
    """Count the trials of the only run; none before it has a store."""
    found = list(folder.glob(".surecall/runs/*/trials.sqlite"))
    if not found:
        return 0
    with closing(sqlite3.connect(found[0])) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM trials").fetchone()[0])
        except sqlite3.OperationalError:
            return 0
