"""What a case of the reply corpus is, and how one is checked.

A case has an `id` (its file is called so), a `source` that its fault names as well, the
`provenance` in words, the `tools` of the run, the `body` as it came, and the `expected` text with
the calls, or with a code. It may have:

    no_fault        why no fault of the simulator has this source
    fault           the one fault that it belongs to, where several have its source
    presets         the presets it is read with; without them, the default
    config          settings that the presets start from
    offered         the names of the tools that the request offered; without it, all of them
    earlier         ids of calls that earlier turns have used up
    ids, told, history_names    what else to look at: call ids, words to the model, names sent back
    to_check        what a person has yet to compare with the reply
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from surecall import ToolRegistry, presets
from surecall.core.inbound import inbound
from surecall.settings.presets import raw
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Assistant, Reply, ToolCall
from surecall.wire.messages import WireStyle, render_message
from tests.support.fault_samples import plan
from tests.support.paths import CORPUS

REPLIES = CORPUS / "replies"
NEEDED = {"id", "source", "provenance", "tools", "body", "expected"}
OPTIONAL = {"no_fault", "fault", "presets", "config", "offered", "earlier", "to_check"}
FURTHER = {"ids", "told", "history_names"}


def load(folder: Path = REPLIES) -> dict[str, JSON]:
    """Read every case of a folder, by the name of its file."""
    return {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
    }


def read(case: JSON) -> Reply | Fault:
    """Read the body of a case as a run would."""
    config = raw(**case.get("config", {}))
    for name in case.get("presets", ["default_tool_calling"]):
        config = presets.PRESET[name](config)
    registry = ToolRegistry(case["tools"])
    specs = tuple(definition.spec for definition in registry.definitions)
    offered = case.get("offered", [spec.name for spec in specs])
    request = msgspec.structs.replace(
        plan(*case.get("earlier", ())),
        tools=tuple(spec for spec in specs if spec.name in offered),
        known_tools=specs,
    )
    return inbound(case["body"], request, config, registry)


def check_case(case: JSON, name: str) -> None:
    """Check everything that must hold for one case, whose file is called `name`."""
    check_form(case, name)
    check_fault(case)
    check_reading(case)
    check_ids(case)
    check_told(case)
    check_history(case)


def check_form(case: JSON, name: str) -> None:
    """Check that a case says what it is and where it is from."""
    assert case.keys() >= NEEDED, f"{name} lacks {sorted(NEEDED - case.keys())}"
    unknown = case.keys() - NEEDED - OPTIONAL - FURTHER
    assert not unknown, f"{name} has keys that no test looks at: {sorted(unknown)}"
    assert case["id"] == name, f"{name}.json has the id {case['id']!r}"
    assert is_slug(case["source"]), f"{name}: a source has letters, digits, '.', '_' and '-'"
    assert name.startswith(case["source"].lower()), f"{name} should begin with its source"
    assert str(case["provenance"]).strip(), f"{name} does not say where it was seen"


def is_slug(text: Any) -> bool:
    """Whether a text can be the name of a source: a D-number, or any words of your own."""
    return isinstance(text, str) and text[:1].isalnum() and set(text) <= _SLUG


_SLUG = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def faults_of(case: JSON) -> list[str]:
    """Name the faults of the simulator that bend a reply as this one is bent."""
    return [drift.id for drift in SHAPE_FAULTS.values() if case["source"] in drift.sources]


def check_fault(case: JSON) -> None:
    """Check that a case has a fault with its source, or says why there is none, but not both."""
    found, reason = faults_of(case), str(case.get("no_fault", "")).strip()
    assert found or reason, (
        f"{case['id']}: no fault in surecall/simulator/faults names the source "
        f"{case['source']!r}; write one, or say in `no_fault` why there is none"
    )
    assert not (found and reason), f"{case['id']}: delete `no_fault`, there is {found[0]}"
    assert case.get("fault") in (None, *found), (
        f"{case['id']}: {case.get('fault')} is none of {found}"
    )


def check_reading(case: JSON) -> None:
    """Check that the body is read as expected."""
    reply, expected = read(case), case["expected"]
    code = expected.get("code")
    assert code in (None, *ErrorCode), f"{case['id']}: there is no code {code!r}"
    if isinstance(reply, Fault):
        _same(case, "fault", reply.code, code)
        return
    _same(case, "text", reply.text, expected["text"])
    if code is not None:
        _same(case, "codes of the calls", _codes(reply), [code] * max(1, len(reply.calls)))
        return
    _same(case, "calls", [_shown(call) for call in reply.calls], expected["calls"])


def _codes(reply: Reply) -> list[str | None]:
    return [call.problem.code if call.problem else None for call in reply.calls]


def _shown(call: ToolCall) -> JSON:
    if call.problem is not None:
        return {"name": call.name, "code": call.problem.code}
    return {"name": call.name, "arguments": call.arguments}


def _same(case: JSON, what: str, found: object, expected: object) -> None:
    # As text, because 1, 1.0 and true are equal in Python.
    found, expected = json.dumps(found), json.dumps(expected)
    assert found == expected, f"{case['id']}: the {what} should be {expected}, but read {found}"


def _reply_for(case: JSON, key: str) -> Reply | None:
    if key not in case:
        return None
    reply = read(case)
    assert isinstance(reply, Reply), f"{case['id']} is read as {reply}"
    return reply


def check_ids(case: JSON) -> None:
    """Check the ids of the calls, where a case lists them."""
    if reply := _reply_for(case, "ids"):
        _same(case, "ids", [call.id for call in reply.calls], case["ids"])


def check_told(case: JSON) -> None:
    """Check what the model is told about the first call, where a case lists words of it."""
    if reply := _reply_for(case, "told"):
        problem = reply.calls[0].problem
        assert problem is not None, f"{case['id']}: the first call has no problem to tell"
        missing = [words for words in case["told"] if words not in problem.message]
        assert not missing, f"{case['id']}: the model is not told {missing}: {problem.message}"


def check_history(case: JSON) -> None:
    """Check the names that go into the next request, where a case lists them."""
    if reply := _reply_for(case, "history_names"):
        sent = render_message(Assistant(reply.text, reply.calls), WireStyle()) or {}
        names = [call["function"]["name"] for call in sent["tool_calls"]]
        _same(case, "names in the history", names, case["history_names"])


def uncovered(cases: Iterable[JSON]) -> list[str]:
    """Name the faults that no case belongs to."""
    sources = {case["source"] for case in cases}
    return [drift.id for drift in SHAPE_FAULTS.values() if not sources & {*drift.sources}]
