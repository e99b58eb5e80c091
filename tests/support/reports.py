"""Reports for tests: pages taken apart, recorded runs, and rows of their tables."""

import asyncio
import base64
import hashlib
import json
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import msgspec

from surecall import ToolLoopRunner, tool
from surecall.core.outcome import RunResult
from surecall.eval.analysis.recommendations import ProfileCandidate, Recommendation, recommend
from surecall.eval.analysis.stats import Rate
from surecall.eval.report.page.data import Report, ReportContext, build_report
from surecall.eval.report.page.snapshot import load_snapshot
from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.storage.store import Invocation
from surecall.eval.storage.trial import Cell, Key, Score, ServedRequest, SideEffects, Trial, Truth
from surecall.runtime.recording import dump_trace
from surecall.settings.contract import Contract
from surecall.testing import ScriptedModel, calls, says
from surecall.values.types import Usage
from tests.support.trials import CELL, report_trial, rich_trials, trial


class Page(HTMLParser):
    """A page taken apart: its tags with their attributes, its text, its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.styles: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.cdata_elem == "style":
            self.styles.append(data)
        else:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def policy(self) -> str:
        found = [meta for meta in self.all("meta") if "http-equiv" in meta]
        return found[0]["content"] or ""

    @property
    def data(self) -> dict[str, object]:
        (found,) = [text for attributes, text in self.scripts if attributes.get("id") == "data"]
        decoded: dict[str, object] = json.loads(found)
        return decoded

    @property
    def shape(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """Count tags; places where a name may break come with the name."""
        found = Counter((tag, tuple(attributes)) for tag, attributes in self.tags)
        del found["wbr", ()]
        return found

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def report(trials: list[Trial] | None = None, **context: object) -> Report:
    found = rich_trials() if trials is None else trials
    return build_report(found, msgspec.convert(context, ReportContext))


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def sections(page: Page) -> list[str | None]:
    """Return the sections of the report, without those of a single run."""
    named = [section["id"] for section in page.all("section") if "id" in section]
    return named[: named.index("runs") + 1]


BUILD = "b7710-2bbe4c2cf"


@tool
def book(day: str) -> str:
    """Book a day."""
    return f"booked {day}"


RAW_CELL = Cell(CELL.model, strategy="raw")


PREMATURE_TRIALS = [
    trial("passed", 1, false_finals=2, requests=[{"turn": 0, "latency_ms": 1, "attempt": 1}]),
    trial("failed", 2, false_finals=3),
    trial("passed", 3),
    trial("skipped", 4),
    trial("failed", 1, "other", RAW_CELL, false_finals=1),
    trial(
        "passed",
        1,
        "chat_only",
        requests=[
            {"turn": 0, "latency_ms": 1, "attempt": 1, "build": BUILD},
            {"turn": 1, "latency_ms": 1, "attempt": 1, "build": BUILD},
        ],
    ),
]


CONDUCT_RAW, CONDUCT_GUIDED = Cell("m", strategy="raw"), Cell("m", strategy="guided")


CONDUCT_SCENARIO = "work_pay_invoice"


def conduct_trial(
    cell: Cell, number: int, truth: Truth, wrong: int = 0, repeated: int = 0
) -> Trial:
    return report_trial(
        cell,
        CONDUCT_SCENARIO,
        number,
        "passed" if truth == "right" else "failed",
        truth=truth,
        score=Score(effects=SideEffects(1 + repeated, wrong, repeated)),
        requests=(ServedRequest(0, 1, 1),) * (2 + number),
        usage=Usage(total_tokens=100 * number),
        after_no=3 if truth == "open" else 0,
    )


CONDUCT_TRIALS = [
    conduct_trial(CONDUCT_RAW, 1, "false_success", wrong=1),
    conduct_trial(CONDUCT_RAW, 2, "silent", repeated=2),
    conduct_trial(CONDUCT_GUIDED, 1, "right"),
    conduct_trial(CONDUCT_GUIDED, 2, "open"),
]


CONDUCT_PLAIN = [report_trial(CONDUCT_RAW, status="failed"), report_trial(CONDUCT_GUIDED)]


RAW_ROW = ("0/2", "2", "1", "1", "2", "2", "0", "3.5", "150")


GUIDED_ROW = ("1/2", "0", "0", "0", "0", "0", "3", "3.5", "150")


BOOKED = calls("book", day="Monday")


DONE_BY_BUILD = says("Done.") | {"system_fingerprint": BUILD}


class RecordedRun(msgspec.Struct, frozen=True):
    """A run on record, and the requests that it really made."""

    trial: Trial
    lines: bytes
    requests: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return self.trial.key.scenario


def record_run(scenario: str, *script: Any, accept: Any = None, **config: Any) -> RecordedRun:
    model = ScriptedModel(*script)
    settings = {"contract": Contract(all_of=("book",)), "final_ladder": ("remind", "require")}
    runner = ToolLoopRunner(
        client=model, model="m", registry=[book], config=settings | config, accept_final=accept
    )
    result = asyncio.run(runner.run("Book Monday."))
    key = Key(Cell("m"), scenario, 1)
    trial = Trial(key=key, status="passed", false_finals=result.false_finals)
    return RecordedRun(trial, dump_trace(result.trace), model.requests)


def reluctant(result: RunResult) -> str | None:
    return None if result.assistant_text == "Done." else "say Done, as agreed."


PREMATURE_RUN = record_run("early", DONE_BY_BUILD, DONE_BY_BUILD, BOOKED, DONE_BY_BUILD)


OBJECTED_RUN = record_run("objected", BOOKED, says("Fine."), DONE_BY_BUILD, accept=reluctant)


GUIDED_RUN = record_run(
    "guided",
    says('{"answer": "Done."}'),
    says('{"tool": "book", "arguments": {"day": "Monday"}}'),
    says('{"answer": "Done."}'),
    call_protocol="guided",
)


QUOTED_RUN = record_run(
    "quoted",
    BOOKED,
    says('It says <tool_call>{"name": "book", "arguments": {"day": "Friday"}}</tool_call>'),
    DONE_BY_BUILD,
    contract=None,
    text_calls="marked",
)


SIMULATED = Cell("sim/like-qwen-large")


IMITATED = "qwen/qwen3-235b-a22b-2507:nitro"


def invocation(*cells: Cell, trials: object = 3, **settings: object) -> Invocation:
    columns = tuple(
        SheetColumn(cell, simulated=True, imitates=IMITATED)
        if cell == SIMULATED
        else SheetColumn(cell)
        for cell in cells
    )
    sheet = Sheet(columns, ("happy_path",), {"trials": trials, "seed": 7} | settings)
    return Invocation(
        command=("surecall", "eval"), code="1+abc", config={"sheet": msgspec.to_builtins(sheet)}
    )


SNAPSHOT = load_snapshot()


ADVICE = {advice.model: advice for advice in recommend(SNAPSHOT.cells)}


def candidate(k: int = 40, n: int = 40, **fields: Any) -> ProfileCandidate:
    base: dict[str, Any] = {"model": "m", "profile": "default", "tool": Rate(k, n)}
    return ProfileCandidate(**(base | fields))


def advise(*found: ProfileCandidate, **settings: Any) -> Recommendation:
    (advice,) = recommend(found, **settings)
    return advice
