"""What is left of a quota, and until when, is read in every form; nonsense is not."""

import json
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.wire.rate_limits import MAX_RESET_S, Quota, embedded_headers, tightest_quota

NOW: Final = 1_700_000_000.0
NAMES: Final = [
    *(
        f"x-ratelimit-{word}{kind}"
        for word in ("remaining", "reset", "limit")
        for kind in ("", "-requests", "-tokens")
    ),
    *(f"anthropic-ratelimit-tokens-{word}" for word in ("remaining", "reset", "limit")),
    *(f"ratelimit-{word}" for word in ("remaining", "reset", "limit", "policy")),
    "ratelimit",
]


def openai(
    remaining: str, reset: str, limit: str = "500", kind: str = "requests"
) -> dict[str, str]:
    words = {"remaining": remaining, "reset": reset, "limit": limit}
    return {f"x-ratelimit-{word}-{kind}": value for word, value in words.items()}


def plain(remaining: str, reset: str, limit: str, prefix: str = "x-ratelimit") -> dict[str, str]:
    return {f"{prefix}-remaining": remaining, f"{prefix}-reset": reset, f"{prefix}-limit": limit}


@pytest.mark.parametrize(
    ("headers", "quota"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"content-type": "x", "retry-after": "4"}, None, id="other-headers"),
        pytest.param(openai("499", "120ms"), Quota(499, 0.12, 500), id="openai"),
        pytest.param(openai("0", "6m0s"), Quota(0, 360.0, 500), id="openai-spent"),
        pytest.param(openai("14370", "2m59.56s", "14400"), Quota(14370, 179.56, 14400), id="groq"),
        pytest.param(openai("7", "1h2m3s", "9", "tokens"), Quota(7, 3723.0, 9), id="tokens"),
        pytest.param(
            openai("40", "1s") | openai("3", "8s", "30000", "tokens"),
            Quota(3, 8.0, 30000),
            id="the-one-of-which-least-is-left",
        ),
        pytest.param(openai("3", "20"), Quota(3, 20.0, 500), id="azure-in-seconds"),
        pytest.param(plain("0", "1700000030000", "20"), Quota(0, 30.0, 20), id="openrouter"),
        pytest.param(plain("0", "1700000030", "20"), Quota(0, 30.0, 20), id="github"),
        pytest.param(plain("5", "60", "10", "ratelimit"), Quota(5, 60.0, 10), id="older-drafts"),
        pytest.param(
            plain("5", "60", "100, 100;w=60, 900;w=3600", "ratelimit"),
            Quota(5, 60.0, 100),
            id="several-policies-in-an-older-draft",
        ),
        pytest.param(
            {"ratelimit": "limit=10, remaining=1, reset=7"}, Quota(1, 7.0, 10), id="draft-7"
        ),
        pytest.param(
            {"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=100;w=60'},
            Quota(50, 30.0, 100),
            id="draft-10",
        ),
        pytest.param(
            {
                "ratelimit": '"minute";r=50;t=30, "day" ; r=2; t=800',
                "ratelimit-policy": '"minute";q=100;w=60, "day";q=1000;w=86400',
            },
            Quota(2, 800.0, 1000),
            id="draft-10-with-two",
        ),
        pytest.param({"ratelimit": '"a";r=5;t=3'}, Quota(5, 3.0), id="without-a-policy"),
        pytest.param(
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:50Z",
                "anthropic-ratelimit-requests-limit": "50",
            },
            Quota(0, 30.0, 50),
            id="anthropic",
        ),
        pytest.param(openai("0", "2023-11-14T22:13:50"), Quota(0, 30.0, 500), id="no-zone-is-utc"),
        pytest.param(
            {"x-ratelimit-remaining": "4", "x-ratelimit-reset": "9"}, Quota(4, 9.0), id="no-limit"
        ),
    ],
)
def test_what_is_left_of_a_quota_is_read_in_every_form(
    headers: dict[str, str], quota: Quota | None
) -> None:
    found = tightest_quota(headers, NOW)

    assert (found is None) == (quota is None)
    if found is not None and quota is not None:
        assert (found.remaining, found.limit) == (quota.remaining, quota.limit)
        assert found.reset_s == pytest.approx(quota.reset_s)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(openai("-1", "0", "-1"), id="azure-without-a-limit"),
        pytest.param(openai("0", ""), id="no-reset"),
        pytest.param(openai("", "1s"), id="blank"),
        pytest.param(openai("none", "1s"), id="text"),
        pytest.param(openai("nan", "1s"), id="nan"),
        pytest.param(openai("inf", "1s"), id="inf"),
        pytest.param(openai("9" * 400, "1s"), id="huge"),
        pytest.param(openai("1" * 401, "1s"), id="long"),
        pytest.param(openai("0", "0"), id="over-already"),
        pytest.param(openai("0", "-5"), id="negative"),
        pytest.param(openai("0", "nan"), id="reset-nan"),
        pytest.param(openai("0", "inf"), id="reset-inf"),
        pytest.param(openai("0", "soon"), id="reset-text"),
        pytest.param(openai("0", "5 parsecs"), id="reset-unit"),
        pytest.param(openai("0", "1s" * 500), id="reset-long"),
        pytest.param(openai("0", "1" * 900 + "s"), id="reset-huge"),
        pytest.param(openai("0", "90000"), id="in-more-than-a-day"),
        pytest.param(openai("0", "1899-01-01T00:00:00Z"), id="a-past-century"),
        pytest.param(openai("0", "0001-01-01T00:00:00+23:59"), id="the-first-day"),
        pytest.param(openai("0", "9999-12-31T23:59:59-23:59"), id="the-last-day"),
        pytest.param(openai("0", "2033-11-14T22:13:50Z"), id="in-ten-years"),
        pytest.param(plain("0", "2015360000000", "9"), id="in-ten-years-in-milliseconds"),
        pytest.param(plain("0", "2015360000", "9"), id="in-ten-years-in-seconds"),
        pytest.param(plain("0", "1e300", "9"), id="in-a-far-future"),
        pytest.param({"ratelimit": '"a";r=0'}, id="draft-without-a-window"),
        pytest.param({"ratelimit": ";;=,=;r=;t=1"}, id="broken-draft"),
        pytest.param({"ratelimit": '"a";r=0;t=9' + " " * 400}, id="endless-draft"),
        pytest.param(
            {"ratelimit": '"a";r=0;t=9', "ratelimit-policy": "x" * 401}, id="endless-policy"
        ),
    ],
)
def test_what_cannot_be_true_counts_as_not_said(headers: dict[str, str]) -> None:
    assert tightest_quota(headers, NOW) is None


