"""What an evaluation will take, roughly, before anything is sent.

    requests   3 of a scenario with tools (read, change, answer), 1 of one without, 1 if recorded
    read       system text, tools and message, a token for 4 characters, in every request; and
               150 tokens for every turn that went before it
    written    120 tokens in every request

Models that think aloud write several times as much. What is not in a scenario's description, such
as the text of one that is a function, counts as 100 tokens.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from surecall.eval.running.matrix import Plan
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.done import Place
from surecall.wire.messages import encode

_REQUESTS: Final = {True: 3, False: 1}
_CHARS_PER_TOKEN: Final = 4
_TURN_TOKENS: Final = 150
_UNSEEN_TOKENS: Final = 100
_WRITTEN_TOKENS: Final = 120
_PER_MILLION: Final = 1e6


class Price(msgspec.Struct, frozen=True):
    """Dollars for a million tokens."""

    prompt: float
    completion: float


class Estimate(msgspec.Struct, frozen=True):
    """What some trials take, roughly. The cost is unknown unless every model has a price."""

    trials: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: "Estimate") -> "Estimate":
        known = self.cost is not None and other.cost is not None
        return Estimate(
            self.trials + other.trials,
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            (self.cost or 0.0) + (other.cost or 0.0) if known else None,
        )

    def plus(self, trials: int, load: "Load", price: Price | None) -> "Estimate":
        """Count some more trials of one kind."""
        return self + Estimate(
            trials,
            trials * load.requests,
            trials * load.prompt_tokens,
            trials * load.completion_tokens,
            None if price is None else trials * load.cost(price),
        )


class Load(msgspec.Struct, frozen=True):
    """What one trial of a scenario takes."""

    requests: int
    prompt_tokens: int
    completion_tokens: int

    def cost(self, price: Price) -> float:
        """Return the dollars."""
        read, written = self.prompt_tokens, self.completion_tokens
        return (read * price.prompt + written * price.completion) / _PER_MILLION


def load_of(scenario: Scenario) -> Load:
    """Guess what one trial of a scenario takes; a recorded request is all in its source."""
    if scenario.config.get("max_turns") == 1 and scenario.source:
        return Load(1, len(scenario.source) // _CHARS_PER_TOKEN, _WRITTEN_TOKENS)
    requests = _REQUESTS[scenario.uses_tools]
    tools = [tool.spec for tool in scenario.begin("-").registry.definitions]
    chars = len(scenario.system) + len(scenario.user) + (len(encode(tools)) if tools else 0)
    first = chars // _CHARS_PER_TOKEN + (0 if scenario.user else _UNSEEN_TOKENS)
    grown = _TURN_TOKENS * requests * (requests - 1) // 2
    return Load(requests, first * requests + grown, _WRITTEN_TOKENS * requests)


def estimate(
    planned: Plan, left: Mapping[Place, int], prices: Mapping[str, Price] | None = None
) -> Estimate:
    """Guess what running some trials will take, with the prices of models by their ids."""
    loads = {scenario.id: load_of(scenario) for scenario in planned.scenarios}
    known = {each.cell: (prices or {}).get(each.model.asked) for each in planned.cells}
    guess = Estimate()
    for (cell, scenario), trials in left.items():
        if trials:
            guess = guess.plus(trials, loads[scenario], known[cell])
    return guess
