"""`surecall eval` against servers that others wrote."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.commands import Run
from tests.support.servers import ANSWER, ASKED, WEATHER, Foreign, control

Measure: TypeAlias = Callable[..., tuple[int, int, dict[str, int]]]

pytestmark = [pytest.mark.third_party, pytest.mark.processes]
HOME_AND_WORK = f'''
from surecall import tool
from surecall.eval import expect, scenario

WEATHER = {WEATHER!r}


@tool
def get_weather(city: str) -> str:
    """Weather for a city."""
    return WEATHER[city]


@scenario(tools=[get_weather])
async def home_and_work(run):
    out = await run({ASKED!r})
    expect.called(out, "get_weather", city="Paris")
    expect.called(out, "get_weather", city="Oslo")
    expect.contains(out, {ANSWER!r})
'''


NEVER_ENDING = '''
from surecall import tool
from surecall.eval import expect, scenario


@tool
def get_weather(location: str, date: str) -> str:
    """Weather for a place."""
    return "clear"


@scenario(tools=[get_weather])
async def beijing(run):
    out = await run("What's the weather like in Beijing today?")
    expect.contains(out, "sunny")
'''


@pytest.fixture(name="measure")
def measure_fixture(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Evaluate a server; return how many trials passed, of how many, and the errors."""

    def measure(server: Foreign, scenario: str = "") -> tuple[int, int, dict[str, int]]:
        monkeypatch.setenv("SURECALL_API_KEY", server.key)
        (tmp_path / "mine.py").write_text(scenario, "utf-8")
        where = ("--base-url", server.url, "--api-prefix", server.prefix, "-m", server.model)
        what = ("-s", "mine.py", "-n", "3") if scenario else ("-n", "2")
        code, out, _ = run("eval", *where, *what, "--json", "-q")
        document = json.loads(out)
        passed = document["recommendations"][0]["tool"]
        errors: Counter[str] = Counter()
        for row in document["by_scenario"].values():
            errors.update(row["errors"])

        assert code == 0
        return passed["k"], passed["n"], dict(errors)

    return measure


@pytest.mark.parametrize("name", ["fakellm", "ai_mock", "aimock"])
def test_every_trial_with_a_server_that_makes_the_calls_passes(
    name: str, measure: Measure, request: pytest.FixtureRequest
) -> None:
    assert measure(request.getfixturevalue(name), HOME_AND_WORK) == (3, 3, {})


def test_every_trial_through_litellm_passes_with_a_bent_server_behind_it(
    litellm: Foreign, measure: Measure
) -> None:
    assert measure(litellm._replace(model="bent"), HOME_AND_WORK) == (3, 3, {})


def test_a_server_that_calls_for_ever_fails_every_trial_by_name(
    mock_openai_api: Foreign, measure: Measure
) -> None:
    assert measure(mock_openai_api, NEVER_ENDING) == (0, 3, {"LOOP_DETECTED": 3})


def test_a_server_that_makes_up_arguments_is_heard_judged_and_failed(
    llmock: Foreign, measure: Measure
) -> None:
    control(f"{llmock.url}/_llmock/reset")

    assert measure(llmock)[:2] == (0, 10)
