"""What an evaluation takes, roughly: by the formula that is written down, and not far off."""

from pathlib import Path

import pytest

from surecall.eval.running.estimate import Estimate, Load, Price, estimate, load_of
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.functions import scenario as written_as_a_function
from surecall.eval.scenarios.plugins import load
from surecall.wire.messages import encode
from tests.support.eval_fakes import planned

BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


def test_a_scenario_with_tools_takes_three_requests_that_grow() -> None:
    happy = BY_ID["happy_path"]
    tools = [tool.spec for tool in happy.begin("-").registry.definitions]
    first = (len(happy.system) + len(happy.user) + len(encode(tools))) // 4
    load = load_of(happy)

    assert (load.requests, load.prompt_tokens) == (3, 3 * first + 150 + 300)
    assert load.completion_tokens == 360


def test_a_scenario_without_tools_takes_one_request_of_its_text() -> None:
    chat = BY_ID["chat_only"]
    load = load_of(chat)

    assert (load.requests, load.completion_tokens) == (1, 120)
    assert load.prompt_tokens == (len(chat.system) + len(chat.user)) // 4


def test_text_that_only_a_function_knows_has_a_size_of_its_own() -> None:
    @written_as_a_function(tags=["mine"])
    async def asks(run: object) -> None:
        """Ask something."""

    assert load_of(asks).prompt_tokens == 100


def test_the_cost_is_known_when_every_price_is_known() -> None:
    found = planned(model_filter="x_ai,anthropic", scenarios="simple", trials=10)
    grok, claude = (each.model.id for each in found.cells)
    prices = {grok: Price(0.2, 0.5), claude: Price(5.0, 25.0)}
    loads = [load_of(scenario) for scenario in found.scenarios]
    read = 20 * sum(load.prompt_tokens for load in loads)
    written = 20 * sum(load.completion_tokens for load in loads)

    assert estimate(found, found.left()) == Estimate(40, 80, read, written, None)
    assert estimate(found, found.left(), {grok: prices[grok]}).cost is None
    known = estimate(found, found.left(), prices).cost
    assert known == pytest.approx((read * 5.2 + written * 25.5) / 2e6)
    assert estimate(found, {}, prices) == Estimate()


def test_a_recorded_request_is_sent_once_and_is_all_in_its_line(tmp_path: Path) -> None:
    line = '{"messages": [{"role": "user", "content": "' + "x" * 800 + '"}]}'
    path = tmp_path / "log.jsonl"
    path.write_text(line)
    (one,) = load(str(path))

    assert load_of(one) == Load(1, len(line) // 4, 120)


def test_estimates_of_several_endpoints_add_up_unless_a_price_is_unknown() -> None:
    one = Estimate(1, 2, 3, 4, 0.5)

    assert one + one == Estimate(2, 4, 6, 8, 1.0)
    assert (one + Estimate(cost=None)).cost is None
