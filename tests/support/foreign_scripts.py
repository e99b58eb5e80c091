"""What servers with controls of their own are told to answer, step by step, and to get wrong.

A step is the number of cities that were looked up. Its reply stays until the next step begins, so
that a request that is sent again is answered, too; a fault strikes the first request of its step,
or every one.
"""

from typing import Any, Final, NamedTuple, Protocol

from surecall.values.types import JSON
from tests.support.foreign_runs import ANSWER, CITIES, control

STEPS: Final = range(len(CITIES) + 1)


class Strike(NamedTuple):
    """A fault, and where it strikes."""

    fault: JSON
    step: int
    always: bool = False


class Script(Protocol):
    """A server that can be told what to say at the next step."""

    def at(self, step: int) -> None:
        """Say this from now on."""


class LlmockScript:
    """Behaviours for llmock, whose verdict on the client is read at the end."""

    def __init__(self, url: str, strike: Strike | None = None) -> None:
        self._url = f"{url}/_llmock"
        self._strike = strike
        control(f"{self._url}/reset")
        self.at(0)

    def at(self, step: int) -> None:
        """Say this from now on."""
        if step < len(CITIES):
            call = {"name": "get_weather", "arguments": {"city": CITIES[step]}}
            reply: JSON = {"type": "reply", "times": None, "tool_calls": [call]}
        else:
            reply = {"type": "reply", "times": None, "text": ANSWER}
        struck = [self._struck(self._strike)] if self._strike and self._strike.step == step else []
        control(f"{self._url}/scenario", method="DELETE")
        control(f"{self._url}/scenario", {"behaviors": [*struck, reply]})

    def _struck(self, strike: Strike) -> JSON:
        return strike.fault | {"times": None if strike.always else 1}

    def requests(self) -> list[JSON]:
        """Return what it was asked."""
        return list(control(f"{self._url}/requests", method="GET")["requests"])

    def findings(self) -> list[str]:
        """Name what it finds wrong with the client."""
        verdict = control(f"{self._url}/verdict", method="GET")
        return [finding["code"] for finding in verdict["findings"]]


class AimockScript:
    """Fixtures for aimock."""

    def __init__(self, url: str, strike: Strike | None = None) -> None:
        self._url = f"{url}/__aimock"
        self._strike = strike
        control(f"{self._url}/reset")
        self.at(0)

    def at(self, step: int) -> None:
        """Say this from now on."""
        response: JSON = {"content": ANSWER}
        if step < len(CITIES):
            call = {"name": "get_weather", "arguments": {"city": CITIES[step]}}
            response = {"toolCalls": [call]}
        fixtures: list[Any] = [{"match": {"toolName": "get_weather"}, "response": response}]
        if self._strike and self._strike.step == step:
            only = {} if self._strike.always else {"sequenceIndex": 0}
            match = {"match": {"toolName": "get_weather"} | only}
            fixtures.insert(0, match | {"response": response} | self._strike.fault)
        control(f"{self._url}/fixtures", method="DELETE")
        control(f"{self._url}/fixtures", {"fixtures": fixtures})

    def requests(self) -> list[JSON]:
        """Return what it was asked."""
        return list(control(f"{self._url}/journal", method="GET"))
