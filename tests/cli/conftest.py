"""What the tests of the commands share."""

from pathlib import Path

import pytest

from tests.support.commands import Run, command_line


@pytest.fixture(name="run")
def run_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run the command line in an empty folder, in this process."""
    return command_line(tmp_path, monkeypatch, capsys)
