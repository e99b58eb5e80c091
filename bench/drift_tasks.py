"""What is kept of a run: whose it was, what it came to, and which rules its requests broke."""

from typing import Final, NamedTuple

from surecall.simulator.demo_tasks import DemoTask, RecordedCall, Verdict, judge_run

# Its rules are those of everybody: who breaks them has not met an unknown provider.
_EVERYBODY: Final = "sim/strict-common"
_STRICT: Final = "sim/strict-"


class Run(NamedTuple):
    """What came of one conversation."""

    persona: str
    verdict: Verdict
    reason: str
    violations: tuple[str, ...] = ()
    bent: bool = False

    @property
    def broke_a_rule(self) -> bool:
        """Whether a request was illegal, for another reason than a rule that nobody knows."""
        is_unknown = self.persona.startswith(_STRICT) and self.persona != _EVERYBODY
        return bool(self.violations) and not is_unknown


def run_of(
    persona: str, task: DemoTask, made: list[RecordedCall], answer: str | BaseException
) -> Run:
    """Judge a run of a persona."""
    judgement = judge_run(task, made, answer)
    return Run(persona, judgement.verdict, judgement.reason)
