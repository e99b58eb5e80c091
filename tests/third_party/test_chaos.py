"""Servers that others wrote, with their own switches for chaos, at every step of a conversation.

Whatever they do: each city is looked up at most once, in the order and with the arguments that were
sent; the run ends with the answer or with an error that has a name; and the requests are few.
"""

from typing import NamedTuple

import pytest

from surecall import ErrorCode, RunFailed
from surecall.values.types import JSON
from tests.support.servers import (
    ANSWER,
    CITIES,
    RETRY,
    STEPS,
    AimockScript,
    Foreign,
    LlmockScript,
    Script,
    Strike,
    Weather,
    answered,
)
from tests.support.timing import PATIENCE_S

pytestmark = [pytest.mark.third_party, pytest.mark.processes]
# Each step is asked for at most this often, whether requests fail or replies are of no use.
MOST_OF_A_STEP = 2 * RETRY.attempts
# Errors of a client, as llmock names them. It sees no exceptions: of one that gives up after half
# of a stream it says that it took it for whole, so that counts only where there is an answer.
NEVER = {"retry_after_ignored", "retried_non_retryable", "retry_storm"}
HALF_A_STREAM = "truncated_stream_accepted"


class Chaos(NamedTuple):
    """A switch, the error of a run that meets it at every request, and whether one is survived."""

    switch: JSON
    code: ErrorCode | None
    passes: bool = True
    only_streamed: bool = False


def failing(status: int, code: ErrorCode, *, passes: bool = True, wait: float = 0.05) -> Chaos:
    return Chaos({"type": "fail", "status": status, "retry_after": wait}, code, passes)


def breaking(kind: str, after: int, code: ErrorCode) -> Chaos:
    fault = {"type": "stream_fault", "kind": kind, "after_chunks": after}
    return Chaos(fault, code, only_streamed=True)


def calling(kind: str, code: ErrorCode) -> Chaos:
    return Chaos({"type": "tool_fault", "kind": kind}, code)


LLMOCK = {
    "400": failing(400, ErrorCode.BAD_REQUEST, passes=False),
    "401": failing(401, ErrorCode.AUTH, passes=False),
    "429": failing(429, ErrorCode.RATE_LIMIT),
    "429-long": failing(429, ErrorCode.RATE_LIMIT, passes=False, wait=60),
    "500": failing(500, ErrorCode.UPSTREAM_5XX),
    "503": failing(503, ErrorCode.UPSTREAM_5XX),
    "529": failing(529, ErrorCode.UPSTREAM_5XX),
    "delay": Chaos({"type": "delay", "seconds": 0.01}, None),
    "slow": Chaos({"type": "slow_first_token", "seconds": 0.01}, None, only_streamed=True),
    "disconnect-0": breaking("disconnect", 0, ErrorCode.CONNECTION_ERROR),
    "disconnect-2": breaking("disconnect", 2, ErrorCode.CONNECTION_ERROR),
    "truncate-0": breaking("truncate", 0, ErrorCode.EMPTY_RESPONSE),
    "truncate-2": breaking("truncate", 2, ErrorCode.CONNECTION_ERROR),
    "malformed-0": breaking("malformed", 0, ErrorCode.DECODE_ERROR),
    "malformed-2": breaking("malformed", 2, ErrorCode.DECODE_ERROR),
    "arguments": calling("malformed_arguments", ErrorCode.LOOP_DETECTED),
    "unknown": calling("unknown_tool", ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED),
}
AIMOCK = {
    "drop": Chaos({"chaos": {"dropRate": 1}}, ErrorCode.UPSTREAM_5XX),
    "malformed": Chaos({"chaos": {"malformedRate": 1}}, ErrorCode.DECODE_ERROR),
    "disconnect": Chaos({"chaos": {"disconnectRate": 1}}, ErrorCode.CONNECTION_ERROR),
    # It asks for a second, which is more than these runs grant.
    "429": Chaos({"chaos": {"rateLimitRate": 1}}, ErrorCode.RATE_LIMIT, passes=False),
    "latency": Chaos({"chaos": {"latencyMs": 10}}, None),
    "truncate-1": Chaos({"truncateAfterChunks": 1}, ErrorCode.CONNECTION_ERROR, only_streamed=True),
    "truncate-2": Chaos({"truncateAfterChunks": 2}, ErrorCode.CONNECTION_ERROR, only_streamed=True),
}
# LiteLLM passes statuses on, and reports what breaks in a stream as one.
BEHIND_LITELLM = {
    "429": failing(429, ErrorCode.RATE_LIMIT),
    "500": failing(500, ErrorCode.UPSTREAM_5XX),
    "disconnect-2": breaking("disconnect", 2, ErrorCode.UPSTREAM_5XX),
    "malformed-2": breaking("malformed", 2, ErrorCode.UPSTREAM_5XX),
    "arguments": calling("malformed_arguments", ErrorCode.LOOP_DETECTED),
}


