"""The documentation runs: its Python is executed, its reference is up to date, its links exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from surecall.settings.config import ToolCallingConfig
from surecall.settings.setting_docs import HELP
from surecall.testing import Item, ScriptedProvider, calls, says, streams
from tests.support.paths import ROOT


def python_blocks(text: str) -> list[str]:
    return [part.split("```", 1)[0] for part in text.split("```python\n")[1:]]


def test_the_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks((ROOT / "README.md").read_text("utf-8"))
    script: list[Item] = [calls("get_weather", city="Paris", days=3), says("Clear for 3 days.")] * 2
    script += [streams(calls("get_weather", city="Rome")), streams(says("Clear in Rome, too."))]
    with ScriptedProvider(*script) as provider:
        code = "\n".join(blocks).replace("http://127.0.0.1:8000", provider.url)
        space: dict[str, object] = {"__name__": "readme"}
        exec(compile(code.replace('"…"', '"a-key"'), "README.md", "exec"), space)  # noqa: S102  # the README is ours

    shown = capsys.readouterr().out
    assert "Clear for 3 days." in shown
    assert "Clear in Rome, too." in shown
    assert (tmp_path / "run.jsonl").stat().st_size > 0


@pytest.mark.processes
@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_an_example_runs_to_its_last_assertion(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.processes
def test_the_generated_reference_is_up_to_date() -> None:
    script = ROOT / "scripts" / "generate_docs.py"
    ran = subprocess.run([sys.executable, str(script), "--check"], check=False)

    assert ran.returncode == 0


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_relative_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    targets = [part.split(")", 1)[0] for part in text.split("](")[1:]]
    local = [target.split("#")[0] for target in targets if not target.startswith("http")]

    assert [target for target in local if not (ROOT / target).exists()] == []


def test_every_setting_is_explained() -> None:
    assert tuple(HELP) == ToolCallingConfig.__struct_fields__
