"""Retries: a pure table of what is sent again, and after how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ErrorCode, Fault
from tests.support.spec import proves


def passing(retry_after: float | None = None) -> Fault:
    return Fault(ErrorCode.UPSTREAM_5XX, "busy", retryable=True, retry_after=retry_after)


@pytest.mark.parametrize(
    ("attempt", "jitter", "wait"),
    [
        (1, 1.0, 0.5),
        (1, 0.0, 0.25),
        (2, 1.0, 1.0),
        (3, 1.0, 2.0),
        (4, 1.0, 4.0),
        (5, 1.0, 8.0),
        (6, 1.0, 8.0),
        (6, 0.0, 4.0),
        (9_999, 1.0, 8.0),
    ],
)
@proves("G11")
def test_waits_double_up_to_a_bound(attempt: int, jitter: float, wait: float) -> None:
    assert RetryPolicy(attempts=10_000).wait(passing(), attempt, jitter) == wait


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        (7.0, 7.0),
        (0.25, 0.25),
        (120.0, 120.0),
        (120.5, None),
        (1e30, None),
        (float("nan"), 0.5),
        (0.0, 0.5),
        (-3.0, 0.5),
    ],
)
@proves("G11")
def test_a_servers_advice_is_followed_or_means_giving_up(
    retry_after: float, wait: float | None
) -> None:
    assert RetryPolicy().wait(passing(retry_after), 1, 1.0) == wait


@pytest.mark.parametrize(("attempts", "last"), [(0, 1), (1, 1), (3, 3)])
@proves("G11")
def test_the_first_attempt_counts(attempts: int, last: int) -> None:
    policy = RetryPolicy(attempts=attempts)
    assert policy.wait(passing(), last, 1.0) is None
    assert policy.wait(passing(1.0), last, 1.0) is None
    assert all(policy.wait(passing(), attempt, 1.0) for attempt in range(1, last))


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_a_fault_that_does_not_pass_is_not_tried_again(retry_after: float | None) -> None:
    fault = Fault(ErrorCode.AUTH, "who?", retry_after=retry_after)
    assert RetryPolicy().wait(fault, 1, 1.0) is None


@given(st.integers(1, 5_000), st.floats(0, 1), st.none() | st.floats())
def test_a_wait_is_above_zero_and_bounded(
    attempt: int, jitter: float, retry_after: float | None
) -> None:
    wait = RetryPolicy(attempts=4_000).wait(passing(retry_after), attempt, jitter)
    assert wait is None or 0 < wait <= 120
