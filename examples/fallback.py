"""A chain of models: the first one breaks down after it has paid, and the second goes on.

Both are scripts behind real HTTP. The bill is paid once, whoever finishes the run.
"""

from surecall import Fallback, OpenAICompatible, RetryPolicy, ToolLoopRunner
from surecall.testing import ScriptedProvider, calls, failure, says

paid: list[int] = []


def pay(bill: int) -> str:
    """Pay a bill."""
    paid.append(bill)
    return f"bill {bill} is paid"


with (
    ScriptedProvider(calls("pay", bill=7), failure(503), api_key="sk-one") as one,
    ScriptedProvider(says("Bill 7 is paid."), says("Yes."), api_key="sk-two") as other,
):
    runner = ToolLoopRunner(
        client=OpenAICompatible(one.url, "sk-one"),
        model=["large", Fallback("small", client=OpenAICompatible(other.url, "sk-two"))],
        tools=[pay],
        retry=RetryPolicy(attempts=1),
    )
    result = runner.run_sync("Pay bill 7.")
    print(result.trace)
    assert result.models == ("large", "small")
    assert paid == [7]

    # The first one rests for a while, so the next run begins with the second.
    again = runner.run_sync("Is it paid?", history=result.history)
    print(again.trace)
    assert again.models == ("small",)
    runner.close()
