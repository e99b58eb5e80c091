"""The proof by random cases fails as soon as a reader raises or returns what is not sound."""

from typing import Any

import msgspec
import pytest

from proof import fuzz
from surecall.core.inbound import inbound
from surecall.parsing.arguments import Arguments
from surecall.values.errors import ConfigError
from surecall.values.types import Reply


def test_a_few_cases_of_every_target_hold_and_are_counted() -> None:
    outcome = fuzz.attempt(100, 7)
    assert outcome.holds, outcome.failures
    assert (outcome.cases, outcome.figures[:26]) == (200, "structured 100, bytes 100;")


def test_a_case_is_made_of_target_seed_and_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(fuzz, "inbound", lambda body, *_: seen.append(body))
    assert fuzz.replay("bodies", 1, 3) == fuzz.replay("bodies", 1, 3)
    half = len(seen) // 2
    assert half
    assert seen[:half] == seen[half:]


def test_there_are_faults_of_shape_and_of_streams() -> None:
    assert min(len(fuzz._FAULTS), len(fuzz._STREAM_FAULTS)) > 40


def _raises(*_anything: object, **_named: object) -> Any:
    raise KeyError("choices")


def _raises_ours(*_anything: object) -> Any:
    raise ConfigError("no")


def _without_ids(*given: Any) -> Any:
    reply = inbound(*given)
    if not isinstance(reply, Reply):
        return reply
    calls = tuple(msgspec.structs.replace(call, id="c") for call in reply.calls)
    return msgspec.structs.replace(reply, calls=(*calls, *calls))


@pytest.mark.parametrize(
    ("target", "name", "defect", "told"),
    [
        ("bodies", "inbound", _raises, "KeyError: 'choices' at "),
        ("raw_bodies", "inbound", _without_ids, "ids that are not unique: ['c', 'c'"),
        ("chunks", "inbound", lambda *_: None, "neither a reply nor a fault: None"),
        ("arguments", "read_arguments", lambda *_: Arguments(None, 0), "neither an object nor a"),
        ("alike", "read_sample", lambda body: body, "AttributeError"),
        ("schemas", "ToolDefinition", _raises, "KeyError"),
        ("written", "recover", _raises, "KeyError"),
        ("traces", "parse_trace", _raises, "KeyError"),
        ("raw_streams", "Listener", _raises, "KeyError"),
        ("raw_texts", "Holdback", _raises, "KeyError"),
        ("raw_traces", "parse_trace", _raises, "KeyError"),
    ],
)
def test_a_defect_of_a_reader_is_found_and_told_with_what_replays_it(
    monkeypatch: pytest.MonkeyPatch, target: str, name: str, defect: Any, told: str
) -> None:
    monkeypatch.setattr(fuzz, name, defect)
    found = next(problems for n in range(200) if (problems := fuzz.replay(target, 1, n)))
    assert told in found[0]
    failed = fuzz.attempt(300, 1)
    assert f"fuzz.replay({target!r}, 1, " in "".join(failed.failures) or not failed.holds


def test_our_own_errors_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "inbound", _raises_ours)
    assert fuzz.replay("bodies", 1, 1) == []
