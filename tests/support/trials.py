"""Made-up trials, for tests of what is made of them."""

import random

import msgspec

from surecall.eval.storage.trial import CONTROL, Cell, Key, Status, Trial

CELL = Cell("maker/model")
ONE_SCENARIO = "happy_path"


def trial(
    status: Status = "passed",
    number: int = 1,
    scenario: str = ONE_SCENARIO,
    cell: Cell = CELL,
    **fields: object,
) -> Trial:
    base: dict[str, object] = {
        "key": Key(cell, scenario, number),
        "status": status,
        "category": "" if status == "passed" else "ASSERTION_FAILED",
        "first_ok": status == "passed",
    }
    return msgspec.convert(base | fields, Trial)


def series(pattern: str, scenario: str = ONE_SCENARIO, cell: Cell = CELL) -> list[Trial]:
    """Trials 1, 2, … of one scenario: `.` passed, `x` failed, `i` infra, `s` skipped."""
    statuses: dict[str, Status] = {".": "passed", "x": "failed", "i": "infra", "s": "skipped"}
    return [trial(statuses[mark], at, scenario, cell) for at, mark in enumerate(pattern, 1)]


def rich_trials() -> list[Trial]:
    draw = random.Random(7)  # noqa: S311 - any numbers will do
    return [
        trial(
            draw.choice(("passed", "passed", "failed", "infra", "skipped")),
            number,
            scenario,
            Cell(model, "default", strategy),
            elapsed_ms=draw.randrange(9_999),
            requests=[{"turn": 0, "latency_ms": draw.randrange(999), "attempt": 1}],
            usage={"prompt_tokens": 7, "cost": draw.random() / 1_000},
            fired=[draw.choice("abc")],
            score={"state": draw.choice((True, False, None))},
        )
        for model in ("m1", "m2")
        for strategy in ("baseline", "production")
        for scenario in ("one", "two", CONTROL)
        for number in range(1, 9)
    ]
