"""What an evaluation of real models will take: said before anything is sent.

Prices are those in the endpoint's own list of models, if it tells them as OpenRouter does: dollars
for one token, `pricing.prompt` and `pricing.completion`. Otherwise the cost is unknown.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from surecall.cli.common import note
from surecall.cli.listing import count
from surecall.cli.target import Target
from surecall.eval.running.estimate import Estimate, Price, estimate
from surecall.eval.running.matrix import Plan
from surecall.eval.storage.done import Done
from surecall.values.errors import ProviderError
from surecall.values.nesting import decode_json

_LONGEST_S: Final = 5.0
_OK: Final = 200
_MILLION: Final = 1_000_000
_THOUSAND: Final = 1_000
_CENT: Final = 0.01


def guessed(planned: Plan, target: Target, done: Done) -> Estimate:
    """Guess what the rest of a plan takes; one short request asks an endpoint for its prices."""
    guess = Estimate()
    for there in target.every:
        cells = tuple(each for each in planned.cells if target.at(each.model) is there)
        guess += _guessed_at(there, msgspec.structs.replace(planned, cells=cells), done)
    return guess


def _guessed_at(target: Target, planned: Plan, done: Done) -> Estimate:
    missing = planned.left(done)
    ids = {each.model.asked for each in planned.cells}
    if target.endpoint.simulated or target.endpoint.local:
        return estimate(planned, missing, dict.fromkeys(ids, Price(0.0, 0.0)))
    listed = asyncio.run(_listed(target)) if missing.total() else {}
    return estimate(planned, missing, dict(_priced(ids, listed)))


def announce(planned: Plan, target: Target, done: Done) -> None:
    """Say what a plan will take of a real model, unless all of it is there or it is to be quiet."""
    if target.simulated or planned.settings.verbose <= 0:
        return
    guess = guessed(planned, target, done)
    if guess.trials:
        note(in_words(guess, planned.settings.max_cost))


def in_words(guess: Estimate, max_cost: float | None) -> str:
    """Say what it takes, and how to bound the cost."""
    read, written = _short(guess.prompt_tokens), _short(guess.completion_tokens)
    sizes = (
        f"about {count(guess.requests, 'request')}, {read} tokens to read and {written} to write"
    )
    return f"{sizes}; {_cost(guess.cost, max_cost)}"


def _cost(cost: float | None, max_cost: float | None) -> str:
    if cost is None:
        return "cost unknown: the endpoint told no prices"
    if not cost:
        return "no cost"
    said = f"about ${cost:.2f}" if cost >= _CENT else "less than $0.01"
    if max_cost is None:
        return f"{said} by the list, more for models that think aloud; --max-cost bounds it"
    ends = ", which will end it early" if cost > max_cost else ""
    return f"{said} by the list, at most ${max_cost:.2f} by --max-cost{ends}"


def _short(number: int) -> str:
    if number >= _MILLION:
        return f"{number / _MILLION:.1f}M"
    return f"{number / _THOUSAND:.0f}k" if number >= _THOUSAND else str(number)


async def _listed(target: Target) -> dict[str, Price]:
    try:
        async with asyncio.timeout(_LONGEST_S):
            answer = await target.client.models()
        found = decode_json(answer.body) if answer.status == _OK else None
    except (ProviderError, TimeoutError, ValueError):
        return {}
    return dict(prices_in(found))


def prices_in(listing: Any) -> Iterator[tuple[str, Price]]:
    """Read the prices out of a list of models; whatever is not one is passed over."""
    models = listing.get("data") if isinstance(listing, dict) else None
    for model in models if isinstance(models, list) else ():
        match model:
            case {"id": str(name), "pricing": {"prompt": prompt, "completion": completion}}:
                read, written = _dollars(prompt), _dollars(completion)
                if read is not None and written is not None:
                    yield name, Price(read * _MILLION, written * _MILLION)
            case _:
                pass


def _dollars(value: Any) -> float | None:
    """Read the price of a token; a router without a fixed price writes -1."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def _priced(ids: Iterable[str], listed: Mapping[str, Price]) -> Iterator[tuple[str, Price]]:
    """Find the price of each model; a variant such as `:nitro` is listed under the plain id."""
    for name in ids:
        price = listed.get(name) or listed.get(name.partition(":")[0])
        if price is not None:
            yield name, price
