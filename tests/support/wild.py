"""Shapes seen in the wild: a scripted endpoint plays each, and a run without a config is scored.

A case has an `id` (its file is called so), the public thread as `source`, the `shape` in a
sentence, the `tools`, the `replies` of the endpoint, one per request, of which the last is
repeated, what is `expected`, and `why`. A reply is a `body`, with a `status` if it is an error, or
the lines of an event stream under `sse`; then the run is streamed. It may have `needs`: paths
that the request must hold with the value that came in an earlier reply, or else it gets `else`.
`refuses` lists what the endpoint refuses in every request, before it answers:

    path, present               something stands there; with `beside`, and in these fields, too
    path, longer_than           a text of more characters
    path, absent                nothing stands there, though there is a place for it
    path, equals                exactly this value
    path, not_json              a text that is no JSON
    path, not_matching          a text that the pattern does not match
    repeated_role               two messages in a row have one of these roles
"""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from surecall import RetryPolicy, RunFailed, RunResult, ToolDefinition, ToolLoopRunner
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check
from surecall.testing import Scripted, ScriptedProvider, raw
from surecall.values.errors import ProviderError
from surecall.values.types import JSON
from tests.support.paths import CORPUS

WILD = CORPUS / "wild"
NEEDED = {"id", "source", "shape", "tools", "replies", "expected", "why"}
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


def load(folder: Path = WILD) -> dict[str, JSON]:
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
    illegal = sorted({found.rule for request in requests for found in check(request, rules)})
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
        return raw("\n".join(reply["sse"]).encode(), content_type="text/event-stream")
    return raw(json.dumps(reply["body"]).encode(), reply.get("status", 200))


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
