"""Servers that others wrote: pinned, described as they are, and skipped unless demanded."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from surecall.values.types import JSON
from tests.support import servers as foreign_servers
from tests.support.project_files import ROOT
from tests.support.servers import DEMANDED, FILES, NONE_FOUND, program, script

ROW = re.compile(r"^\| \[(?P<name>[^]]+)]\((?P<page>[^)]+)\) (?P<version>\S+) \|", re.MULTILINE)


def pinned() -> dict[str, str]:
    """Read the servers and their versions from the files that `make third-party` installs."""
    servers, _ = (FILES / "servers.txt").read_text("utf-8").split("# What they need.")
    lines = [line for line in servers.splitlines() if not line.startswith("#")]
    found = dict(line.split("==") for line in lines if line)
    package: JSON = json.loads((FILES / "package.json").read_text("utf-8"))
    return found | dict(package["dependencies"])


def test_the_documentation_names_every_server_with_its_version() -> None:
    page = (ROOT / "docs" / "testing.md").read_text("utf-8")

    assert {row["name"]: row["version"] for row in ROW.finditer(page)} == pinned()


def test_every_package_has_one_version() -> None:
    lines = (FILES / "servers.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]

    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in pins)
    assert all(version[0].isdigit() for version in pinned().values())


def test_continuous_integration_installs_and_demands_them() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    (tests,) = [line for line in lines if line.endswith(" make test")]
    (installs,) = [
        line for line in lines if line.startswith("make ") and "third-party" in line.split()
    ]

    assert f"{DEMANDED}=1" in tests
    assert lines.index(installs) < lines.index(tests)


@pytest.mark.parametrize("find", [program, script])
def test_what_is_missing_is_skipped_unless_it_is_demanded(
    find: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_servers, "INSTALLED", tmp_path)
    monkeypatch.delenv(DEMANDED, raising=False)
    with pytest.raises(pytest.skip.Exception, match="`make third-party` installs them"):
        find("llmock")
    monkeypatch.setenv(DEMANDED, "1")
    with pytest.raises(pytest.fail.Exception, match=NONE_FOUND):
        find("llmock")
