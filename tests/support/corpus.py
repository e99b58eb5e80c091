"""The reply corpus, and shapes seen in the wild."""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from surecall import (
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
    presets,
)
from surecall.core.reply_parsing import parse_reply
from surecall.settings.presets import raw
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check_request
from surecall.testing import Scripted, ScriptedProvider
from surecall.testing import raw as raw_item
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.types import JSON, Assistant, Reply, ToolCall
from surecall.wire.chat_format import WireStyle, render_message
from tests.support.project_files import CORPUS
from tests.support.replies import plan

# What a case of the reply corpus is, and how one is checked. A case has an `id` (its file is called
# so), a `source` that its fault names as well, the `provenance` in words, the `tools` of the run,
# the `body` as it came, and the `expected` text with the calls, or with a code. It may have:
#
#     no_fault        why no fault of the simulator has this source
#     fault           the one fault that it belongs to, where several have its source
#     presets         the presets it is read with; without them, the default
#     config          settings that the presets start from
#     offered         the names of the tools that the request offered; without it, all of them
#     earlier         ids of calls that earlier turns have used up
#     ids, told, history_names    what else to look at: call ids, words to the model, and names
#     to_check        what a person has yet to compare with the reply


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
    return parse_reply(case["body"], request, config, registry)


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


# Shapes seen in the wild: a scripted endpoint plays each, and a run without a config is scored. A
# case has an `id` (its file is called so), the public thread as `source`, the `shape` in a
# sentence, the `tools`, the `replies` of the endpoint, one per request, of which the last is
# repeated, what is `expected`, and `why`. A reply is a `body`, with a `status` if it is an error,
# or the lines of an event stream under `sse`; then the run is streamed. It may have `needs`: paths
# that the request must hold with the value that came in an earlier reply, or else it gets `else`.
# `refuses` lists what the endpoint refuses in every request, before it answers:
#
#     path, present               something stands there; with `beside`, and in these fields, too
#     path, longer_than           a text of more characters
#     path, absent                nothing stands there, though there is a place for it
#     path, equals                exactly this value
#     path, not_json              a text that is no JSON
#     path, not_matching          a text that the pattern does not match
#     repeated_role               two messages in a row have one of these roles


WILD = CORPUS / "wild"
WILD_NEEDED = {"id", "source", "shape", "tools", "replies", "expected", "why"}
KINDS = {"present", "absent", "longer_than", "equals", "not_json", "not_matching", "repeated_role"}
AT_ONCE = RetryPolicy(first_wait_s=0.0, longest_wait_s=0.0)
Call = tuple[str, JSON]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one case."""

    id: str
    right: bool
    first_try: bool
    wrong: bool
    silent: bool
    illegal: tuple[str, ...]
    requests: int
    ran: list[Call]
    end: str


def load_wild(folder: Path = WILD) -> dict[str, JSON]:
    """Read every case of a folder, by the name of its file."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*"))}


def score(case: JSON) -> Score:
    """Play a case over real HTTP on this machine, and judge the run."""
    ran: list[Call] = []
    with ScriptedProvider(Endpoint(case), repeat=True) as provider:
        runner = ToolLoopRunner(
            client=f"{provider.url}/v1",
            model="some-model",
            tools=[_recorded(tool, ran) for tool in case["tools"]],
            retry=AT_ONCE,
        )
        streamed = any("sse" in reply for reply in case["replies"])
        end, answer = asyncio.run(_ending(runner, streamed=streamed))
    return judged(case, ran, end, answer, provider.requests)


def judged(case: JSON, ran: list[Call], end: str, answer: str, requests: list[JSON]) -> Score:
    """Judge what ran, how it ended and what was sent, by what the case expects."""
    expected = case["expected"]
    wanted: list[Call] = [(name, arguments) for name, arguments in expected["calls"]]
    if expected["end"] == "answer":
        ended_well = end == "answer" and answer.strip() == expected["answer"]
    else:
        ended_well = end != "answer"
    right = ran == wanted and ended_well
    too_much, missing = _beyond(ran, wanted), _beyond(wanted, ran)
    rules = PROVIDER_RULES["common"]
    illegal = sorted(
        {found.rule for request in requests for found in check_request(request, rules)}
    )
    return Score(
        id=case["id"],
        right=right,
        first_try=right and len(requests) <= expected["requests"],
        wrong=bool(too_much),
        silent=end == "answer" and bool(missing) and not _was_told(requests),
        illegal=tuple(illegal),
        requests=len(requests),
        ran=ran,
        end=end if end != "answer" else f"answer {answer!r}",
    )


