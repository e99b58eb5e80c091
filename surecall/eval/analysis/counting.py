"""What the trials of one scenario in one cell add up to, whatever their order."""

from array import array
from collections import Counter
from typing import Final

from surecall.eval.analysis.causes import CauseTally, causes_of
from surecall.eval.analysis.figures import Times
from surecall.eval.analysis.stats import Rate
from surecall.eval.storage.trial import Conduct, FalseFinals, Kind, Status, Trial
from surecall.values.types import Usage

PARTS: Final = ("state", "process", "final")


class Count:
    """What the trials of one scenario in one cell add up to."""

    def __init__(self) -> None:
        self.statuses: Counter[Status] = Counter()
        self.kind: Kind = "tool"
        self.first_ok = 0
        self.parts: Counter[tuple[str, bool]] = Counter()
        self.facts: Counter[tuple[str, bool]] = Counter()
        self.judged_ms = Times()
        self.request_ms = Times()
        self.usage = Usage()
        self.costs = array("d")
        self.retries = 0
        self.warned = 0
        self.failures: Counter[tuple[str, str, bool]] = Counter()
        self.fired: Counter[str] = Counter()
        self.fired_passed: Counter[str] = Counter()
        self.false_finals = FalseFinals()
        self.conduct = Conduct()
        self.builds: Counter[str] = Counter()
        self.causes = CauseTally()

    def add(self, trial: Trial) -> None:
        """Count one more trial."""
        self.statuses[trial.status] += 1
        self.kind = trial.kind
        if trial.status == "skipped":
            return
        self._add_effort(trial)
        if trial.status != "infra":
            self._add_score(trial)
        fired = set(trial.fired)
        self.fired.update(fired)
        if trial.ok:
            self.fired_passed.update(fired)
        else:
            provider = trial.requests[-1].provider if trial.requests else ""
            self.failures[trial.category, provider, trial.status == "infra"] += 1
            self.causes.add(trial.key, causes_of(trial))

    def _add_effort(self, trial: Trial) -> None:
        self.request_ms.add(*(request.latency_ms for request in trial.requests))
        self.usage += trial.usage
        if trial.usage.cost is not None:
            self.costs.append(trial.usage.cost)
        self.retries += trial.retries
        self.false_finals += FalseFinals.of(trial.false_finals, passed=trial.ok)
        self.builds.update(trial.builds)

    def _add_score(self, trial: Trial) -> None:
        self.judged_ms.add(trial.elapsed_ms)
        self.first_ok += trial.first_ok
        self.conduct += Conduct.of(trial)
        self.warned += bool(trial.score.warnings)
        self.facts.update(trial.score.facts.items())
        for name in PARTS:
            part: bool | None = getattr(trial.score, name)
            if part is not None:
                self.parts[name, part] += 1

    @property
    def judged(self) -> Rate:
        """The runs that passed, of those that say something about the model."""
        passed = self.statuses["passed"]
        return Rate(passed, passed + self.statuses["failed"])

    @property
    def end_to_end(self) -> Rate:
        """The runs that passed, of all that ran."""
        return self.judged + Rate(0, self.statuses["infra"])

    @property
    def first_attempt(self) -> Rate:
        """The runs that passed without an extra attempt."""
        return Rate(self.first_ok, self.judged.n)

    def part(self, name: str) -> Rate:
        """Return how often a part of the score was right."""
        return _share(self.parts, name)

    def fact(self, name: str) -> Rate:
        """Return how often something was seen to happen."""
        return _share(self.facts, name)


def _share(marks: Counter[tuple[str, bool]], name: str) -> Rate:
    return Rate(marks[name, True], marks[name, True] + marks[name, False])
