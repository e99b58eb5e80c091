"""Doubtful calls: a call that came as text runs only if it is surely the model's own.

    a call in text ─► every rule of `text_call_rules` holds ─► it runs
                   └► one does not ─► the text stays as it is, and the model is asked

A structured call is the model's by its form. A call in text is a claim: the same words may be
quoted from a file, weighed in a thought or told as an example. What each rule demands is said in
`ToolCallingConfig.text_call_rules`. The model is asked at most once in a turn and twice in a run;
then its text is what it said. Nothing is remembered: claims and questions are in the transcript.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec

from surecall.core.state import TEXT_CALL, Run
from surecall.parsing.entities import without_entities
from surecall.settings.config import ToolCallingConfig
from surecall.values.types import (
    UNMATCHED_RESULT,
    Assistant,
    Claim,
    Message,
    Plan,
    ToolResult,
    User,
    is_blank,
)
from surecall.wire.call_styles import TextCallRule
from surecall.wire.content_parts import text_of
from surecall.wire.messages import decode
from surecall.wire.text_calls import TextReading

_MOST_QUESTIONS = 2
_MOST_NAMES = 1_000
# Quoting changes blanks, quotes, escapes and the marks at the beginning of lines.
_BLANK = " \t\r\n\v\f\xa0\xad\u200b\u200c\u200d\u2028\u2029\u202f\u2060\u3000\ufeff"
_FOLDED = dict.fromkeys(map(ord, _BLANK + "\"'`\\,:;>|*_-~#+%“”‘’«»„"))  # noqa: RUF001
_ESCAPED = re.compile(r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrt])")
_MOST_LAYERS = 8
# A text that is shorter says nothing about where it is from.
_TELLING = 3


def settled(reading: TextReading, plan: Plan, config: ToolCallingConfig) -> TextReading:
    """Return the reading with its calls if all are sure; else as text, with what is doubtful."""
    if not reading.asked and not reading.claims:
        return reading
    claims = _doubt(reading, plan, config)
    if not claims:
        return msgspec.structs.replace(reading, claims=()) if reading.claims else reading
    return TextReading(reading.unlifted, reading.unlifted, reading.unlifted_fired, claims=claims)


def _doubt(reading: TextReading, plan: Plan, config: ToolCallingConfig) -> tuple[Claim, ...]:
    rules = config.endpoint.text_call_rules
    judge = _Judge(reading, plan, config)
    claims = [
        claim
        for claim in reading.claims
        # What is nothing but a quotation may be an answer.
        if claim.rule in rules and not (claim.alone and judge.is_told(reading.text))
    ]
    if reading.apparent and judge.is_told(reading.apparent):
        return ()
    alone = bool(reading.names) and is_blank(text_of(reading.message.get("content")))
    for name, words in zip(reading.names, reading.words, strict=True):
        broken = (rule for rule in rules if not judge.holds(rule, name, words))
        claims += [Claim(name, rule, alone and rule != "own_words") for rule in islice(broken, 1)]
    return tuple(claims)


class _Judge:
    """Says whether a rule holds for a call of one reply."""

    def __init__(self, reading: TextReading, plan: Plan, config: ToolCallingConfig) -> None:
        self._reading = reading
        self._plan = plan
        self._native = config.call_protocol == "native"

    def holds(self, rule: TextCallRule, name: str, words: str) -> bool:
        match rule:
            case "whole":
                return not self._reading.spare
            case "marked":
                return True  # what is not marked is no call here, but may be a claim
            case "own_words":
                return not self.is_told(words) and not self._is_retold(name)
            case "last_words":
                return not self._reading.followed
            case "only_way":
                # Where text is the agreed way of calling, an earlier call means nothing.
                return not (self._native and self._calls_natively)
            case "not_destructive":  # pragma: no branch  # a closed union
                return name not in self._destructive

    def is_told(self, words: str) -> bool:
        """Whether others used these words in this conversation."""
        return _folded(words) in self._told

    @cached_property
    def _told(self) -> str:
        """What others said in this conversation: users, and tools in their results."""
        return "\0".join(map(_folded, _heard_texts(self._plan.messages)))

    def _is_retold(self, name: str) -> bool:
        """Whether one result of a tool holds all that this call says, in whatever form."""
        told = [part for part in self._said[name] if len(part) >= _TELLING]
        return bool(told) and any(
            _folded(name) in text and all(part in text for part in told) for text in self._results
        )

    @cached_property
    def _said(self) -> dict[str, list[str]]:
        """The lines of all texts in the arguments, by the name of the tool."""
        lines: dict[str, list[str]] = {}
        for name, arguments in self._reading.asked:
            texts = _leaves(arguments) if isinstance(arguments, dict) else iter([str(arguments)])
            folded = (_folded(line) for text in texts for line in text.splitlines())
            lines.setdefault(name, []).extend(folded)
        return lines

    @cached_property
    def _results(self) -> list[str]:
        contents = filter(None, map(_tool_output, self._plan.messages))
        return [_folded("\n".join(_leaves(_data(content)))) for content in contents]

    @cached_property
    def _calls_natively(self) -> bool:
        start, end = self._plan.foreign
        own = (*self._plan.messages[:start], *self._plan.messages[end:])
        said = (message for message in own if isinstance(message, Assistant))
        made = (call for message in said for call in (*message.calls, *message.dropped))
        return any(not call.from_text for call in made)

    @cached_property
    def _destructive(self) -> set[str]:
        return {spec.name for spec in self._plan.tools if spec.destructive}


def question(run: Run, said: Assistant) -> Message | None:
    """Return what the model is asked about its doubtful calls, if it has not been asked enough."""
    asked = sum(isinstance(item, User) and item.rung == TEXT_CALL for item in run.own)
    if not said.claims or asked >= _MOST_QUESTIONS:
        return None
    names = ", ".join(dict.fromkeys(claim.name[:64] for claim in said.claims if claim.name))
    text = (
        f"You wrote a call of {names or 'a tool'} as text, and it was not run. If you mean it, "
        "make the call now, and nothing after it. If you only quoted it, answer without the call."
    )
    if not names:
        text += f" The tools are called: {', '.join(spec.name for spec in run.tools)[:_MOST_NAMES]}"
    return User(text, nudge=True, rung=TEXT_CALL)


def _heard_texts(messages: tuple[Message, ...]) -> Iterator[str]:
    """Go through what others said: users, and tools in whatever their results hold."""
    for message in messages:
        match message:
            case User(content=content) if not message.nudge or message.rung == UNMATCHED_RESULT:
                yield from _leaves(content)
            case ToolResult(content=content):
                yield content
                yield from _leaves(_decoded(content))
            case _:
                pass


def _tool_output(message: Message) -> str:
    """Return what a tool said, also where its result answers no call; blank if it is no tool's."""
    match message:
        case ToolResult(content=content):
            return content
        case User(content=content, rung=rung) if rung == UNMATCHED_RESULT:
            return text_of(content).partition("\n")[2]
        case _:
            return ""


def _decoded(content: str) -> Any:
    try:
        return decode(content.encode("utf-8", "surrogatepass"))
    except ValueError:
        return content


def _data(content: str) -> Any:
    """Return what a tool returned, without the envelope, which names the tool."""
    match _decoded(content):
        case {"data": data}:
            return data
        case value:
            return value


def _leaves(value: Any) -> Iterator[str]:
    """Go through the texts in a JSON value, from left to right."""
    stack = [value]
    while stack:
        match stack.pop():
            case dict() as fields:
                stack += [part for field in reversed(fields.items()) for part in reversed(field)]
            case list() as items:
                stack += reversed(items)
            case str() as text:
                yield text
            case _:
                pass


def _folded(text: str) -> str:
    """Take away what quoting changes: escapes, entities, quotes, blanks, marks, case."""
    for _ in range(_MOST_LAYERS):
        if "\\" not in text and "&" not in text:
            break
        text = without_entities(_ESCAPED.sub(_unescaped, text))
    return text.translate(_FOLDED).casefold()


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else " "
