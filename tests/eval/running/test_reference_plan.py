"""The plan of a comparison of endpoints: the same requests for each, and what is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall.cli.target import model_library
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.running.reference_plan import (
    ComparedEndpoint,
    build_reference_plan,
    endpoint_settings,
)
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.settings.endpoint import resolve_endpoint
from surecall.eval.settings.endpoint_keys import NamedEndpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.value_parsers import Shard
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

ONE = {"messages": [{"role": "user", "content": "Count."}], "tools": []}
RAW = Settings(strategy_filter="raw", model_filter="kimi-k2", trials=2)
GOOD = NamedEndpoint("good", "http://127.0.0.1:1", key=Secret("k"))
CHEAP = NamedEndpoint("cheap", "http://127.0.0.1:2?key=secret", "moon/kimi")


@pytest.fixture(name="requests")
def requests_fixture(tmp_path: Path) -> tuple[Scenario, ...]:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(ONE) + "\n" + json.dumps(ONE))
    return load_scenarios(str(path))


def planned(
    requests: tuple[Scenario, ...], *named: NamedEndpoint, **changes: Any
) -> EvaluationPlan:
    settings = msgspec.structs.replace(RAW, **changes)
    return build_reference_plan(settings, requests, [_candidate(settings, each) for each in named])


def _candidate(settings: Settings, named: NamedEndpoint) -> ComparedEndpoint:
    endpoint = resolve_endpoint(endpoint_settings(settings, named))
    return ComparedEndpoint(named, endpoint, model_library(endpoint))


def test_each_endpoint_has_a_cell_a_lane_and_its_own_name_of_the_model(
    requests: tuple[Scenario, ...],
) -> None:
    found = planned(requests, GOOD, CHEAP)

    assert [each.cell.model for each in found.cells] == ["kimi-k2@good", "moon/kimi@cheap"]
    assert [each.model.sent_id for each in found.cells] == ["kimi-k2", "moon/kimi"]
    assert [each.model.lane for each in found.cells] == ["kimi-k2@good", "moon/kimi@cheap"]
    assert {each.cell.strategy for each in found.cells} == {"raw"}
    assert found.count_remaining().total() == 2 * 2 * 2
    assert found.endpoints == {
        "kimi-k2@good": "http://127.0.0.1:1",
        "moon/kimi@cheap": "http://127.0.0.1:2?...",
    }
    assert (found.settings.reference, found.settings.against) == ("kimi-k2@good", "moon/kimi@cheap")
    assert "secret" not in str(msgspec.to_builtins(found.identity))


def test_another_address_of_a_name_makes_another_run_but_other_roles_do_not(
    requests: tuple[Scenario, ...],
) -> None:
    plain = planned(requests, GOOD, CHEAP).identity
    moved = planned(requests, GOOD, msgspec.structs.replace(CHEAP, url="http://127.0.0.1:3"))

    assert moved.identity != plain
    assert planned(requests, GOOD, CHEAP).identity == plain


def test_tools_that_are_off_are_skipped_at_every_endpoint(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "count", "parameters": {"type": "object"}}}
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(ONE | {"tools": [tool]}) + "\n" + json.dumps(ONE))
    found = planned(load_scenarios(str(path)), GOOD, CHEAP, tool_use_mode="disabled")

    assert [skip.cell.model for skip in found.skips] == ["kimi-k2@good", "moon/kimi@cheap"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": "auto"}, "--reference requires a number of trials, not auto"),
        ({"shard": Shard(1, 2)}, "--reference requires no --shard"),
        ({"engine": "dask"}, "--reference requires --engine local"),
        ({"gguf": "x.gguf"}, "--reference requires no --gguf"),
        (
            {"strategy_filter": "raw,production"},
            "one model, one profile, and one strategy; .* 2 combinations: ",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    requests: tuple[Scenario, ...], changes: dict[str, Any], message: str
) -> None:
    candidates = [_candidate(RAW, each) for each in (GOOD, CHEAP)]
    with pytest.raises(ConfigError, match=message):
        build_reference_plan(msgspec.structs.replace(RAW, **changes), requests, candidates)


def test_conversations_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="recorded requests, but happy_path is a conversation"):
        planned(tuple(each for each in SCENARIOS if each.id == "happy_path"), GOOD, CHEAP)


def test_an_endpoint_that_is_named_twice_is_refused(requests: tuple[Scenario, ...]) -> None:
    with pytest.raises(ConfigError, match="good is listed twice"):
        planned(requests, GOOD, msgspec.structs.replace(GOOD, model="kimi-k2"))
