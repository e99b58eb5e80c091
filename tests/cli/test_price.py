"""What an evaluation will take is said before the first request, and the price where it is told."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from surecall.cli.price import in_words, prices_in
from surecall.eval.running.estimate import Estimate, Price
from surecall.testing import ScriptedProvider, says
from tests.support.commands import Run

PRICED = {"id": "a/b", "pricing": {"prompt": "0.000002", "completion": "0.00001"}}


class Router(ScriptedProvider):
    """A provider that answers everything alike, and lists some models."""

    def __init__(self, listing: bytes) -> None:
        super().__init__(says("Done."), repeat=True)
        self.listing = listing
        self.asked: list[int] = []

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        del request
        self.asked.append(len(self.requests))
        return web.Response(body=self.listing)


@pytest.fixture
def router() -> Iterator[Router]:
    with Router(msgspec.json.encode({"data": [PRICED]})) as running:
        yield running


def arguments(router: Router, *more: str) -> tuple[str, ...]:
    where = ("--base-url", router.url, "-m", "a/b:nitro", "-s", "chat_only", "-n", "2")
    return ("eval", *where, *more)


def test_requests_tokens_and_price_are_said_before_anything_is_sent(
    run: Run, router: Router
) -> None:
    _, _, err = run(*arguments(router))

    assert router.asked == [0]
    assert "about 2 requests, 72 tokens to read and 240 to write; less than $0.01" in err
    assert "--max-cost bounds it" in err
    assert len(router.requests) == 2


def test_what_is_recorded_is_not_priced_again_and_nothing_is_asked(
    run: Run, router: Router
) -> None:
    run(*arguments(router, "-q"))
    assert router.asked == []
    _, _, err = run(*arguments(router))

    assert router.asked == []
    assert "tokens to read" not in err


def test_a_dry_run_asks_for_prices_and_no_model(run: Run, router: Router) -> None:
    _, out, _ = run(*arguments(router, "--dry-run", "-n", "2000"))
    assert "72k tokens to read and 240k to write; about $2.54 by the list" in out
    assert out.endswith("nothing was sent to a model\n")
    _, out, _ = run(*arguments(router, "--dry-run", "--json"))

    assert json.loads(out)["estimate"]["cost"] == pytest.approx((72 * 2 + 240 * 10) / 1e6)
    assert router.requests == []


@pytest.mark.parametrize("listing", [b"", b"[]", b"{}", b"[" * 100_000, b'{"data":[{"id":"a/b"}]}'])
def test_an_endpoint_that_tells_no_prices_is_measured_all_the_same(
    run: Run, listing: bytes
) -> None:
    with Router(listing) as router:
        _, out, err = run(*arguments(router))

    assert "cost unknown: the endpoint told no prices" in err
    assert "2/2" in out


def test_simulated_models_cost_nothing_and_say_nothing_about_it(run: Run) -> None:
    small = ("eval", "-m", "sim/clean", "-s", "chat_only", "-n", "1")

    assert "tokens" not in run(*small)[2]
    assert "no cost\n" in run(*small, "--dry-run", "--fresh")[1]


@pytest.mark.parametrize(
    ("pricing", "price"),
    [
        ({"prompt": "0.000001", "completion": 0.000004}, Price(1.0, 4.0)),
        ({"prompt": "0", "completion": "0"}, Price(0.0, 0.0)),
        ({"prompt": "-1", "completion": "-1"}, None),
        ({"prompt": "nan", "completion": "0"}, None),
        ({"prompt": "cheap", "completion": "0"}, None),
        ({"prompt": 10**400, "completion": "0"}, None),
        ({"prompt": None, "completion": "0"}, None),
        ({"prompt": "0.1"}, None),
        ("free", None),
    ],
)
def test_only_what_is_a_price_is_taken_for_one(pricing: Any, price: Price | None) -> None:
    found = dict(prices_in({"data": [3, {"id": "m", "pricing": pricing}]}))

    assert found == ({} if price is None else {"m": price})


@pytest.mark.parametrize(
    ("cost", "cap", "said"),
    [
        (None, 5.0, "cost unknown: the endpoint told no prices"),
        (0.0, None, "no cost"),
        (0.84, None, "about $0.84 by the list, more for models that think aloud; --max-cost"),
        (0.84, 5.0, "about $0.84 by the list, at most $5.00 by --max-cost"),
        (9.0, 5.0, "at most $5.00 by --max-cost, which will end it early"),
    ],
)
def test_a_cost_is_said_with_what_bounds_it(
    cost: float | None, cap: float | None, said: str
) -> None:
    words = in_words(Estimate(1, 1, 2_500_000, 900, cost), cap)

    assert words.startswith("about 1 request, 2.5M tokens to read and 900 to write; ")
    assert said in words
