"""Laws of calls in text, through whole runs with tools that write down each time they run."""

import asyncio

import pytest

from surecall import ErrorCode, RunFailed
from surecall.testing import says
from surecall.values.types import JSON
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from tests.support import naive_values, quoted_calls
from tests.support.law_cases import Broken, check, dice, many
from tests.support.quoting import WAYS
from tests.support.reading import PRESETS
from tests.support.recording import Recorded

QUOTED_CASES = 400
NAIVE_CASES_OF_A_ROW = 6


def quoted_cases() -> list[quoted_calls.Case]:
    """Make cases in which every way and every dialect comes."""
    rng = dice("quoted runs")
    count = many(QUOTED_CASES)
    ways = [way for _ in range(1 + count // len(WAYS)) for way in WAYS]
    rows = [row for _ in range(1 + count // len(WRITERS)) for row in WRITERS]
    pairs = zip(rng.sample(ways, count), rng.sample(rows, count), strict=True)
    return [quoted_calls.case_of(rng, way, row) for way, row in pairs]


def spoken(message: JSON) -> JSON:
    """Make a reply of a message."""
    rest = {key: message[key] for key in message if key != "content"}
    return says(message["content"], **rest)


async def broken_by(case: quoted_calls.Case) -> str:
    """Run a conversation in which a call is shown; say what is wrong with how it went."""
    tools = Recorded(quoted_calls.TOOLS, {quoted_calls.LOOK: case.page})
    script = [*case.looks, spoken(case.message)]
    try:
        result = await tools.run(case.asked, script, PRESETS[case.preset], streamed=case.streamed)
    except RunFailed as failure:
        # Where the thought is all there is, nothing can be the answer.
        fair = failure.code is ErrorCode.EMPTY_FINAL and not case.message["content"]
        return "" if fair else f"failed: {failure}"
    if len(tools.ran) < len(case.looks):
        return "did not look at the page"
    ran = [arguments for name, arguments in tools.ran if name == quoted_calls.QUOTED]
    if ran:
        return f"ran with {ran}"
    return "" if result.assistant_text.strip() else "ended without an answer"


@pytest.mark.slow
def test_no_run_makes_a_call_that_is_only_shown() -> None:
    async def all_of(cases: list[quoted_calls.Case]) -> list[Broken]:
        return [
            Broken(case.way, f"{case.kind}\n{case.message}", wrong)
            for case in cases
            if (wrong := await broken_by(case))
        ]

    cases = quoted_cases()
    check(asyncio.run(all_of(cases)), len(cases))


async def wrong_with(case: naive_values.Naive, *, streamed: bool) -> str:
    """Run a conversation with a value that is not escaped; say what is wrong with how it went."""
    tools = Recorded(naive_values.TOOLS, {})
    config = PRESETS["weak" if case.row in WEAK_ROWS else "marked"]
    try:
        await tools.run("Go on.", [says(case.text)], config, streamed=streamed)
    except RunFailed as failure:
        return f"failed: {failure}"
    exact = tools.ran in ([], [(naive_values.NAME, case.meant)])
    return "" if exact else f"ran {tools.ran}"


@pytest.mark.slow
def test_every_run_makes_a_call_with_the_arguments_that_were_meant_or_not_at_all() -> None:
    async def all_of(cases: list[naive_values.Naive]) -> list[Broken]:
        broken = []
        for number, case in enumerate(cases):
            wrong = await wrong_with(case, streamed=number % 2 == 1)
            if wrong:
                broken.append(Broken(case.row, f"{case.row} / {case.place}\n{case.text}", wrong))
        return broken

    count = many(NAIVE_CASES_OF_A_ROW)
    cases = [case for row in WRITERS for case in naive_values.cases(row, count)]
    check(asyncio.run(all_of(cases)), len(cases))
