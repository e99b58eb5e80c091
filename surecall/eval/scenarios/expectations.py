"""What a scenario expects of a run, and what becomes of it: parts of a score, never an exception.

    expect.effects(out, Need("refund", {"item_id": "I-2"}))    exactly these writes, each once
    expect.cannot(out, "is offline")                           a no, with the true reason

A run that failed is judged like any other: what it did before it failed counts as well.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from surecall.core.outcome import RunFailed, RunResult, ToolUseError
from surecall.eval.scenarios.answers import mentions, says_no
from surecall.eval.scenarios.scenario import Made, calls_made
from surecall.eval.storage.trial import Effects, Miss, Score
from surecall.settings.contract import Need, holds
from surecall.values.types import ToolSpec
from surecall.wire.messages import encode

_QUOTES = "\"'`"
_SHOWN = 120


class Heard:
    """The result of one `run(…)` in a scenario, and what was expected of it.

    `failure` is why the run ended without an answer, None if it has one.
    """

    def __init__(self, result: RunResult, failure: RunFailed | None = None) -> None:
        self.result = result
        self.failure = failure
        self.calls = calls_made(result.run)
        self.score = Score()

    @property
    def text(self) -> str:
        """The final answer; the newest words of a run that failed."""
        return self.result.assistant_text

    @property
    def history(self) -> list[Any]:
        """The conversation, to be handed to the next `run`."""
        return self.result.history

    def note(self, part: str, reason: str, *, met: bool, **facts: bool) -> bool:
        """Add to one part of the score; what is not met gives a reason."""
        before = getattr(self.score, part)
        misses = self.score.misses if met else (*self.score.misses, Miss(reason))
        changes = {part: met and before is not False, "misses": misses}
        merged = self.score.facts | facts
        self.score = msgspec.structs.replace(self.score, **changes, facts=merged)
        return met


class Expect:
    """Expectations. One that is not met becomes a reason of the score; none of them raises."""

    def called(self, out: Heard, name: str, /, **arguments: Any) -> bool:
        """Expect that a tool was called with at least these arguments, and that it succeeded."""
        met = any(
            one.name == name and one.ok and one.arguments | arguments == one.arguments
            for one in out.calls
        )
        wanted = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        reason = f"{name}({wanted[:_SHOWN]}) was not called with success"
        return out.note("process", reason, met=met)

    def not_called(self, out: Heard, name: str, /) -> bool:
        """Expect that a tool was not called at all."""
        met = all(one.name != name for one in out.calls)
        return out.note("process", f"{name} was called", met=met)

    def effects(self, out: Heard, *wanted: Need | str) -> bool:
        """Expect exactly these side effects, each once: calls that succeeded and that matter.

        Calls of tools that are `read_only` do not matter. Of an `idempotent` tool the same call may
        be made again. Every other one beside these is counted as wrong or as repeated.
        """
        needs = [Need(item) if isinstance(item, str) else item for item in wanted]
        ledger = _Ledger(needs, out.result.run.tools)
        for one in out.calls:
            ledger.enter(one)
        before = out.score.effects or Effects()
        out.score = msgspec.structs.replace(out.score, effects=before + ledger.effects)
        reasons = [*ledger.remarks, *(f"not done: {need}" for need in ledger.open)]
        for reason in reasons:
            out.note("state", reason[:_SHOWN], met=False)
        return not reasons and out.note("state", "", met=True)

    def cannot(self, out: Heard, *reasons: str) -> bool:
        """Expect an answer that says why it cannot be done: one of these reasons is in it.

        Without a reason, any no will do. A run may also fail with it; one whose no was not accepted
        did not end with it.
        """
        # Words beside a call that a limit stopped are no end, and neither is an early answer.
        gave_up = isinstance(out.failure, ToolUseError) and not out.result.false_finals
        accepted = out.failure is None or gave_up
        met = accepted and (mentions(out.text, reasons) if reasons else says_no(out.text))
        out.score = msgspec.structs.replace(out.score, declined=met)
        said = f"the answer does not say why it cannot be done: {out.text[:_SHOWN]!r}"
        return out.note("final", said if accepted else "the answer was not accepted", met=met)

    def text(self, out: Heard, wanted: str, *, lenient: bool = False) -> bool:
        """Expect a final answer; a lenient one ignores case, quotes and the last mark.

        Whether it was right to the letter is kept as the fact `text_exact`.
        """
        exact = out.text.strip() == wanted.strip()
        met = _loose(out.text) == _loose(wanted) if lenient else exact
        reason = f"the answer is {out.text[:_SHOWN]!r}, not {wanted[:_SHOWN]!r}"
        return out.note("final", reason, met=met, text_exact=exact)

    def contains(self, out: Heard, *wanted: str) -> bool:
        """Expect that the final answer contains a text, or one of several, whatever the case."""
        met = any(each.casefold() in out.text.casefold() for each in wanted)
        listed = " or ".join(f"{each[:_SHOWN]!r}" for each in wanted)
        return out.note("final", f"the answer does not contain {listed}", met=met)

    def lacks(self, out: Heard, unwanted: str) -> bool:
        """Expect that the final answer does not contain a text, whatever the case."""
        met = unwanted.casefold() not in out.text.casefold()
        return out.note("final", f"the answer contains {unwanted[:_SHOWN]!r}", met=met)

    def state(self, out: Heard, actual: Any, wanted: Any) -> bool:
        """Expect that something the tools have changed is now as it should be."""
        reason = f"the state is {actual!r:.{_SHOWN}}, not {wanted!r:.{_SHOWN}}"
        return out.note("state", reason, met=bool(actual == wanted))

    def that(self, out: Heard, condition: object, reason: str) -> bool:
        """Expect anything else about the course of the run."""
        return out.note("process", reason, met=bool(condition))


expect = Expect()


class _Ledger:
    """Side effects, one after the other, held against those that are wanted."""

    def __init__(self, wanted: Sequence[Need], tools: Sequence[ToolSpec]) -> None:
        self.open = list(wanted)
        self.effects = Effects()
        self.remarks: list[str] = []
        self._met: list[Need] = []
        self._seen: list[Made] = []
        self._harmless = {tool.name for tool in tools if tool.read_only}
        self._idempotent = {tool.name for tool in tools if tool.idempotent}

    def enter(self, one: Made) -> None:
        if not (one.ok and one.result.executed) or one.name in self._harmless:
            return
        again = self._is_again(one)
        self._seen.append(one)
        need = next((need for need in self.open if _fits(need, one)), None)
        if need is not None:
            self.open.remove(need)
            self._met.append(need)
            self.effects += Effects(made=1)
        elif again and one.name not in self._idempotent:
            self.effects += Effects(made=1, repeated=1)
            self.remarks.append(f"done once more: {_shown(one)}")
        elif not again:
            self.effects += Effects(made=1, wrong=1)
            self.remarks.append(f"wrongly done: {_shown(one)}")

    def _is_again(self, one: Made) -> bool:
        """Whether it repeats a call that was made, or fits a need that is met already."""
        equal = any((one.name, one.arguments) == (old.name, old.arguments) for old in self._seen)
        return equal or any(_fits(need, one) for need in self._met)


def _fits(need: Need, one: Made) -> bool:
    return need.tool == one.name and holds(one.arguments, need.arguments)


def _shown(one: Made) -> str:
    return f"{one.name} {encode(one.arguments).decode()}"


def _loose(text: str) -> str:
    return text.strip().strip(_QUOTES).strip().rstrip(".!").casefold()
