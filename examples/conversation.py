"""A conversation that outlives its program: kept in a file, decided about somewhere else."""

import tempfile
from pathlib import Path

from surecall import AskFirst, Conversation, Decision, SqliteStore, ToolLoopRunner, tool
from surecall.testing import ScriptedModel, calls, says

paid: list[tuple[str, int]] = []


@tool(destructive=True)
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    paid.append((order, amount))
    return "refunded"


def opened(path: Path, *script: dict[str, object]) -> Conversation:
    """Open the conversation with one customer, as any process of the shop would."""
    model = ScriptedModel(*script)  # in your program: OpenAICompatible(...)
    runner = ToolLoopRunner(client=model, model="m", tools=[refund], tool_policy=AskFirst())
    return Conversation(runner, SqliteStore(path), "customer-7")


with tempfile.TemporaryDirectory() as folder:
    chats = Path(folder) / "chats.db"
    shop = opened(chats, calls("refund", order="O-7731", amount=25))
    result = shop.say_sync("My lamp is broken. I want my money back.")
    print("waits for a person:", *result.waiting)

    desk = opened(chats, says("You get 25 back."))  # hours later, in another process
    decisions = {call.id: Decision.approve() for call in desk.waiting}
    print("answer:", desk.resume_sync(decisions).text)

    assert paid == [("O-7731", 25)]
    assert not shop.waiting
