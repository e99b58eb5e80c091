"""What a scenario expects of a run, and what becomes of it: parts of a score, never an exception.

    expect.effects(out, Need("refund", {"item_id": "I-2"}))    exactly these writes, each once
    expect.cannot(out, "is offline")                           a no, with the true reason

A run that failed is judged like any other: what it did before it failed counts as well.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from surecall.core.outcome import RunFailed, RunResult, ToolUseError
from surecall.eval.scenarios.answers import mentions, says_no
from surecall.eval.scenarios.misses import (
    answer_missed,
    around,
    bounded,
    call_in_words,
    last_turn,
    last_write,
    made_in_words,
    missed,
    nearest,
    need_in_words,
    shown,
    what_came,
)
from surecall.eval.scenarios.scenario import Made, calls_made
from surecall.eval.storage.trial import Effects, Miss, Score
from surecall.settings.contract import Need, holds
from surecall.values.types import ToolSpec

EFFECTS: Final = "exactly these effects are made"
DECLINED: Final = "the answer says why it cannot be done"
_QUOTES = "\"'`"


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

    def note(self, part: str, *misses: Miss, **facts: bool) -> bool:
        """Add to one part of the score; return whether nothing was missed."""
        met, before = not misses, getattr(self.score, part)
        changes = {part: met and before is not False, "misses": (*self.score.misses, *misses)}
        merged = self.score.facts | facts
        self.score = msgspec.structs.replace(self.score, **changes, facts=merged)
        return met

    def judge_answer(self, check: str, expected: str, *, met: bool, **facts: bool) -> bool:
        """Add what is expected of the final answer."""
        misses = () if met else (answer_missed(self.result, check, expected),)
        return self.note("final", *misses, **facts)


class Expect:
    """Expectations. One that is not met becomes a miss of the score; none of them raises."""

    def called(self, out: Heard, name: str, /, **arguments: Any) -> bool:
        """Expect that a tool was called with at least these arguments, and that it succeeded."""

        def fits(one: Made) -> bool:
            return one.name == name and one.arguments | arguments == one.arguments

        if any(one.ok and fits(one) for one in out.calls):
            return out.note("process")
        wanted = call_in_words(name, arguments)
        close = nearest(out.calls, name, fits)
        return out.note("process", _absent(out, f"{wanted} succeeds", wanted, name, close))

    def not_called(self, out: Heard, name: str, /) -> bool:
        """Expect that a tool was not called at all."""
        first = next((one for one in out.calls if one.name == name), None)
        if first is None:
            return out.note("process")
        got = made_in_words(first)
        expected = f"no call of {name}"
        return out.note("process", missed(f"there is {expected}", expected, got, first))

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
        return out.note("state", *ledger.misses(out))

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
        if met:
            return out.note("final")
        came = what_came(out.result)
        got = came if accepted else f"{came}, which was not accepted as an answer"
        expected = _either(reasons) or "a no"
        end = last_turn(out.result.run)
        return out.note("final", missed(DECLINED, expected, got, end))

    def text(self, out: Heard, wanted: str, *, lenient: bool = False) -> bool:
        """Expect a final answer; a lenient one ignores case, quotes and the last mark.

        Whether it was right to the letter is kept as the fact `text_exact`.
        """
        exact = out.text.strip() == wanted.strip()
        met = _loose(out.text) == _loose(wanted) if lenient else exact
        check = f"the answer is {shown(wanted)}"
        return out.judge_answer(check, shown(wanted), met=met, text_exact=exact)

    def contains(self, out: Heard, *wanted: str) -> bool:
        """Expect that the final answer contains a text, or one of several, whatever the case."""
        met = any(each.casefold() in out.text.casefold() for each in wanted)
        listed = _either(wanted)
        return out.judge_answer(f"the answer contains {listed}", listed, met=met)

    def lacks(self, out: Heard, unwanted: str) -> bool:
        """Expect that the final answer does not contain a text, whatever the case."""
        if unwanted.casefold() not in out.text.casefold():
            return out.note("final")
        expected = f"no {shown(unwanted)}"
        got, end = around(out.text, unwanted), last_turn(out.result.run)
        return out.note("final", missed(f"there is {expected} in the answer", expected, got, end))

    def state(self, out: Heard, actual: Any, wanted: Any) -> bool:
        """Expect that something the tools have changed is now as it should be."""
        if bool(actual == wanted):
            return out.note("state")
        got, expected = shown(actual), shown(wanted)
        if got == expected:  # such as a tuple and a list
            got, expected = repr(actual), repr(wanted)
        run = out.result.run
        at = last_write(run, out.calls) or last_turn(run)
        return out.note("state", missed(f"the state is {expected}", expected, got, at))

    def that(self, out: Heard, condition: object, reason: str) -> bool:
        """Expect anything else about the course of the run; `reason` says what is wrong."""
        return out.note("process", *(() if condition else (Miss(bounded(reason)),)))


expect = Expect()


class _Ledger:
    """Side effects, one after the other, held against those that are wanted."""

    def __init__(self, wanted: Sequence[Need], tools: Sequence[ToolSpec]) -> None:
        self.effects = Effects()
        self._listed = "; ".join(map(need_in_words, wanted))
        self._open = list(wanted)
        self._wrong: list[tuple[Made, str]] = []
        self._met: list[Need] = []
        self._meeting: list[Made] = []
        self._seen: list[Made] = []
        self._harmless = {tool.name for tool in tools if tool.read_only}
        self._idempotent = {tool.name for tool in tools if tool.idempotent}

    def enter(self, one: Made) -> None:
        if not (one.ok and one.result.executed) or one.name in self._harmless:
            return
        again = self._is_again(one)
        self._seen.append(one)
        need = next((need for need in self._open if _fits(need, one)), None)
        if need is not None:
            self._open.remove(need)
            self._met.append(need)
            self._meeting.append(one)
            self.effects += Effects(made=1)
        elif again and one.name not in self._idempotent:
            self.effects += Effects(made=1, repeated=1)
            self._wrong.append((one, f"{made_in_words(one)} once more"))
        elif not again:
            self.effects += Effects(made=1, wrong=1)
            self._wrong.append((one, made_in_words(one)))

    def misses(self, out: Heard) -> Iterator[Miss]:
        """Return what was done beside the wanted effects, then what was not done."""
        check = EFFECTS if self._listed else "nothing is changed"
        for one, got in self._wrong:
            yield missed(check, self._listed or "nothing", got, one)
        others = [one for one in out.calls if one not in self._meeting]
        for need in self._open:
            close = nearest(others, need.tool, partial(_fits, need))
            yield _absent(out, check, need_in_words(need), need.tool, close)

    def _is_again(self, one: Made) -> bool:
        """Whether it repeats a call that was made, or fits a need that is met already."""
        equal = any((one.name, one.arguments) == (old.name, old.arguments) for old in self._seen)
        return equal or any(_fits(need, one) for need in self._met)


def _absent(out: Heard, check: str, wanted: str, name: str, close: Made | None) -> Miss:
    """Blame the call that came nearest; without any, the turn that ended the run."""
    if close is None:
        which = "other call" if any(one.name == name for one in out.calls) else "call"
        return missed(check, wanted, f"no {which} of {name}", last_turn(out.result.run))
    return missed(check, wanted, made_in_words(close), close)


def _fits(need: Need, one: Made) -> bool:
    return need.tool == one.name and holds(one.arguments, need.arguments)


def _either(texts: Sequence[str]) -> str:
    return " or ".join(map(shown, texts))


def _loose(text: str) -> str:
    return text.strip().strip(_QUOTES).strip().rstrip(".!").casefold()
