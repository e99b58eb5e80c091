"""Each protocol adapts requests and reads replies in its own way; native leaves both unchanged."""

from surecall.core.protocols import decode_message, plan_encoder
from surecall.values.types import JSON, Plan, ToolSpec, User

ADD = ToolSpec("add", "Adds two numbers.", {"type": "object"})
PLAN = Plan("m", (User("1 + 2?"),), (ADD,), known_tools=(ADD,))
GUIDED: JSON = {"role": "assistant", "content": '{"tool": "add", "arguments": {}}'}


def test_native_leaves_requests_and_replies_unchanged() -> None:
    assert plan_encoder("native", 100)(PLAN) is PLAN
    assert decode_message("native", GUIDED, PLAN) is GUIDED


def test_guided_asks_with_a_schema_and_reads_calls_from_the_content() -> None:
    sent = plan_encoder("guided", 100)(PLAN)
    (call,) = decode_message("guided", GUIDED, PLAN)["tool_calls"]

    assert sent.response_format is not None
    assert call["function"]["name"] == "add"


def test_prompted_describes_tools_in_the_prompt() -> None:
    sent = plan_encoder("prompted", 100)(PLAN)

    assert sent.tools == ()
    assert "add" in str(sent.messages[0])
