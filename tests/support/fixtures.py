"""Fixtures that several folders share; the `conftest.py` of each names those that it needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surecall.simulator.server import Simulator
from tests.support.commands import Run, command_line


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
