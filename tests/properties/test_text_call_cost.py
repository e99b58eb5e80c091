"""Property: judging the calls of a reply as text costs one budget, and each call is judged once."""

import json
import random
from typing import Any

import pytest

from surecall import ToolRegistry
from surecall.core import reply_parsing as module
from surecall.core.reply_parsing import parse_reply
from surecall.parsing.budget import MAX_QUICK_WORK, MAX_WORK, WorkBudget
from surecall.tools.registry import Toolbox, ToolDefinition
from surecall.values.types import JSON, Assistant, Plan, Reply, ToolCall, ToolResult, User
from surecall.wire.chat_format import encode
from tests.support.generated import Broken, check, dice, many
from tests.support.replies import MARKED, completion_body


def toolbox_of(alternatives: int) -> Toolbox:
    choice: JSON = {"anyOf": [{"const": at} for at in range(alternatives)]}
    items: JSON = {"type": "array", "items": choice}
    return ToolRegistry([ToolDefinition("f", "", parameters={"properties": {"x": items}})])


def reply_text(rng: random.Random, protocol: str) -> tuple[str, int]:
    """Return a reply with some calls whose arguments are costly to fit, and their number."""
    count = rng.choice([1, 2, 5, 20])
    values = [[*range(rng.choice([5, 50, 500])), -at] for at in range(count)]
    calls = [{"tool": "f", "arguments": {"x": value}} for value in values]
    if protocol == "guided":
        return json.dumps({"calls": calls} if count > 1 else calls[0]), count
    return "\n".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls), count


def plan_of(toolbox: Toolbox, value: Any) -> Plan:
    specs = tuple(definition.spec for definition in toolbox.definitions)
    content = encode({"ok": True, "tool_name": "f", "data": {"value": value}}).decode()
    call = Assistant("", (ToolCall("c0", "f", {}, from_text=True),))
    result = ToolResult("c0", "f", ok=True, content=content, executed=True)
    return Plan("m", (User("Go."), call, result), specs, known_tools=specs)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["native", "prompted", "guided"])
def test_calls_in_text_share_one_budget(protocol: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, broken, cases = dice("cost", protocol), [], many(24)
    config = MARKED.replace(call_protocol=protocol)
    judged: list[Any] = []
    original = module.resolve_call

    def count(*arguments: Any, **options: Any) -> ToolCall:
        judged.append(options.get("budget"))
        return original(*arguments, **options)

    monkeypatch.setattr(module, "resolve_call", count)
    for _ in range(cases):
        toolbox = toolbox_of(rng.choice([3, 30, 300]))
        text, calls = reply_text(rng, protocol)
        plan, budget = plan_of(toolbox, "word " * rng.choice([1, 10_000])), WorkBudget()
        judged.clear()
        reply = parse_reply(completion_body({"content": text}), plan, config, toolbox, budget)
        assert isinstance(reply, Reply)
        if any(given is not budget for given in judged) or len(judged) > calls:
            broken.append(Broken(protocol, text, f"{len(judged)} judgements of {calls} calls"))
        quick = WorkBudget(MAX_QUICK_WORK)
        parse_reply(completion_body({"content": text}), plan, config, toolbox, quick)
        if MAX_WORK - budget.remaining > MAX_QUICK_WORK and not quick.is_exhausted:
            broken.append(Broken(protocol, text, "costly work stays on the event loop"))
    check(broken, cases)


def test_comparing_costs_a_budget() -> None:
    toolbox = toolbox_of(3)
    text = '<tool_call>{"name": "f", "arguments": {"x": [1]}}</tool_call>'
    body = completion_body({"content": text})
    config = MARKED.replace(call_protocol="prompted")

    for protocol in ("prompted", "guided"):
        guided = completion_body({"content": '{"tool": "f", "arguments": {"x": [1]}}'})
        quick = WorkBudget(MAX_QUICK_WORK)
        one = config.replace(call_protocol=protocol)
        plan = plan_of(toolbox, "word " * 2_000)
        reply = parse_reply(body if protocol == "prompted" else guided, plan, one, toolbox, quick)
        assert isinstance(reply, Reply)
        assert (quick.is_exhausted, reply.calls) == (True, ())
        reply = parse_reply(body if protocol == "prompted" else guided, plan, one, toolbox)
        assert isinstance(reply, Reply)
        assert [call.name for call in reply.calls] == ["f"]
