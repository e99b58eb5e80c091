"""Each refused feature is refused in the words of providers, and nothing else is."""

import pytest

from surecall.core.refusals import request_lessons
from surecall.simulator.refused_features import REFUSED_FEATURES, refused_wording
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON

PARAMETERS: JSON = {"type": "object", "properties": {"a": {"type": "string"}}}
PLAIN: JSON = {
    "model": "m",
    "messages": [{"role": "user", "content": "Go."}],
    "tools": [{"type": "function", "function": {"name": "t", "parameters": PARAMETERS}}],
    "reasoning_effort": "none",
}


@pytest.mark.parametrize("name", REFUSED_FEATURES)
def test_an_ordinary_request_uses_no_refused_feature(name: str) -> None:
    feature = REFUSED_FEATURES[name]

    assert len(feature.wordings) >= 2
    assert feature.sources
    assert not feature.is_used(PLAIN)
    assert not feature.is_used(PLAIN | {"tools": [{"function": {"name": "t"}}]})
    assert refused_wording(name, 0, PLAIN) == ""


def test_a_request_with_the_feature_is_refused_in_the_chosen_words() -> None:
    body = PLAIN | {"max_tokens": 5}

    assert refused_wording("max-tokens", 1, body) == REFUSED_FEATURES["max-tokens"].wordings[1]
    assert refused_wording("", 0, body) == ""


@pytest.mark.parametrize("name", REFUSED_FEATURES)
def test_a_refusal_teaches_nothing_about_a_request_without_the_feature(name: str) -> None:
    for wording in REFUSED_FEATURES[name].wordings:
        fault = Fault(ErrorCode.BAD_REQUEST, wording, 400)
        assert set(request_lessons(fault, PLAIN, ())) <= {"reasoning_effort"}


IMAGE: JSON = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TEXT: JSON = {"type": "text", "text": "Go."}


@pytest.mark.parametrize(
    ("name", "role", "parts"),
    [
        ("text-parts", "user", [TEXT]),
        ("images", "user", ["odd", IMAGE]),
        ("tool-images", "tool", [TEXT, IMAGE]),
    ],
)
def test_parts_of_messages_are_looked_at(name: str, role: str, parts: list[JSON]) -> None:
    body = PLAIN | {"messages": [{"role": role, "content": parts}]}

    assert REFUSED_FEATURES[name].is_used(body)
    other = PLAIN | {"messages": [{"role": "user", "content": [TEXT | {"type": "other"}]}]}
    assert not REFUSED_FEATURES[name].is_used(other)