def test_a_limit_that_cannot_be_true_is_unknown() -> None:
    assert tightest_quota(openai("4", "1s", "-3"), NOW) == Quota(4, 1.0, None)
    assert tightest_quota(openai("4", "1s", "0"), NOW) == Quota(4, 1.0, None)


def test_the_headers_inside_of_a_refusal_of_openrouter_are_read() -> None:
    headers = {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0"}
    headers |= {"X-RateLimit-Reset": "1700000030000"}
    metadata = {"headers": headers, "provider_name": None}
    body = {"error": {"message": "Rate limit exceeded", "code": 429, "metadata": metadata}}

    assert tightest_quota(embedded_headers(json.dumps(body).encode()), NOW) == Quota(0, 30.0, 50)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"[]", b"no", b"\xff", b"{}", b'{"error": "slow down"}'),
        *(b'{"error": {"metadata": {}}}', b'{"error": {"metadata": {"headers": [1]}}}'),
        *(b'{"error": {"metadata": {"headers": {"a": {}}}}}', b'{"error": ' + b"[" * 50_000),
        b'{"error": {"metadata": {"headers": {"a": "' + b"x" * 70_000 + b'"}}}}',
    ],
    ids=range(12),
)
def test_any_other_refusal_has_none_inside(body: bytes) -> None:
    assert embedded_headers(body) == {}


@given(st.binary())
def test_no_refusal_makes_the_reader_raise(body: bytes) -> None:
    assert embedded_headers(body) == {}


ODD = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"-?[0-9]{0,25}(\.[0-9]{0,9})?(ms|us|[dhms])?", fullmatch=True),
    st.floats().map(str),
    st.datetimes().map(datetime.isoformat),
    st.from_regex(r'("[a-z]{0,3}"|[a-z]*=[0-9]*)(;[rtqw]=-?[0-9]{0,20}){0,3}', fullmatch=True),
)


@given(st.dictionaries(st.sampled_from(NAMES), ODD), st.floats(0, 1e11))
def test_no_header_makes_the_reader_raise_or_believe_in_a_long_wait(
    headers: dict[str, str], now: float
) -> None:
    quota = tightest_quota(headers, now)

    assert quota is None or (quota.remaining >= 0 and 0 < quota.reset_s <= MAX_RESET_S)
    assert quota is None or quota.limit is None or quota.limit > 0


@given(st.integers(0, 10**9), st.integers(1, int(MAX_RESET_S)))
def test_every_form_of_a_quota_says_the_same(remaining: int, reset_s: int) -> None:
    left, at = str(remaining), NOW + reset_s
    minutes, seconds = divmod(reset_s, 60)
    moment = datetime.fromtimestamp(at, UTC).isoformat()
    resets = [
        str(reset_s),
        f"{minutes}m{seconds}s",
        f"{reset_s * 1000}ms",
        f"{at:.0f}",
        f"{at:.0f}000",
        moment,
    ]
    forms = [openai(left, reset) for reset in resets] + [{"ratelimit": f'"q";r={left};t={reset_s}'}]

    found = [tightest_quota(form, NOW) for form in forms]

    assert {quota.remaining for quota in found if quota} == {remaining}
    assert [quota.reset_s for quota in found if quota] == pytest.approx([reset_s] * len(forms))