class Endpoint:
    """Answers request after request as its case says."""

    def __init__(self, case: JSON) -> None:
        self._replies: list[JSON] = case["replies"]
        self._refuses: list[JSON] = case.get("refuses", [])
        self._given: list[JSON] = []

    def __call__(self, request: JSON) -> Scripted:
        """Refuse the request, or give the next reply."""
        for refused in self._refuses:
            if refuses(refused, request):
                return _sent(refused)
        reply = self._replies[min(len(self._given), len(self._replies) - 1)]
        if not all(self._is_met(path, request) for path in reply.get("needs", [])):
            return _sent(reply["else"])
        self._given.append(reply)
        return _sent(reply)

    def _is_met(self, path: list[Any], request: JSON) -> bool:
        """Tell whether the request holds at a path of its messages what an earlier reply had."""
        came = [value for reply in self._given for value in _values(_message(reply), path[2:])]
        sent = list(_values(request, path))
        return bool(sent) and all(value in came for value in sent)


def refuses(rule: JSON, request: JSON) -> bool:
    """Tell whether a strict upstream with this rule refuses a request."""
    if "repeated_role" in rule:
        roles = [message.get("role") for message in request["messages"]]
        repeated = {one for one, other in itertools.pairwise(roles) if one == other}
        return not repeated.isdisjoint(rule["repeated_role"])
    *way, last = rule["path"]
    if rule.get("absent"):
        return not all(any(True for _ in _values(at, [last])) for at in _values(request, way))
    return any(
        _is_refused(rule, value)
        for holder in _values(request, way)
        if all(any(_values(holder, [field])) for field in rule.get("beside", []))
        for value in _values(holder, [last])
    )


def _is_refused(rule: JSON, value: object) -> bool:
    if "equals" in rule:
        return bool(value == rule["equals"])
    if rule.get("present"):
        return True
    if not isinstance(value, str):
        return False
    if "longer_than" in rule:
        return bool(len(value) > rule["longer_than"])
    if "not_matching" in rule:
        return re.search(rule["not_matching"], value) is None
    return bool(rule.get("not_json")) and not _is_json(value)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _values(value: Any, path: list[Any]) -> Iterator[Any]:
    """Yield what stands at a path; `*` means every item, a negative number counts from the end."""
    if not path:
        yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else []:
            yield from _values(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _values(value[path[0]], path[1:])
    elif isinstance(value, list) and isinstance(path[0], int):
        for item in value[path[0] :][:1]:
            yield from _values(item, path[1:])


def _message(reply: JSON) -> JSON:
    """Return the message of a reply; of a stream, the fields of its deltas put together."""
    if "sse" not in reply:
        found = next(_values(reply.get("body"), ["choices", 0, "message"]), None)
        return found if isinstance(found, dict) else {}
    joined: JSON = {}
    for line in reply["sse"]:
        if line.startswith("data: {"):
            for delta in _values(json.loads(line[6:]), ["choices", 0, "delta"]):
                joined = _joined(joined, delta or {})
    return joined


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {key: _joined(one.get(key), value) for key, value in other.items()}
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    if isinstance(one, list) and isinstance(other, list):
        return one + other
    return one if other is None else other


def _sent(reply: JSON) -> Scripted:
    if "sse" in reply:
        return raw_item("\n".join(reply["sse"]).encode(), content_type="text/event-stream")
    return raw_item(json.dumps(reply["body"]).encode(), reply.get("status", 200))


def _recorded(tool: JSON, ran: list[Call]) -> ToolDefinition:
    def handler(**arguments: Any) -> str:
        ran.append((tool["name"], arguments))
        return "ok"

    described: str = tool["description"]
    return ToolDefinition(
        tool["name"], described, parameters=tool["parameters"], handler=handler, repeatable=True
    )


async def _ending(runner: ToolLoopRunner, *, streamed: bool) -> tuple[str, str]:
    play: Callable[[ToolLoopRunner], Any] = _watched if streamed else _plain
    try:
        result: RunResult = await play(runner)
    except RunFailed as failed:
        return f"{type(failed).__name__} {failed.code}", ""
    except ProviderError as failed:
        return f"{type(failed).__name__} {failed.fault.code}", ""
    return "answer", result.assistant_text


async def _plain(runner: ToolLoopRunner) -> RunResult:
    return await runner.run("Please do it.")


async def _watched(runner: ToolLoopRunner) -> RunResult:
    stream = runner.stream("Please do it.")
    async for _ in stream:
        pass
    return stream.result


def _beyond(calls: list[Call], allowed: list[Call]) -> Counter[str]:
    """Return which calls there are more often than they should be."""
    return Counter(map(_written, calls)) - Counter(map(_written, allowed))


def _written(call: Call) -> str:
    return json.dumps(call, sort_keys=True)


def _was_told(requests: list[JSON]) -> bool:
    """Tell whether the model was told of a call that did not run, or was asked once more."""
    messages = requests[-1]["messages"] if requests else []
    users = sum(message["role"] == "user" for message in messages)
    failed = [m for m in messages if m["role"] == "tool" and '"ok":false' in str(m["content"])]
    return bool(failed) or users > 1
