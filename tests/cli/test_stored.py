"""What a stored run says about itself."""

import json

from surecall.eval.storage.trial import Cell
from tests.support.commands import Run, one_line, stored
from tests.support.trials import series


def test_settings_that_cannot_be_read_are_one_line(run: Run) -> None:
    stored(series("."), settings={"bar": "high"})
    code, _, err = run("export")

    assert code == 2
    assert "the settings of a run cannot be read" in one_line(err)


def test_a_run_at_a_real_endpoint_is_reported_without_its_key(run: Run) -> None:
    settings = {"base_url": "https://openrouter.ai/api"}
    stored(series("...", cell=Cell("openai/gpt-5.2:nitro")), settings=settings, simulated=False)
    code, out, _ = run("export", "--format", "json")

    (advice,) = json.loads(out)["recommendations"]
    assert (code, advice["verdict"]) == (0, "Yes")
    assert 'provider="openrouter"' in advice["snippet"]
