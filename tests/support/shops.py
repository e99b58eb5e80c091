"""A shop with grounded tools, and runs in it."""

from typing import Annotated, Any

from surecall import (
    From,
    Grounded,
    Need,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolError,
    ToolLoopRunner,
    replay,
    tool,
)
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.types import JSON
from tests.laws.test_early_answers import body

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
