"""Conversations with tools in prompted mode, and a shop with grounded tools."""

import json
from typing import Annotated, Any, get_args

from surecall import (
    From,
    Grounded,
    Need,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolError,
    ToolLoopRunner,
    ToolRegistry,
    replay,
    tool,
)
from surecall.core.protocols import plan_encoder
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.values.types import JSON, Assistant, Message, Plan, System, ToolCall, ToolResult, User
from surecall.wire.call_styles import CallProtocol

# A conversation with two tools, to be put into words


LONGEST = raw().max_tool_args_bytes
PROTOCOLS = get_args(CallProtocol)
SPOKEN = ("guided", "prompted")


@tool
def add(a: int = 0, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool
def wipe(path: str = "/") -> str:
    """Remove everything."""
    return path


REGISTRY = ToolRegistry([add, wipe])
SPECS = (add.spec, wipe.spec)
CALL = ToolCall("c1", "add", {"a": 1, "b": 2})
RESULT = ToolResult("c1", "add", ok=True, content='{"ok":true,"data":3}', executed=True)
TALK: tuple[Message, ...] = (System("Be brief."), User("1 + 2?"), Assistant("", (CALL,)), RESULT)


def planned(*messages: Message, **changes: Any) -> Plan:
    given: JSON = {"tools": SPECS, "known_tools": SPECS, "tool_choice": "auto"} | changes
    return Plan("m", messages, **given)


def spoken(protocol: Any, *messages: Message, **changes: Any) -> list[Message]:
    return list(plan_encoder(protocol, LONGEST)(planned(*messages, **changes)).messages)


# A shop with grounded tools, and runs in it


ORDER: JSON = {
    "order_id": "O-7731",
    "customer": "Ada Lovelace",
    "total": "62.50 EUR",
    "items": [{"item_id": "i-1", "name": "lamp", "price": 20}, {"item_id": "i-2", "name": "desk"}],
}


class Shop:
    """Finds orders and refunds items."""

    def __init__(self, found: Any = None) -> None:
        self.refunded: list[tuple[str, str]] = []
        self.found = ORDER if found is None else found

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        def find_order(customer: str) -> Any:
            """Find the newest order of a customer."""
            if customer == "Bob":
                raise ToolError(f"no order of {customer}; ask for Ada")
            return self.found

        @tool
        def refund(
            order_id: Annotated[str, Grounded("find_order")],
            item_id: Annotated[str, Grounded("find_order")],
        ) -> str:
            """Refund an item."""
            self.refunded.append((order_id, item_id))
            return "refunded"

        @tool(read_only=True, grounded=["order_id"])
        def track(order_id: str) -> str:
            """Track an order."""
            if order_id == "O-9":
                raise ToolError("no such order")
            return f"{order_id} is on its way with parcel P-55"

        @tool(grounded=["amount"])
        def pay(amount: int) -> str:
            """Pay."""
            return f"paid {amount}"

        return [find_order, refund, track, pay]


def ran(
    shop: Shop, protocol: Any, *decisions: Any, text: str = "Refund Ada's lamp.", **settings: Any
) -> tuple[RunResult, list[JSON]]:
    script = [body(protocol, decision) for decision in (*decisions, *["Done."] * 4)]
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model,
        model="m",
        tools=shop.tools(),
        config=raw(call_protocol=protocol, **settings),
        retry=RetryPolicy(attempts=1),
    )
    try:
        result = runner.run_sync(text)
    except RunFailed as failed:
        result = failed.result
    assert replay(result.trace).run == result.run
    return result, model.requests


def told(result: RunResult, at: int = -1) -> str:
    return str(result.run.results[at].envelope["errors"][0]["message"])


FIND = ("find_order", {"customer": "Ada"})


def refund(order_id: str, item_id: str) -> tuple[str, JSON]:
    return "refund", {"order_id": order_id, "item_id": item_id}


def forms(request: JSON) -> dict[str, list[JSON]]:
    schema = request["response_format"]["json_schema"]["schema"]
    found: dict[str, list[JSON]] = {}
    for step in schema.get("anyOf", [schema]):
        if "tool" in step["properties"]:
            name = step["properties"]["tool"]["const"]
            found.setdefault(name, []).append(step["properties"]["arguments"]["properties"])
    return found


NEED = Need("refund", {"item_id": From("find_order", "items[*].item_id")})


class Plain(Shop):
    """The same shop, without a word about grounds."""

    def tools(self) -> list[Any]:
        @tool
        def refund(item_id: str, reason: str = "") -> str:
            """Refund."""
            self.refunded.append((item_id, reason))
            return "refunded"

        return [super().tools()[0], refund]


def body(protocol: str, decision: Any) -> JSON:
    """Write what a model has decided in the words of a protocol."""
    match protocol, decision:
        case "guided", str(text):
            return says(json.dumps({"answer": text}))
        case "guided", (name, arguments):
            return says(json.dumps({"tool": name, "arguments": arguments}))
        case "prompted", (name, arguments):
            written = json.dumps({"name": name, "arguments": arguments})
            return says(f"<tool_call>\n{written}\n</tool_call>")
        case _, (name, arguments):
            native = calls(name, "", **arguments)
            native["choices"][0]["finish_reason"] = "stop"
            return native
        case _:
            return says(decision)
