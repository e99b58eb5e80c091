"""The figures of the README and of the table in `docs/evaluation.md` are true."""

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from surecall.cli import cli
from surecall.simulator.personas.persona_catalog import PERSONAS, SHOWCASES
from tests.support.project_files import ROOT

STRATEGIES = ("raw", "production", "guided_contract")
ROW = re.compile(
    r"^\| `(sim/\S+)` \| (.+?) \| (\d+/\d+) \| (\d+/\d+) \| (\d+/\d+) \|$", re.MULTILINE
)
TOLD = {
    name: (summary, dict(zip(STRATEGIES, rates, strict=True)))
    for name, summary, *rates in ROW.findall((ROOT / "docs" / "evaluation.md").read_text("utf-8"))
}
# Enough to notice a change, and quick.
CHECKED = ("sim/stops-early", "sim/writes-calls-as-text")


def test_the_table_has_every_simulated_model_that_is_shown_and_says_what_it_does() -> None:
    told = {name: summary for name, (summary, _) in TOLD.items()}

    shown = {"sim/clean", *(each.id for each in SHOWCASES)}
    assert told == {name: PERSONAS[name].summary for name in shown}


@pytest.mark.slow
def test_the_rates_are_those_of_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["eval", "-q", "--json", "-m", ",".join(CHECKED), "--strategy", ",".join(STRATEGIES)]
    shown = CliRunner().invoke(cli, words)

    found = msgspec.json.decode(shown.stdout)
    counted = {(row["model_base"], row["strategy"]): row for row in found["cells"]}
    for name in CHECKED:
        for strategy in STRATEGIES:
            row = counted[name, strategy]
            assert f"{row['tool_ok']}/{row['tool_runs']}" == TOLD[name][1][strategy]
