"""Whatever an application's own code raises or returns, a run ends in a typed way."""

import asyncio
from typing import Any

import pytest

from surecall import ToolLoopRunner, tool
from surecall.core.outcome import ToolUseError
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode


def runner_of(tools: Any, *script: Any, **settings: Any) -> ToolLoopRunner:
    return ToolLoopRunner(
        client=ScriptedModel(*script), model="m", tools=tools, config={}, **settings
    )


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Policy:
    """A policy that allows everything."""

    def visible(self, *_: object) -> bool:
        return True

    def authorize(self, *_: object) -> Decision:
        return Decision("allow")


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, GeneratorExit])
def test_what_a_hook_a_policy_or_an_observer_raises_is_typed(error: type[BaseException]) -> None:
    def broken(*_: Any) -> Any:
        raise error("no")

    script = (calls("pay", amount=5), says("Done."))
    with pytest.raises(ToolUseError, match="accept_final raised"):
        runner_of(pay, *script, accept_final=broken).run_sync("Pay.")
    policy: Any = Policy()
    policy.authorize = broken
    result = runner_of(pay, *script, tool_policy=policy).run_sync("Pay.")
    assert result.run.results[0].error_codes == (ErrorCode.TOOL_POLICY_ERROR,)
    policy.visible = broken
    result = runner_of(pay, says("Done."), tool_policy=policy).run_sync("Pay.")
    assert "the tool policy raised" in str(result.trace)
    result = runner_of(pay, *script, observers=[broken]).run_sync("Pay.")
    assert "observer" in str(result.trace)


class Rude:
    """A value that leaves when it is looked at."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def model_dump(self, **_: Any) -> Any:
        raise self._error


class Mute(Exception):
    """An error that leaves when it is read."""

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, GeneratorExit, ValueError])
def test_what_a_tools_own_classes_raise_costs_its_result_and_not_the_run(
    error: type[BaseException],
) -> None:
    @tool
    def look() -> Any:
        """Return something rude."""
        return Rude(error)

    result = runner_of(look, calls("look"), says("Done.")).run_sync("Look.")
    (answer,) = result.run.results

    assert answer.executed
    assert answer.error_codes == (ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,)


class Pair(list[int]):
    """As NumPy's arrays do, it cannot say whether it is true."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value of a pair is ambiguous")


def test_a_result_that_cannot_be_wrapped_is_not_blamed_on_the_arguments() -> None:
    @tool
    def look() -> Any:
        """Return an odd envelope."""
        return {"ok": True, "errors": [Pair()]}

    @tool
    def fail() -> Any:
        """Raise something odd."""
        raise Mute

    script = (calls_many(calls("look"), calls("fail")), says("Done."))
    result = runner_of([look, fail], *script).run_sync("Look.")

    codes = [answer.error_codes for answer in result.run.results]
    assert codes == [("TOOL_OUTPUT_SERIALIZATION_ERROR",), ("INTERNAL_ERROR",)]
