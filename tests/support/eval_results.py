"""Made-up trials for the tests of the store and of reports."""

import random
from typing import Any

import msgspec

from surecall.eval.report.common import Column, Sheet
from surecall.eval.storage.trial import Cell, Key, Status, Trial
from surecall.values.types import JSON

HOSTILE = "../|\x1b[31m`x`\\|<script>\n[a](b)]]>\ud800\x00"
CATEGORIES = {"failed": "ASSERTION_FAILED", "infra": "TIMEOUT", "skipped": "TOOLS_DISABLED"}
NAMES = ("happy_path", "long_arguments_guard", "chat_only")


def trial(
    cell: Cell,
    scenario: str = "happy_path",
    number: int = 1,
    status: Status = "passed",
    **rest: Any,
) -> Trial:
    fields: JSON = {"category": CATEGORIES.get(status, ""), "first_ok": status == "passed"}
    fields |= rest
    return Trial(key=Key(cell, scenario, number), status=status, **fields)


def sheet(*cells: Cell, scenarios: tuple[str, ...] = NAMES, **settings: Any) -> Sheet:
    return Sheet(tuple(Column(cell) for cell in cells), scenarios, settings)


CELLS = (Cell("z/last"), Cell("a/first", "warm"), Cell("a/first"), Cell("z/last", "warm", "raw"))


def many() -> list[Trial]:
    chance = random.Random(7)  # noqa: S311 - examples, not secrets
    kinds: list[Status] = ["passed", "passed", "failed", "infra", "skipped"]
    made = [
        trial(cell, name, number, chance.choice(kinds), elapsed_ms=chance.randrange(5000))
        for cell in CELLS
        for name in NAMES
        for number in range(1, 13)
    ]
    chance.shuffle(made)
    return made


START = {
    "type": "run_start",
    "run_id": "r",
    "config": {"tool_use_mode": "disabled"},
    "options": {"temperature": 1},
    "messages": [{"role": "system", "text": "s"}, {"role": "user", "content": "u"}],
}
CALL = {"id": "c1", "name": "state_get", "arguments": {}}
EVENTS: list[JSON] = [
    START,
    {"type": "llm_request_end", "reply": {"calls": [CALL]}},
    {"type": "tool_call_start", "call": CALL},
    {
        "type": "tool_call_end",
        "result": {"call_id": "c1", "name": "state_get", "content": '{"ok":true}'},
    },
    {"type": "llm_request_end", "reply": {"text": "Done."}},
]


def lines(*events: JSON) -> bytes:
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


SAME = {"base_url": "http://localhost/v1", "seed": 1}
OTHER = SAME | {"seed": 2}
TRACE = b'{"type":"run_start","run_id":"r"}\n{"type":"final","run_id":"r"}\n'


def key(number: int = 1, model: str = "sim/a", scenario: str = "happy_path") -> Key:
    return Key(Cell(model), scenario, number)


def passed(which: Key, elapsed_ms: int = 5) -> Trial:
    return Trial(key=which, status="passed", elapsed_ms=elapsed_ms, draft={"foo": "bar"})


def spoiled(which: Key) -> Trial:
    return Trial(key=which, status="infra", category="TIMEOUT", error="it took too long")
