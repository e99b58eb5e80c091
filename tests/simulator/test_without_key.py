"""A client for code that is to run before there is a key."""

import subprocess
import sys
from typing import Any

import pytest

from surecall import ConfigError, ToolLoopRunner
from surecall.simulator import stand_in
from surecall.simulator.without_key import NO_KEY_NOTICE
from tests.support.project_files import ROOT

CODE = """
from surecall import ToolLoopRunner
from surecall.simulator import stand_in

runner = ToolLoopRunner(client=stand_in(), model="a/model-that-nobody-knows")
print(runner.run_sync("Say something.").assistant_text)
"""


def note(text: str) -> dict[str, Any]:
    """Keep a note."""
    return {"text": text}


@pytest.mark.processes
def test_a_program_with_it_runs_says_so_and_ends() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert (ran.returncode, ran.stderr) == (0, f"{NO_KEY_NOTICE}\n")
    assert ran.stdout.strip()


def test_whatever_model_is_asked_for_the_persona_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runner = ToolLoopRunner(client=stand_in("sim/clean"), model="a/model", tools=[note])
    result = runner.run_sync('Call note with {"text": "milk"}.')
    runner.close()

    assert [one.name for one in result.run.results] == ["note"]
    assert capsys.readouterr().err == f"{NO_KEY_NOTICE}\n"


def test_an_unknown_persona_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown persona"):
        stand_in("sim/claen")
