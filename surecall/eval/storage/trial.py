"""Trial records and sets of completed trials.

    Cell = model x profile x strategy          the unit of a recommendation
    Key  = Cell x scenario x trial             one conversation, run at most once

A trial is `passed` or `failed` when the model decided the result, `infra` when the endpoint, the
network, or the budget made it invalid, and `skipped` when the scenario does not apply.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, Literal, Self, TypeAlias

import msgspec

from surecall.values.types import JSON, Usage

Status = Literal["passed", "failed", "infra", "skipped"]
# Whether a run reported its result truthfully. `open`: a failure reported by an error or in the
# answer; `silent`: an unreported failure; `false_success`: a silent failure whose answer claims
# work that was not done. Blank: unknown (side effects were not checked, or the record is older).
Truth = Literal["", "right", "open", "silent", "false_success"]
# Kind of scenario. Only `tool` scenarios count toward the tool rate.
ScenarioKind = Literal["tool", "control", "no_tools"]
CONTROL: Final = "chat_only"


class Cell(msgspec.Struct, frozen=True, order=True):
    """One column of the matrix. `strategy` is raw, baseline, production, or an extended one."""

    model: str
    profile: str = "default"
    strategy: str = "production"


class Key(msgspec.Struct, frozen=True, order=True):
    """Key of one conversation in the matrix. Trial numbers start at one."""

    cell: Cell
    scenario: str
    trial: int


class AddableCounts(msgspec.Struct, frozen=True):
    """Counts that add field by field."""

    def __add__(self, other: Self) -> Self:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return type(self)(*(one + another for one, another in pairs))


class SideEffects(AddableCounts, frozen=True):
    """Number of side effects of a run: all, wrong, and repeated ones."""

    made: int = 0
    wrong: int = 0
    repeated: int = 0


class Miss(msgspec.Struct, frozen=True):
    """One unmet expectation.

    `check` has the same wording in every trial of a scenario, so misses can be counted by it;
    `got` is the actual value. `turn` (zero-based, as in the trace) and `call_id` locate the
    failure, if known. Older records store a single sentence, which becomes the `check`.
    """

    check: str
    expected: str = ""
    got: str = ""
    turn: int | None = None
    call_id: str = ""

    @property
    def sentence(self) -> str:
        """The miss as one sentence."""
        if not (self.expected or self.got):
            return self.check
        more = f": {self.expected}" if self.expected not in self.check else ""
        return f"expected that {self.check}{more}, got {self.got or 'nothing'}"


class Score(msgspec.Struct, frozen=True):
    """A scenario's score by part. A part that does not apply is None.

    `facts` are named observations such as `guard_fired`; `warnings` are slips that the original
    rules tolerate. `declined` tells whether the model declined, in scenarios where declining is
    the right answer. Older records have no `effects`.
    """

    state: bool | None = None
    process: bool | None = None
    final: bool | None = None
    misses: tuple[Miss, ...] = ()
    facts: dict[str, bool] = {}
    warnings: tuple[str, ...] = ()
    effects: SideEffects | None = None
    declined: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether the run passed by the original definition: correct state and final text."""
        return not self.misses

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for each miss."""
        return tuple(miss.sentence for miss in self.misses)


class ServedRequest(msgspec.Struct, frozen=True):
    """How one request of a trial was served. `build` is the build that the server reports."""

    turn: int
    latency_ms: int
    attempt: int
    finish_reason: str = ""
    provider: str = ""
    model: str = ""
    generation_id: str = ""
    cost: float | None = None
    build: str = ""


class FalseFinals(AddableCounts, frozen=True):
    """Number of premature answers, of runs with one, and of those runs that passed."""

    answers: int = 0
    runs: int = 0
    passed: int = 0

    @classmethod
    def of(cls, answers: int, *, passed: bool) -> "FalseFinals":
        """Return the counts of one run."""
        return cls(answers, 1, int(passed)) if answers else cls()


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One finished trial. `category` is blank exactly when it passed.

    `false_finals` counts premature answers: answers given while a need was unmet, and
    `unsupported_claims` answers that claim what no call did. `after_no` counts the requests after
    the first answer that declines. `turn` and `call_id` locate failures other than misses, which
    carry their own location. `models` lists the models of a fallback chain that
    answered. Older records lack `truth` and `tools`; their scenarios are assumed to have tools,
    except the control.
    """

    key: Key
    status: Status
    category: str = ""
    error: str = ""
    hint: str = ""
    http_status: int | None = None
    score: Score = Score()
    # Result of the first attempt alone: a retry after a blank reply must not hide it.
    first_ok: bool = False
    attempts: int = 1
    elapsed_ms: int = 0
    started_at: float = 0.0
    requests: tuple[ServedRequest, ...] = ()
    usage: Usage = Usage()
    assistant_text: str = ""
    draft: JSON = {}
    fired: tuple[str, ...] = ()
    retries: int = 0
    prompt_hash: str = ""
    false_finals: int = 0
    unsupported_claims: int = 0
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
        """The distinct server builds that the endpoint reported."""
        return tuple(dict.fromkeys(served.build for served in self.requests if served.build))

    @property
    def is_control(self) -> bool:
        """Whether the trial belongs to the control, which never counts toward the tool rate."""
        return self.kind == "control"

    @property
    def kind(self) -> ScenarioKind:
        """Kind of the scenario. Rates of different kinds are never combined."""
        if self.key.scenario == CONTROL:
            return "control"
        return "tool" if self.tools else "no_tools"


