"""The record of one trial, which everything else in the harness reads.

    Cell = model x profile x strategy          what a recommendation is about
    Key  = Cell x scenario x trial             one conversation, run at most once

A trial is `passed` or `failed` by the model; `infra` when the endpoint, the network or the budget
spoiled it, which says nothing about the model; `skipped` when it cannot apply.
"""

from typing import Final, Literal

import msgspec

from surecall.values.types import JSON, Usage

Status = Literal["passed", "failed", "infra", "skipped"]
CONTROL: Final = "chat_only"


class Cell(msgspec.Struct, frozen=True, order=True):
    """One column of the matrix. `strategy` is raw, baseline, production or one beyond it."""

    model: str
    profile: str = "default"
    strategy: str = "production"


class Key(msgspec.Struct, frozen=True, order=True):
    """One conversation of the matrix. Trials count from one."""

    cell: Cell
    scenario: str
    trial: int


class Score(msgspec.Struct, frozen=True):
    """A scenario's judgement, part by part; None where a part does not apply.

    `reasons` say what is wrong in words; `facts` name what was seen to happen, such as
    `guard_fired`; `warnings` are slips that the original rules let pass.
    """

    state: bool | None = None
    process: bool | None = None
    final: bool | None = None
    reasons: tuple[str, ...] = ()
    facts: dict[str, bool] = {}
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the run counts by the original definition: right state, right final text."""
        return not self.reasons


class Served(msgspec.Struct, frozen=True):
    """One request of a trial, as it was served. `build` is what the server says that it is."""

    turn: int
    latency_ms: int
    attempt: int
    finish_reason: str = ""
    provider: str = ""
    model: str = ""
    generation_id: str = ""
    cost: float | None = None
    build: str = ""


class FalseFinals(msgspec.Struct, frozen=True):
    """How many early answers there were, in how many runs, and how many of those passed."""

    answers: int = 0
    runs: int = 0
    passed: int = 0

    @classmethod
    def of(cls, answers: int, *, passed: bool) -> "FalseFinals":
        """Count those of one run."""
        return cls(answers, 1, int(passed)) if answers else cls()

    def __add__(self, other: "FalseFinals") -> "FalseFinals":
        return FalseFinals(
            self.answers + other.answers, self.runs + other.runs, self.passed + other.passed
        )


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One finished trial. `category` is blank exactly when it passed.

    `false_finals` counts early answers: those given while a need was unmet.
    """

    key: Key
    status: Status
    category: str = ""
    error: str = ""
    hint: str = ""
    http_status: int | None = None
    score: Score = Score()
    # By the first attempt alone: an extra attempt after a blank reply must not hide the first.
    first_ok: bool = False
    attempts: int = 1
    elapsed_ms: int = 0
    started_at: float = 0.0
    requests: tuple[Served, ...] = ()
    usage: Usage = Usage()
    assistant_text: str = ""
    draft: JSON = {}
    fired: tuple[str, ...] = ()
    retries: int = 0
    prompt_hash: str = ""
    false_finals: int = 0

    @property
    def ok(self) -> bool:
        """Whether the trial passed."""
        return self.status == "passed"

    @property
    def builds(self) -> tuple[str, ...]:
        """The builds that served it, as far as the endpoint names them, each once."""
        return tuple(dict.fromkeys(served.build for served in self.requests if served.build))

    @property
    def is_control(self) -> bool:
        """Whether it belongs to the control, which is never mixed into the tool rate."""
        return self.key.scenario == CONTROL
