"""Rewritings of arguments that only some models need: what they change, and what stays."""

from typing import Any

import pytest

from surecall.parsing.argument_rewrites import with_texts, without_entities


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("a &amp;&amp; b", "a && b"),
        ("&lt;b&gt;&quot;&#39;&#x27;&NBSP;", "<b>\"''\xa0"),
        ("&amp;lt;", "&lt;"),
        ("AT&T; & co &unknown; &;", "AT&T; & co &unknown; &;"),
        ("&" * 9, "&" * 9),
    ],
)
def test_entities_are_decoded_once_and_only_the_known_ones(text: str, decoded: str) -> None:
    steps: list[str] = []
    value = {"a": [text, 1], "b": {"c": text}}

    healed = without_entities(value, steps)

    assert healed == {"a": [decoded, 1], "b": {"c": decoded}}
    assert (steps == [], healed is value) == (text == decoded, text == decoded)


def test_containers_become_text_only_where_nothing_else_is_declared() -> None:
    kinds: list[Any] = ["string", ["string", "null"], ["string", "object"], "object", None]
    schema = {"properties": {str(at): {"type": kind} for at, kind in enumerate(kinds)}}
    steps: list[str] = []

    healed = with_texts({str(at): {"x": 1} for at in range(6)} | {"7": 1}, schema, steps)

    texts = [key for key, value in healed.items() if value == '{"x":1}']
    assert (texts, steps) == (["0", "1"], ["text_from_container"])
    assert with_texts({"0": "x"}, schema, steps) == {"0": "x"}
    assert with_texts({"0": {}}, {}, steps) == {"0": {}}
