"""Instructions for one run, and images in what the user says: on the wire, streamed, in history."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from surecall import Run, RunResult, ToolLoopRunner, replay
from surecall.simulator import Simulator
from surecall.testing import ScriptedModel, ScriptedProvider, calls, says, streams

IMAGE = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
}
PARTS = [{"type": "text", "text": "What is on this picture? what=ears"}, IMAGE]
ASKED = {"role": "user", "content": PARTS}


def look(what: str) -> str:
    """Look closer at a part of the picture."""
    return f"two {what}"


def run(runner: ToolLoopRunner, *words: Any, **settings: Any) -> RunResult:
    return runner.run_sync(*words, **settings)


def watch(runner: ToolLoopRunner, *words: Any, **settings: Any) -> RunResult:
    stream = runner.stream_sync(*words, **settings)
    assert list(stream)
    return stream.result


WAYS = pytest.mark.parametrize(
    ("ask", "shape"), [(run, dict), (watch, streams)], ids=["plain", "streamed"]
)


class KeepsBytes:
    """A client that keeps what it sends, byte by byte."""

    def __init__(self, model: ScriptedModel) -> None:
        self.sent: list[bytes] = []
        self._model = model

    async def send(self, body: bytes) -> Any:
        self.sent.append(body)
        return await self._model.send(body)

    def opened(self) -> AbstractAsyncContextManager[None]:
        return self._model.opened()


def test_parts_are_sent_as_they_were_given_byte_by_byte() -> None:
    client = KeepsBytes(ScriptedModel(calls("look", what="ears"), says("A cat.")))
    runner = ToolLoopRunner(client=client, model="m", tools=[look], system="Be brief.")
    runner.run_sync(PARTS, system="Be kind.")
    runner.close()

    system = b'{"role":"system","content":"Be kind."}'
    user = json.dumps(ASKED, separators=(",", ":")).encode()
    assert all(b'"messages":[' + system + b"," + user in body for body in client.sent)
    assert len(client.sent) == 2


@WAYS
def test_an_image_goes_with_every_request_and_into_the_next_run(
    ask: Callable[..., RunResult], shape: Callable[[Any], Any]
) -> None:
    script = [calls("look", what="ears"), says("A cat."), says("Grey.")]
    with ScriptedProvider(*map(shape, script)) as provider:
        runner = ToolLoopRunner(client=provider.url, model="m", tools=[look])
        first = ask(runner, PARTS)
        second = ask(runner, "What colour?", history=first.history)
        runner.close()

    assert (first.assistant_text, second.assistant_text) == ("A cat.", "Grey.")
    assert [request["messages"][0] for request in provider.requests] == [ASKED] * 3
    assert provider.requests[2]["messages"][-1] == {"role": "user", "content": "What colour?"}
    assert Run.from_json(first.run.to_json()) == first.run
    assert replay(first.trace).run == first.run


@WAYS
def test_instructions_of_one_run_stand_first_and_only_there(
    ask: Callable[..., RunResult], shape: Callable[[Any], Any]
) -> None:
    script = [calls("look", what="ears"), says("A cat."), says("Grey."), says("Bye.")]
    with ScriptedProvider(*map(shape, script)) as provider:
        runner = ToolLoopRunner(client=provider.url, model="m", tools=[look], system="Be brief.")
        first = ask(runner, PARTS, system="Be kind.")
        second = ask(runner, "What colour?", history=first.history)
        ask(runner, "Bye.", history=second.history, system="")
        runner.close()

    roles = [[message["role"] for message in sent["messages"]] for sent in provider.requests]
    told = [sent["messages"][0]["content"] for sent in provider.requests]
    assert told == ["Be kind.", "Be kind.", "Be brief.", PARTS]
    assert [kinds.count("system") for kinds in roles] == [1, 1, 1, 0]


@pytest.mark.parametrize("persona", ["sim/clean", "sim/dialect-a1", "sim/html-502"])
def test_a_strict_provider_has_nothing_against_it(persona: str) -> None:
    with Simulator(seed=1) as simulator:
        runner = ToolLoopRunner(client=simulator.url, model=persona, tools=[look])
        result = runner.run_sync(PARTS, system="Look closely.")
        runner.close()

        assert "two ears" in result.assistant_text
        assert list(simulator.violations) == []
        assert simulator.requests[-1]["messages"][:2] == [
            {"role": "system", "content": "Look closely."},
            ASKED,
        ]
