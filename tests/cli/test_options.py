"""Settings on the command line: each is an option, and mistakes are reported."""

import pytest

from tests.cli.test_eval import SMALL
from tests.support.commands import Run
from tests.support.spec import proves


@proves("I26")
def test_a_misspelt_mode_in_the_environment_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_TOOL_USE_MODE", "enforcd")
    code, _, err = run(*SMALL)

    assert code == 2
    assert "OPENROUTER_TOOL_USE_MODE" in err
    assert "enforced" in err


def test_a_misspelt_variable_is_a_warning_with_a_suggestion(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURECALL_TRIAL", "2")
    _, _, err = run(*SMALL, "-q")

    assert 'SURECALL_TRIAL is not a setting; did you mean "SURECALL_TRIALS"?' in err


def test_every_setting_is_an_option_in_a_group(run: Run) -> None:
    _, out, _ = run("eval", "--help")

    for title in (
        "What to run (a comma, or the option once more, joins filters):",
        "How to run it:",
        "Where:",
        "This command:",
    ):
        assert title in out
    assert "api-key" not in out
