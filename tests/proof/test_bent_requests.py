"""Requests that chance has bent."""

import random

import msgspec

from proof.bent_requests import REQUESTS, bent_body, bent_request, places


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - seeded cases, no secrets


def test_every_place_is_found() -> None:
    assert list(places({"a": [1, {"b": 2}]})) == [("a",), ("a", 0), ("a", 1), ("a", 1, "b")]


def test_the_same_chance_bends_in_the_same_way() -> None:
    assert bent_request(chance(7)) == bent_request(chance(7))
    assert bent_request(chance(7)) != bent_request(chance(8))


def test_a_body_is_bent_and_its_model_is_not() -> None:
    before = msgspec.json.encode(REQUESTS)
    bent = [bent_body(chance(seed), REQUESTS["/v1/messages"]) for seed in range(50)]
    assert sum(body != REQUESTS["/v1/messages"] for body in bent) > 40
    assert msgspec.json.encode(REQUESTS) == before
