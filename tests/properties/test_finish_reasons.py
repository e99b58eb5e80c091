"""Whatever the finish reason says: no call of a reply that broke off runs, and nothing is silent.

Every word is given as the finish reason or as the upstream's own, plain and streamed.
"""

import itertools
from contextlib import suppress
from typing import Any

import pytest

from surecall import RunFailed, ToolLoopRunner, tool
from surecall.core.reply_parsing import parse_reply
from surecall.simulator.stream_events import build_events, encode_frames
from surecall.testing import ScriptedModel, calls, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Reply
from surecall.wire.assembler import Assembler
from surecall.wire.finish_reasons import UNFINISHED, FinishKind, finish_kind
from tests.support.replies import DEFAULT, FINISH_REASONS, REGISTRY, plan

MESSAGES: list[JSON] = [
    calls("ping"),
    says("Done."),
    says(None),
    says("\u200b<|im_end|>"),
]


def ended(body: JSON, word: str, *, native: bool) -> JSON:
    reasons = {"finish_reason": "stop", "native_finish_reason": word}
    choice = body["choices"][0] | (reasons if native else {"finish_reason": word})
    return body | {"choices": [choice]}


def read(body: Any) -> Reply | Fault:
    return parse_reply(body, plan(), DEFAULT, REGISTRY)


def streamed(body: JSON) -> Any:
    assembler = Assembler(["ping"])
    for frame in encode_frames(build_events(body)):
        assembler.add(frame.decode().removeprefix("data: ").strip())
    return assembler.finish()


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("ending", "word"), FINISH_REASONS)
def test_a_call_of_a_reply_that_did_not_end_well_does_not_run(
    ending: FinishKind, word: str, *, native: bool
) -> None:
    reply = read(ended(calls("ping"), word, native=native))

    if ending is FinishKind.BROKEN:
        assert isinstance(reply, Fault)
        assert reply.retryable
    else:
        assert isinstance(reply, Reply)
        runs = [call for call in reply.calls if call.problem is None]
        assert len(reply.calls) == 1
        assert bool(runs) == (ending not in UNFINISHED)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("body", MESSAGES)
@pytest.mark.parametrize(("ending", "word"), FINISH_REASONS)
def test_plain_and_streamed_read_the_same(
    ending: FinishKind, word: str, body: JSON, *, native: bool
) -> None:
    bent = ended(body, word, native=native)
    if not word and not native:
        return  # a stream without a finish reason has not ended

    plain, live = read(bent), read(streamed(bent))
    if isinstance(plain, Fault) or isinstance(live, Fault):
        assert isinstance(plain, Fault)
        assert isinstance(live, Fault)
        assert (plain.code, plain.retryable) == (live.code, live.retryable)
        assert ending in {FinishKind.BROKEN, FinishKind.FILTERED}
    else:
        assert (plain.text, plain.calls) == (live.text, live.calls)
        assert finish_kind(plain.finish_reason) is finish_kind(live.finish_reason)


@tool(repeatable=True)
def ping() -> str:
    """Ask whether anyone is there."""
    return "pong"


@pytest.mark.usefixtures("virtual")  # what broke off is asked for again, a while later
@pytest.mark.parametrize("body", MESSAGES[1:])
@pytest.mark.parametrize(("ending", "word"), FINISH_REASONS)
def test_what_says_nothing_or_promises_a_call_is_never_a_success(
    ending: FinishKind, word: str, body: JSON
) -> None:
    model = ScriptedModel(*[ended(body, word, native=False)] * 9)
    runner = ToolLoopRunner(client=model, model="m", tools=[ping])
    text = body["choices"][0]["message"]["content"]
    is_answer = text == "Done." and ending in {
        FinishKind.COMPLETE,
        FinishKind.CUT_OFF,
        FinishKind.FILTERED,
    }

    if is_answer:
        assert runner.run_sync("Go.").assistant_text == "Done."
        return
    with pytest.raises(RunFailed) as failed:
        runner.run_sync("Go.")
    assert failed.value.code in {
        ErrorCode.EMPTY_FINAL,
        ErrorCode.CALL_MISSING,
        ErrorCode.CONTENT_POLICY,
        ErrorCode.PROVIDER_ERROR,
    }


@pytest.mark.parametrize("script", list(itertools.product(MESSAGES, repeat=3)))
def test_the_user_never_speaks_twice_in_a_row(script: tuple[JSON, ...]) -> None:
    model = ScriptedModel(*script, says("Done."), says("Done."), says("Done."))
    runner = ToolLoopRunner(client=model, model="m", tools=[ping])
    with suppress(RunFailed):
        runner.run_sync("Go.")

    for request in model.requests:
        roles = [message["role"] for message in request["messages"]]
        assert ("user", "user") not in itertools.pairwise(roles)
        assert request["messages"][0]["content"].startswith("Go.")
