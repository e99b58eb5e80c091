"""Lone surrogates, which no strict server accepts, never get past the door."""

import asyncio

from surecall import Run, ToolLoopRunner
from surecall.testing import ScriptedModel, says

LONE = "a\ud83cb"


def test_text_of_the_caller_with_lone_surrogates_is_sent_and_written_down() -> None:
    model = ScriptedModel(says("ok"))
    runner = ToolLoopRunner(client=model, model="m", system=LONE)
    history = [LONE, {"role": "user", "content": [{"type": "text", "text": LONE}]}]

    result = asyncio.run(runner.run(LONE, history=history))

    texts = [message["content"] for message in model.requests[0]["messages"]]
    assert texts == ["a\ufffdb", "a\ufffdb", [{"type": "text", "text": "a\ufffdb"}], "a\ufffdb"]
    assert Run.from_json(result.run.to_json()) == result.run


def test_a_pair_of_surrogates_is_one_character() -> None:
    model = ScriptedModel(says("ok"))

    asyncio.run(ToolLoopRunner(client=model, model="m").run("\ud83c\udf78"))

    assert model.requests[0]["messages"][0]["content"] == "\U0001f378"
