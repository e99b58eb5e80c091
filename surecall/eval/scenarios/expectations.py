"""Expectations of a scenario about calls, state, and the final answer.

    expect.effects(out, Need("refund", {"item_id": "I-2"}))    exactly these writes, each once
    expect.cannot(out, "is offline")                           a refusal with the true reason

An expectation that is not met lowers the score; it never raises. A failed run is judged like any
other: what it did before the failure counts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from surecall.core.outcome import RunFailed, RunResult, ToolUseError
from surecall.core.state import Run
from surecall.eval.scenarios.scenario import AnsweredCall, answered_calls
from surecall.eval.storage.trial import Miss, Score, SideEffects
from surecall.settings.contract import From, Need, json_contains
from surecall.values.nesting import TooDeep, encode_json
from surecall.values.text import truncate
from surecall.values.types import JSON, ToolSpec
from surecall.wire.chat_format import encode

# Phrases that show that an answer admits failure.
#
# The list is short on purpose: "nothing else was changed" and "no problem" are not refusals.

_REFUSAL_FIRST_WORDS: Final = frozenset({"no", "sorry", "unfortunately", "cannot"})
_NOT_REFUSALS: Final = (
    "no problem",
    "there is no need",
    "there is no further",
    "there is no other",
)
_REFUSAL_PHRASES: Final = (
    "cannot",
    "can not",
    "can't",
    "could not",
    "couldn't",
    "failed",
    "impossible",
    "no such",
    "not able to",
    "not available",
    "not found",
    "not possible",
    "there is no",
    "unable",
    "unavailable",
    "unfortunately",
)


def admits_failure(text: str) -> bool:
    """Whether an answer admits that the request was not fulfilled."""
    plain = _normalize_text(text)
    for phrase in _NOT_REFUSALS:
        plain = plain.replace(phrase, "")
    first = plain.replace(",", " ").replace(".", " ").replace(":", " ").split()[:1]
    return bool(_REFUSAL_FIRST_WORDS.intersection(first)) or mentions(plain, _REFUSAL_PHRASES)


def mentions(text: str, words: Iterable[str]) -> bool:
    """Whether a text contains one of some words, ignoring case."""
    plain = _normalize_text(text)
    return any(word.casefold() in plain for word in words)


def _normalize_text(text: str) -> str:
    """Return a text with case, whitespace, and apostrophes normalized."""
    return " ".join(text.replace("\u2019", "'").casefold().split())


# A miss describes an expectation that was not met, with the turn that decided it.
#
# A wrong call decides in its own turn. A missing call is decided by the turn that ended the run, or
# by an unsuccessful attempt at it. A failed call that succeeded later decides nothing.

MAX_MISS_CHARS: Final = 160


def make_miss(check: str, expected: str, got: str, decided_by: AnsweredCall | int | None) -> Miss:
    """Return a miss; `decided_by` is the call or the turn that decided it."""
    turn, call_id = (
        (decided_by.turn, decided_by.result.call_id)
        if isinstance(decided_by, AnsweredCall)
        else (decided_by, "")
    )
    return Miss(shorten(check), shorten(expected), shorten(got), turn, call_id)


def answer_miss(result: RunResult, check: str, expected: str) -> Miss:
    """Return a miss about the final answer."""
    return make_miss(check, expected, describe_answer(result), last_turn(result.run))


def describe_answer(result: RunResult) -> str:
    """Describe the final answer."""
    if result.assistant_text.strip():
        return format_value(result.assistant_text)
    calls = result.run.replies[-1].calls if result.run.replies else ()
    if calls:
        return f"{format_call(calls[0].name, calls[0].arguments)} instead of an answer"
    return "a blank answer" if result.run.replies else "no reply"


def last_turn(run: Run) -> int | None:
    """Return the turn that ended a run; None if the model never answered."""
    return run.turn_count - 1 if run.turn_count else None


def last_write(run: Run, calls: Iterable[AnsweredCall]) -> AnsweredCall | None:
    """Return the last call that may have changed something."""
    looks = {tool.name for tool in run.tools if tool.read_only}
    writes = [one for one in calls if one.ok and one.result.executed and one.name not in looks]
    return writes[-1] if writes else None


def closest_call(
    calls: Sequence[AnsweredCall], name: str, fits: Callable[[AnsweredCall], bool]
) -> AnsweredCall | None:
    """Return the call that is closest to a missing one.

    That is the same call if it failed, or else the last call of that tool, since it superseded
    earlier failures.
    """
    own = [one for one in calls if one.name == name]
    closest = [one for one in own if fits(one)] or own
    return closest[-1] if closest else None


def format_answered_call(answered: AnsweredCall) -> str:
    """Format a call, with its error codes if it failed."""
    words = format_call(answered.name, answered.arguments)
    return (
        words
        if answered.ok
        else f"{words}, which failed with {', '.join(answered.result.error_codes)}"
    )


def format_need(need: Need) -> str:
    """Format the call that a need requires."""
    return format_call(need.tool, need.arguments | need.sources)


def format_call(name: str, arguments: JSON) -> str:
    """Format a call as in Python."""
    parts = (f"{key}={_format_argument(value)}" for key, value in arguments.items())
    return f"{shorten(name)}({shorten(', '.join(parts))})"


def _format_argument(value: Any) -> str:
    return f"from {value}" if isinstance(value, From) else format_value(value)


def format_value(value: Any) -> str:
    """Format a value on one line, as JSON if possible."""
    try:
        return shorten(encode_json(value, encode).decode())
    except TooDeep as error:  # `repr` would recurse as well
        return f"({error})"
    except (TypeError, ValueError, OverflowError):
        return shorten(repr(value))


def excerpt_around(text: str, part: str) -> str:
    """Return the part of a text around another text, ignoring case."""
    begin = max(text.casefold().find(part.casefold()) - 60, 0)
    return ("…" if begin else "") + format_value(text[begin : begin + MAX_MISS_CHARS])


def shorten(text: str) -> str:
    """Shorten a text, marking the cut with an ellipsis."""
    return truncate(text, MAX_MISS_CHARS)


EFFECTS_CHECK: Final = "exactly these effects are made"
DECLINED_CHECK: Final = "the answer says why it cannot be done"


class ConversationResult:
    """The result of one `run(…)` in a scenario, and its score so far.

    `failure` is the reason why the run ended without an answer, or None.
    """

    def __init__(self, result: RunResult, failure: RunFailed | None = None) -> None:
        self.result = result
        self.failure = failure
        self.calls = answered_calls(result.run)
        self.score = Score()

    @property
    def text(self) -> str:
        """The final answer; for a failed run, the latest text."""
        return self.result.assistant_text

    @property
    def history(self) -> list[Any]:
        """The conversation, to pass to the next `run`."""
        return self.result.history

    def add_to_score(self, part: str, *misses: Miss, **facts: bool) -> bool:
        """Add misses and facts to one part of the score; return whether there were no misses."""
        met, before = not misses, getattr(self.score, part)
        changes = {part: met and before is not False, "misses": (*self.score.misses, *misses)}
        merged = self.score.facts | facts
        self.score = msgspec.structs.replace(self.score, **changes, facts=merged)
        return met

    def judge_answer(self, check: str, expected: str, *, met: bool, **facts: bool) -> bool:
        """Add an expectation of the final answer to the score; return whether it is met."""
        misses = () if met else (answer_miss(self.result, check, expected),)
        return self.add_to_score("final", *misses, **facts)


class Expect:
    """The expectations. One that is not met becomes a miss of the score; none raises."""

    def called(self, out: ConversationResult, name: str, /, **arguments: Any) -> bool:
        """Expect a successful call of a tool with at least these arguments."""

        def fits(one: AnsweredCall) -> bool:
            return one.name == name and one.arguments | arguments == one.arguments

        if any(one.ok and fits(one) for one in out.calls):
            return out.add_to_score("process")
        wanted = format_call(name, arguments)
        close = closest_call(out.calls, name, fits)
        return out.add_to_score(
            "process", _absence_miss(out, f"{wanted} succeeds", wanted, name, close)
        )

    def not_called(self, out: ConversationResult, name: str, /) -> bool:
        """Expect no call of a tool."""
        first = next((one for one in out.calls if one.name == name), None)
        if first is None:
            return out.add_to_score("process")
        got = format_answered_call(first)
        expected = f"no call of {name}"
        return out.add_to_score("process", make_miss(f"there is {expected}", expected, got, first))

    def effects(self, out: ConversationResult, *wanted: Need | str) -> bool:
        """Expect exactly these side effects: each call succeeds once.

        Calls of `read_only` tools are ignored, and calls of an `idempotent` tool may be repeated.
        Every other successful call counts as wrong or repeated.
        """
        needs = [Need(item) if isinstance(item, str) else item for item in wanted]
        ledger = _EffectMatcher(needs, out.result.run.tools)
        for one in out.calls:
            ledger.add_call(one)
        before = out.score.effects or SideEffects()
        out.score = msgspec.structs.replace(out.score, effects=before + ledger.effects)
        return out.add_to_score("state", *ledger.misses(out))

    def cannot(self, out: ConversationResult, *reasons: str) -> bool:
        """Expect an answer that refuses with one of these reasons, or with any if none is given.

        A run that gave up with such an answer counts; one whose refusal was rejected does not.
        """
        # Text next to a call that a limit stopped is not an answer, nor is a premature answer.
        gave_up = isinstance(out.failure, ToolUseError) and not out.result.false_finals
        accepted = out.failure is None or gave_up
        met = accepted and (mentions(out.text, reasons) if reasons else admits_failure(out.text))
        out.score = msgspec.structs.replace(out.score, declined=met)
        if met:
            return out.add_to_score("final")
        came = describe_answer(out.result)
        got = came if accepted else f"{came}, which was not accepted as an answer"
        expected = _join_alternatives(reasons) or "a no"
        end = last_turn(out.result.run)
        return out.add_to_score("final", make_miss(DECLINED_CHECK, expected, got, end))

    def text(self, out: ConversationResult, wanted: str, *, lenient: bool = False) -> bool:
        """Expect a final answer; `lenient` ignores case, quotes, and the last punctuation mark.

        Whether it matched exactly is recorded as the fact `text_exact`.
        """
        exact = out.text.strip() == wanted.strip()
        met = (
            _without_quotes_and_case(out.text) == _without_quotes_and_case(wanted)
            if lenient
            else exact
        )
        check = f"the answer is {format_value(wanted)}"
        return out.judge_answer(check, format_value(wanted), met=met, text_exact=exact)

    def contains(self, out: ConversationResult, *wanted: str) -> bool:
        """Expect that the final answer contains one of some texts, ignoring case."""
        met = any(each.casefold() in out.text.casefold() for each in wanted)
        listed = _join_alternatives(wanted)
        return out.judge_answer(f"the answer contains {listed}", listed, met=met)

    def lacks(self, out: ConversationResult, unwanted: str) -> bool:
        """Expect that the final answer does not contain a text, ignoring case."""
        if unwanted.casefold() not in out.text.casefold():
            return out.add_to_score("final")
        expected = f"no {format_value(unwanted)}"
        got, end = excerpt_around(out.text, unwanted), last_turn(out.result.run)
        return out.add_to_score(
            "final", make_miss(f"there is {expected} in the answer", expected, got, end)
        )

    def state(self, out: ConversationResult, actual: Any, wanted: Any) -> bool:
        """Expect that state changed by tools equals a value."""
        if bool(actual == wanted):
            return out.add_to_score("state")
        got, expected = format_value(actual), format_value(wanted)
        if got == expected:  # such as a tuple and a list
            got, expected = repr(actual), repr(wanted)
        run = out.result.run
        at = last_write(run, out.calls) or last_turn(run)
        return out.add_to_score("state", make_miss(f"the state is {expected}", expected, got, at))

    def that(self, out: ConversationResult, condition: object, reason: str) -> bool:
        """Expect any other condition of the run; `reason` describes the failure."""
        return out.add_to_score("process", *(() if condition else (Miss(shorten(reason)),)))


expect = Expect()


class _EffectMatcher:
    """Matches the successful writes of a run with the wanted side effects."""

    def __init__(self, wanted: Sequence[Need], tools: Sequence[ToolSpec]) -> None:
        self.effects = SideEffects()
        self._wanted_text = "; ".join(map(format_need, wanted))
        self._unmet = list(wanted)
        self._wrong: list[tuple[AnsweredCall, str]] = []
        self._met_needs: list[Need] = []
        self._matching_calls: list[AnsweredCall] = []
        self._writes: list[AnsweredCall] = []
        self._read_only = {tool.name for tool in tools if tool.read_only}
        self._idempotent = {tool.name for tool in tools if tool.idempotent}

    def add_call(self, answered: AnsweredCall) -> None:
        """Match a successful write with a need that is not met yet; others are unwanted."""
        if not (answered.ok and answered.result.executed) or answered.name in self._read_only:
            return
        again = self._is_repeat(answered)
        self._writes.append(answered)
        need = next((need for need in self._unmet if _satisfies(need, answered)), None)
        if need is not None:
            self._unmet.remove(need)
            self._met_needs.append(need)
            self._matching_calls.append(answered)
            self.effects += SideEffects(made=1)
        elif again and answered.name not in self._idempotent:
            self.effects += SideEffects(made=1, repeated=1)
            self._wrong.append((answered, f"{format_answered_call(answered)} once more"))
        elif not again:
            self.effects += SideEffects(made=1, wrong=1)
            self._wrong.append((answered, format_answered_call(answered)))

    def misses(self, out: ConversationResult) -> Iterator[Miss]:
        """Yield a miss for each unwanted write, then one for each missing write."""
        check = EFFECTS_CHECK if self._wanted_text else "nothing is changed"
        for one, got in self._wrong:
            yield make_miss(check, self._wanted_text or "nothing", got, one)
        others = [one for one in out.calls if one not in self._matching_calls]
        for need in self._unmet:
            close = closest_call(others, need.tool, partial(_satisfies, need))
            yield _absence_miss(out, check, format_need(need), need.tool, close)

    def _is_repeat(self, answered: AnsweredCall) -> bool:
        """Whether a call repeats an earlier one, or matches a need that is already met."""
        equal = any(
            (answered.name, answered.arguments) == (old.name, old.arguments) for old in self._writes
        )
        return equal or any(_satisfies(need, answered) for need in self._met_needs)


def _absence_miss(
    out: ConversationResult, check: str, wanted: str, name: str, closest: AnsweredCall | None
) -> Miss:
    """Return a miss for a missing call, decided by the closest call or the last turn."""
    if closest is None:
        which = "other call" if any(one.name == name for one in out.calls) else "call"
        return make_miss(check, wanted, f"no {which} of {name}", last_turn(out.result.run))
    return make_miss(check, wanted, format_answered_call(closest), closest)


def _satisfies(need: Need, answered: AnsweredCall) -> bool:
    """Whether a call is the one that a need requires."""
    return need.tool == answered.name and json_contains(answered.arguments, need.arguments)


def _join_alternatives(texts: Sequence[str]) -> str:
    return " or ".join(map(format_value, texts))


def _without_quotes_and_case(text: str) -> str:
    return text.strip().strip("\"'`").strip().rstrip(".!").casefold()
