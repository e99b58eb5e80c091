"""Texts that mention, quote or resemble tool calls, and that a careful reader leaves alone."""

import json

import pytest

from surecall.values.types import ToolSpec
from surecall.wire.dialects import recover
from tests.support.paths import CORPUS

DIALECTS = CORPUS / "dialects"
PROSE = json.loads((DIALECTS / "prose.json").read_text("utf-8"))
TOOLS = [
    ToolSpec(tool["name"], "", tool["parameters"])
    for tool in json.loads((DIALECTS / "shapes.json").read_text("utf-8"))["tools"]
]


def test_the_corpus_of_prose_is_large() -> None:
    assert len(PROSE) == len(set(PROSE)) >= 200


@pytest.mark.parametrize("weak", [False, True], ids=["strong", "weak"])
@pytest.mark.parametrize("text", PROSE, ids=range(len(PROSE)))
def test_prose_is_not_taken_for_a_call_and_comes_back_unchanged(text: str, weak: bool) -> None:  # noqa: FBT001
    found = recover(text, TOOLS, weak=weak)

    assert (found.calls, found.text) == ((), text)
