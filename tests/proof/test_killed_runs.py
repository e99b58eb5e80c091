"""A run that is killed anywhere makes no call twice, and a resume that would is found out.

Everything happens in an interpreter of its own, because it forks.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]
KILL = """
import sys
from pathlib import Path
import msgspec
from proof import killed_runs
{defect}
died, failures = killed_runs.{work}
print(died, *failures, sep="\\n")
"""
# A resume that forgets which calls had begun.
FORGETFUL = """
honest = killed_runs.run_of
killed_runs.run_of = lambda trace: msgspec.structs.replace(honest(trace), begun=())
"""
# A tool that acts twice.
EAGER = """
honest = killed_runs.Place.leave
killed_runs.Place.leave = lambda self, item: (honest(self, item), honest(self, item))
"""


def _told(work: str, defect: str = "") -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", KILL.format(work=work, defect=defect)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_few_kills_hold(tmp_path: Path) -> None:
    died, *failures = _told(f"kill_runs(Path({str(tmp_path / 'run')!r}), 12, 1)")
    assert int(died) >= 12
    assert failures == []


def test_a_resume_that_makes_a_call_twice_is_found_out(tmp_path: Path) -> None:
    told = _told(f"kill_runs(Path({str(tmp_path / 'run')!r}), 60, 1)", FORGETFUL)
    assert any("took effect 2 times" in line for line in told)
    assert any("not CALL_OUTCOME_UNKNOWN" in line for line in told)


def test_streams_that_are_left_hold(tmp_path: Path) -> None:
    times, *failures = _told(f"leave_streams(Path({str(tmp_path / 'run')!r}))")
    assert int(times) > 100
    assert failures == []


def test_an_effect_too_many_after_a_stream_was_left_is_found_out(tmp_path: Path) -> None:
    _, *failures = _told(f"leave_streams(Path({str(tmp_path / 'run')!r}))", EAGER)
    assert any("took effect 2 times" in line for line in failures)
