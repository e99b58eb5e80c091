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
# Whether a run told the truth about what it did. `open` is a failure that somebody was told of, by
# an error or in the answer; `silent` one that nobody was told of; `false_success` is silent, and
# what the answer claims was not done. Blank means unknown: not judged, or an older record.
Truth = Literal["", "right", "open", "silent", "false_success"]
# What the scenario of a trial is about. Only those with tools make the tool rate.
Kind = Literal["tool", "control", "no_tools"]
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


class Effects(msgspec.Struct, frozen=True):
    """The side effects of a run: how many, how many of them wrong, how many made once more."""

    made: int = 0
    wrong: int = 0
    repeated: int = 0

    def __add__(self, other: "Effects") -> "Effects":
        return Effects(
            self.made + other.made, self.wrong + other.wrong, self.repeated + other.repeated
        )


class Miss(msgspec.Struct, frozen=True):
    """One expectation that was not met.

    `check` is the expectation in the same words for every trial of a scenario, so that misses can
    be counted by it; `got` is what came instead. `turn` is the model's turn that decided, counted
    from zero as in the trace, and `call_id` the call in it; None and blank where nothing did.
    Records of older versions have a sentence alone, which says what is wrong: it is the `check`.
    """

    check: str
    expected: str = ""
    got: str = ""
    turn: int | None = None
    call_id: str = ""

    @property
    def sentence(self) -> str:
        """Say it in one sentence."""
        if not (self.expected or self.got):
            return self.check
        more = f": {self.expected}" if self.expected not in self.check else ""
        return f"expected that {self.check}{more}, got {self.got or 'nothing'}"


class Score(msgspec.Struct, frozen=True):
    """A scenario's judgement, part by part; None where a part does not apply.

    `misses` are the expectations that were not met; `facts` name what was seen to happen, such as
    `guard_fired`; `warnings` are slips that the original rules let pass. `declined` says,
    where a no is the right answer, whether it was given. Older records have no `effects`.
    """

    state: bool | None = None
    process: bool | None = None
    final: bool | None = None
    misses: tuple[Miss, ...] = ()
    facts: dict[str, bool] = {}
    warnings: tuple[str, ...] = ()
    effects: Effects | None = None
    declined: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether the run counts by the original definition: right state, right final text."""
        return not self.misses

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is wrong, a sentence for each miss."""
        return tuple(miss.sentence for miss in self.misses)


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

    `false_finals` counts early answers: those given while a need was unmet. `after_no` counts the
    requests after the first answer that says no. Older records say nothing about the `truth`, nor
    whether the scenario has `tools`: then it is taken to have them, unless it is the control.
    `turn` and `call_id` are where it was decided if that was no expectation: misses have their own.
    `models` are those of a chain that answered.
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
    truth: Truth = ""
    after_no: int = 0
    turn: int | None = None
    call_id: str = ""
    tools: bool = True
    models: tuple[str, ...] = ()

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
        return self.kind == "control"

    @property
    def kind(self) -> Kind:
        """What its scenario is about: rates of different kinds are never one."""
        if self.key.scenario == CONTROL:
            return "control"
        return "tool" if self.tools else "no_tools"


_DECODER: Final = msgspec.json.Decoder(Trial)


def parse_trial(record: str) -> Trial:
    """Read the record of a trial, also of a version that wrote `reasons` in place of misses."""
    if '"reasons"' not in record:
        return _DECODER.decode(record)
    plain = msgspec.json.decode(record)
    match plain:
        case {"score": {"reasons": [*reasons]} as score}:
            told = [{"check": reason} for reason in reasons]
            plain["score"] = {"misses": told} | score
        case _:
            pass
    return msgspec.convert(plain, Trial)


class Conduct(msgspec.Struct, frozen=True):
    """What some runs did and said, added up: of those whose side effects were judged.

    `silent` runs are wrong without a word; those of `false_success` are among them. `wrong` and
    `repeated` count side effects, `astray` the runs that have any of these, `after_no` the requests
    after a no.
    """

    runs: int = 0
    right: int = 0
    silent: int = 0
    false_success: int = 0
    wrong: int = 0
    repeated: int = 0
    astray: int = 0
    requests: int = 0
    tokens: int = 0
    after_no: int = 0

    @classmethod
    def of(cls, trial: Trial) -> "Conduct":
        """Count that of one run; nothing where it was not judged."""
        effects = trial.score.effects
        if effects is None or trial.status not in {"passed", "failed"}:
            return cls()
        return cls(
            runs=1,
            right=int(trial.ok),
            silent=int(trial.truth in {"silent", "false_success"}),
            false_success=int(trial.truth == "false_success"),
            wrong=effects.wrong,
            repeated=effects.repeated,
            astray=int(bool(effects.wrong or effects.repeated)),
            requests=len(trial.requests),
            tokens=trial.usage.total_tokens,
            after_no=trial.after_no,
        )

    def __add__(self, other: "Conduct") -> "Conduct":
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Conduct(*(one + another for one, another in zip(mine, theirs, strict=True)))

    @property
    def requests_per_run(self) -> float | None:
        """How many requests a run took."""
        return self.requests / self.runs if self.runs else None

    @property
    def tokens_per_run(self) -> float | None:
        """How many tokens a run took."""
        return self.tokens / self.runs if self.runs else None