_DECODER: Final = msgspec.json.Decoder(Trial)


def parse_trial(record: str) -> Trial:
    """Parse a trial record, including older ones with `reasons` instead of misses."""
    if '"reasons"' not in record:
        return _DECODER.decode(record)
    plain = msgspec.json.decode(record)
    match plain:
        case {"score": {"reasons": [*reasons]} as score}:
            misses = [{"check": reason} for reason in reasons]
            plain["score"] = {"misses": misses} | score
        case _:
            pass
    return msgspec.convert(plain, Trial)


class BehaviorMetrics(AddableCounts, frozen=True):
    """Behavior metrics, summed over runs whose side effects were checked.

    `silent_wrong` counts silent failures and includes `false_success`. `wrong_effects` and
    `repeated_effects` count side effects, not runs.
    """

    runs: int = 0
    right: int = 0
    silent_wrong: int = 0
    false_success: int = 0
    wrong_effects: int = 0
    repeated_effects: int = 0
    runs_with_such_effects: int = 0
    requests_after_no: int = 0
    requests: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, trial: Trial) -> "BehaviorMetrics":
        """Return the metrics of one run; all zero if its side effects were not checked."""
        effects = trial.score.effects
        if effects is None or trial.status not in {"passed", "failed"}:
            return cls()
        return cls(
            runs=1,
            right=int(trial.ok),
            silent_wrong=int(trial.truth in {"silent", "false_success"}),
            false_success=int(trial.truth == "false_success"),
            wrong_effects=effects.wrong,
            repeated_effects=effects.repeated,
            runs_with_such_effects=int(bool(effects.wrong or effects.repeated)),
            requests_after_no=trial.after_no,
            requests=len(trial.requests),
            tokens=trial.usage.total_tokens,
        )

    @property
    def requests_per_run(self) -> float | None:
        """Mean number of requests per run."""
        return self.requests / self.runs if self.runs else None

    @property
    def tokens_per_run(self) -> float | None:
        """Mean number of tokens per run."""
        return self.tokens / self.runs if self.runs else None


class IntegerRanges:
    """A set of integers stored as ranges, compact when the numbers are mostly consecutive.

    Range `i` spans `firsts[i]` to `lasts[i]`. Ranges are ascending and never adjacent.
    """

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self.firsts: array[int] = array("q")
        self.lasts: array[int] = array("q")
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        """Add a number, extending or joining ranges."""
        if number in self:
            return
        at = bisect_left(self.firsts, number)
        follows = at > 0 and self.lasts[at - 1] == number - 1
        precedes = at < len(self.firsts) and self.firsts[at] == number + 1
        if follows and precedes:
            self.lasts[at - 1] = self.lasts[at]
            del self.firsts[at], self.lasts[at]
        elif follows:
            self.lasts[at - 1] = number
        elif precedes:
            self.firsts[at] = number
        else:
            self.firsts.insert(at, number)
            self.lasts.insert(at, number)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.firsts, number)
        return at > 0 and number <= self.lasts[at - 1]

    def count_up_to(self, last: int) -> int:
        """Return how many members are at most `last`."""
        ends = zip(self.firsts, self.lasts, strict=True)
        return sum(min(end, last) - start + 1 for start, end in ends if start <= last)

    def count_common(self, other: "IntegerRanges") -> int:
        """Return how many members both sets have."""
        total = mine = theirs = 0
        while mine < len(self.firsts) and theirs < len(other.firsts):
            first = max(self.firsts[mine], other.firsts[theirs])
            last = min(self.lasts[mine], other.lasts[theirs])
            total += max(0, last - first + 1)
            if self.lasts[mine] <= other.lasts[theirs]:
                mine += 1
            else:
                theirs += 1
        return total

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self.firsts, self.lasts, strict=True):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self.count_up_to(self.lasts[-1]) if self.lasts else 0

    def __eq__(self, other: object) -> bool:
        mine = (self.firsts, self.lasts)
        return isinstance(other, IntegerRanges) and mine == (other.firsts, other.lasts)

    __hash__ = None  # type: ignore[assignment]  # mutable


CellScenario: TypeAlias = tuple[Cell, str]


class CompletedTrials:
    """A compact set of trial keys.

    Trials of a scenario are mostly recorded in order, so a million keys need a handful of ranges.
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._ranges: dict[CellScenario, IntegerRanges] = {}
        for key in keys:
            self.add(key)

    def add(self, key: Key) -> None:
        """Add a key; adding it again has no effect."""
        self._ranges.setdefault((key.cell, key.scenario), IntegerRanges()).add(key.trial)

    def __contains__(self, key: Key) -> bool:
        ranges = self._ranges.get((key.cell, key.scenario))
        return ranges is not None and key.trial in ranges

    def count_between(self, cell_scenario: CellScenario, first: int, last: int) -> int:
        """Return how many trials of a cell and scenario are in `first` to `last`, inclusive."""
        ranges = self._ranges.get(cell_scenario)
        return 0 if ranges is None else ranges.count_up_to(last) - ranges.count_up_to(first - 1)

    def __len__(self) -> int:
        return sum(len(ranges) for ranges in self._ranges.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompletedTrials) and self._ranges == other._ranges

    __hash__ = None  # type: ignore[assignment]  # mutable