def attempt(
    server: Foreign, script: Script, *, streamed: bool, idle_s: float = PATIENCE_S
) -> tuple[list[str], str | ErrorCode]:
    """Hold a conversation; return what was looked up, and the answer or the name of the error."""
    weather = Weather(script.at)
    try:
        result = answered(server, weather.get_weather, streamed=streamed, idle_s=idle_s)
    except RunFailed as failed:
        return weather.looked_up, failed.code
    return weather.looked_up, result.assistant_text


def expected(chaos: Chaos, strike: Strike) -> tuple[list[str], str | ErrorCode]:
    if chaos.code is None or (chaos.passes and not strike.always):
        return list(CITIES), ANSWER
    return list(CITIES[: strike.step]), chaos.code


def strikes(chaos: Chaos) -> list[Strike]:
    """Strike once, at each step, and at every request of the middle one."""
    return [Strike(chaos.switch, step) for step in STEPS] + [Strike(chaos.switch, 1, always=True)]


def ways(cases: dict[str, Chaos]) -> pytest.MarkDecorator:
    """Run each case plain and streamed; what only happens to streams, streamed."""
    rows = [
        pytest.param(chaos, streamed, id=f"{name}-{'streamed' if streamed else 'plain'}")
        for name, chaos in cases.items()
        for streamed in (False, True)
        if streamed or not chaos.only_streamed
    ]
    return pytest.mark.parametrize(("chaos", "streamed"), rows)


@ways(LLMOCK)
def test_llmock_breaks_no_run_and_finds_no_fault_in_us(
    llmock: Foreign, chaos: Chaos, *, streamed: bool
) -> None:
    for strike in strikes(chaos):
        script = LlmockScript(llmock.url, strike)
        outcome = attempt(llmock, script, streamed=streamed)
        findings = set(script.findings())

        assert outcome == expected(chaos, strike)
        assert len(script.requests()) <= len(STEPS) - 1 + MOST_OF_A_STEP
        assert not findings & NEVER
        assert outcome[1] != ANSWER or HALF_A_STREAM not in findings


@ways(AIMOCK)
def test_aimock_breaks_no_run(told_aimock: Foreign, chaos: Chaos, *, streamed: bool) -> None:
    for strike in strikes(chaos):
        script = AimockScript(told_aimock.url, strike)

        assert attempt(told_aimock, script, streamed=streamed) == expected(chaos, strike)
        assert len(script.requests()) <= len(STEPS) - 1 + MOST_OF_A_STEP


@ways(BEHIND_LITELLM)
def test_chaos_behind_litellm_breaks_no_run(
    litellm: Foreign, llmock: Foreign, chaos: Chaos, *, streamed: bool
) -> None:
    for step in STEPS:
        strike = Strike(chaos.switch, step)
        script = LlmockScript(llmock.url, strike)

        assert attempt(litellm, script, streamed=streamed) == expected(chaos, strike)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_what_litellm_makes_of_half_a_stream_never_runs_half_a_call(
    litellm: Foreign, llmock: Foreign, after: int
) -> None:
    """It ends such a stream as if it were whole: half of an answer cannot be told from one."""
    half = {"type": "stream_fault", "kind": "truncate", "after_chunks": after}
    for step in STEPS:
        script = LlmockScript(llmock.url, Strike(half, step))
        looked_up, end = attempt(litellm, script, streamed=True)

        assert looked_up == list(CITIES[: len(looked_up)])
        assert isinstance(end, ErrorCode) or (end and ANSWER.startswith(end))


def test_a_stream_that_stops_in_the_middle_is_given_up_and_asked_for_again(llmock: Foreign) -> None:
    stall = {"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 600}
    script = LlmockScript(llmock.url, Strike(stall, step=1))

    assert attempt(llmock, script, streamed=True, idle_s=4.0) == (list(CITIES), ANSWER)
    assert "no_read_timeout" not in script.findings()
