"""Scenarios that are recorded requests: data, from which no code is run.

    {"messages": […], "tools": […], "expect": {"tool_call": true, "tools": ["state_get"]}}

One line of a file is the full body of a request. It is sent once, and judged as the verifiers of
vendors do: the calls in the reply must fit the schemas of their tools. `expect` may say more:

    tool_call    whether there should be any call
    tools        tools of which there should be one
    calls        exactly the calls that there should be: see `accepted_calls`
    text         what the answer should contain
    fits_schema  false: a call may break the schema of its tool

Whether the calls fit their schemas is recorded in any case, as the fact `schema_valid`, and so are
the calls themselves (`draft`).

The files of vendors' verifiers are read as they are: of a line with results the `request` is taken,
the role `_input` means `system`, and `expected_tool_call` is `tool_call` above.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.outcome import RunFailed, RunResult
from surecall.core.state import Run
from surecall.eval.scenarios.accepted_calls import UNREADABLE, WantedCall, unmet_calls
from surecall.eval.scenarios.misses import (
    answer_missed,
    bounded,
    call_in_words,
    last_turn,
    missed,
    shown,
    what_came,
)
from surecall.eval.scenarios.scenario import Ask, Executor, Scenario, check_id
from surecall.eval.storage.trial import Miss, Score
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.family import unknown
from surecall.values.nesting import MAX_WRAPPED_DEPTH, TooDeep, decode_json
from surecall.values.types import JSON, ToolCall
from surecall.wire.content_parts import text_of
from surecall.wire.messages import RESERVED_OPTIONS, encode

FITS: Final = "every call fits the schema of its tool"
PARALLEL: Final = "parallel_tool_calls"
_SHOWN = 120
# Not options: what the runner or this module owns.
_OWNED = RESERVED_OPTIONS | {"id", "expect", "tags", PARALLEL}
# What verifiers write beside a request, for themselves.
_NOTES: Final = frozenset({"check_type", "expected_tool_call", "scenario_check"})
_SYSTEM: Final = "system"
# What a line with results may say about its request.
_ABOUT: Final = ("id", "tags", "expect", "expected_tool_call")


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a recorded request should lead to; an absent field is not checked."""

    tool_call: bool | None = None
    tools: tuple[str, ...] = ()
    calls: tuple[WantedCall, ...] | None = None
    text: str | None = None
    fits_schema: bool = True


class Recorded(msgspec.Struct, frozen=True):
    """One line of a file of requests."""

    messages: list[JSON]
    tools: list[JSON] = []
    tool_choice: str | JSON | None = None
    id: str = ""
    tags: tuple[str, ...] = ()
    expect: Expected = Expected()


async def _nothing(_name: str, _arguments: JSON) -> JSON:
    return {}


class RecordedWorld:
    """One attempt at a recorded request: it is sent once, and its tools do nothing."""

    def __init__(self, recorded: Recorded, registry: ToolRegistry) -> None:
        self.registry = registry
        self.executor: Executor | None = _nothing
        self.draft: JSON = {}
        self._recorded = recorded

    async def converse(self, ask: Ask) -> RunResult:
        """Send the request; a reply with calls ends it as well as one without."""
        try:
            return await ask(history=_conversation(self._recorded))
        except RunFailed as failure:
            if failure.code is not ErrorCode.MAX_TURNS_EXCEEDED:
                raise
            return failure.result

    def judge(self, result: RunResult) -> Score:
        """Judge the calls by their schemas, then by what was expected."""
        expected, calls = self._recorded.expect, _calls(result.run)
        invalid = [miss for turn, call in calls if (miss := _objection(turn, call))]
        self.draft = {"calls": [_in_brief(turn, call) for turn, call in calls]}
        unmet = [*invalid] if expected.fits_schema else []
        unmet += _unmet(expected, calls, result)
        if expected.calls is not None:
            ended = last_turn(result.run)
            unmet += unmet_calls(expected.calls, calls, _schemas(self.registry), ended)
        wanted = expected.text
        text = None if wanted is None else wanted in result.assistant_text
        wrong = () if wanted is None or text else (_lacking(result, wanted),)
        return Score(
            process=not unmet,
            final=text,
            misses=(*unmet, *wrong),
            facts={"tool_call": bool(calls), "schema_valid": not invalid},
        )


def _schemas(registry: ToolRegistry) -> dict[str, JSON]:
    return {tool.name: tool.spec.parameters for tool in registry.definitions}


_Calls: TypeAlias = Sequence[tuple[int, ToolCall]]


def _calls(run: Run) -> _Calls:
    """List the calls of a run, each with its turn."""
    return [
        (turn, call)
        for turn, message in enumerate(run.said)
        for call in (*message.calls, *message.dropped)
    ]


def _objection(turn: int, call: ToolCall) -> Miss | None:
    # A call beyond the limit of the cell says nothing about its arguments.
    if call.problem is None or call.ignored:
        return None
    got = bounded(f"{call.name[:_SHOWN]}: {call.problem.code}: {call.problem.message}")
    return Miss(FITS, "fits the schema of its tool", got, turn, call.id)


def _in_brief(turn: int, call: ToolCall) -> JSON:
    brief: JSON = {"name": call.name, "arguments": call.arguments}
    if call.problem is not None and call.problem.code in UNREADABLE:
        brief["unread"] = True
    return brief | {"fits": _objection(turn, call) is None}


def _unmet(expected: Expected, calls: _Calls, result: RunResult) -> Iterator[Miss]:
    """Hold the calls against those that are expected."""
    names = {call.name for _, call in calls}
    made = ", ".join(call_in_words(call.name, call.arguments) for _, call in calls)
    came, ended = made or what_came(result), last_turn(result.run)
    for name in expected.tools:
        if name not in names:
            yield missed(f"there is a call of {name}", f"a call of {name}", came, ended)
    if expected.tool_call and not calls:
        yield missed("there is a call of a tool", "a call of a tool", came, ended)
    elif expected.tool_call is False and calls:
        turn, call = calls[0]
        yield Miss("there is no call", "no call", bounded(came), turn, call.id)


def _lacking(result: RunResult, text: str) -> Miss:
    return answer_missed(result, f"the answer contains {shown(text)}", shown(text))


def _conversation(recorded: Recorded) -> list[JSON]:
    """Return the messages but the leading system text, which the runner sends by itself."""
    first = recorded.messages[0]
    return recorded.messages[1:] if first.get("role") == _SYSTEM else recorded.messages


def load_recorded(path: Path) -> list[Scenario]:
    """Load the scenarios of a file of requests; what is wrong is told with its line."""
    found: dict[str, Scenario] = {}
    # Only a line feed ends a line: JSON may hold the other separators as they are.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                one = _of_line(line.decode().strip(), f"{path.stem}_{number:03}")
                if one.id in found:
                    raise ConfigError(f"two scenarios are called {one.id!r}")  # noqa: TRY301
            except (ConfigError, msgspec.MsgspecError, UnicodeDecodeError, TooDeep) as error:
                raise ConfigError(f"{path}:{number}: {error}") from None
            found[one.id] = one
    return list(found.values())


def _of_line(line: str, default_id: str) -> Scenario:
    body, source = _request_in(decode_json(line, dict[str, Any], limit=MAX_WRAPPED_DEPTH), line)
    recorded = msgspec.convert(body, Recorded)
    if not recorded.messages:
        raise ConfigError("messages is empty")
    if "response_format" in body:
        raise ConfigError("response_format cannot be sent from a recorded request")
    scenario_id = recorded.id or default_id
    check_id(scenario_id)
    registry = ToolRegistry(recorded.tools)
    _check_wanted(recorded.expect.calls or (), registry)
    first = recorded.messages[0]
    config: JSON = {"tool_use_mode": "relaxed" if recorded.tools else "disabled", "max_turns": 1}
    if recorded.tools and recorded.tool_choice is not None:
        config["tool_choice"] = recorded.tool_choice
    if recorded.tools and PARALLEL in body:
        # Presets ask for one call at a time, unless they are told otherwise by a config.
        config["request_overrides"] = {PARALLEL: body[PARALLEL]}
    return Scenario(
        id=scenario_id,
        summary="a recorded request",
        begin=lambda _: RecordedWorld(recorded, registry),
        tags=recorded.tags,
        system=text_of(first.get("content")) if first.get("role") == _SYSTEM else "",
        config=config,
        options={key: body[key] for key in body if key not in _OWNED | _NOTES},
        uses_tools=bool(recorded.tools),
        source=source,
    )


def _request_in(line: JSON, written: str) -> tuple[JSON, str]:
    """Return the request of a line in our own form, and what makes it another one if it changes."""
    body, source = line, written
    if "messages" not in line and isinstance(request := line.get("request"), dict):
        body = request | {name: line[name] for name in _ABOUT if line.get(name) is not None}
        # What was answered then, and when, does not belong to the request.
        source = encode(body).decode()
    messages = body.get("messages")
    if isinstance(messages, list):
        body = body | {"messages": [_in_our_words(message) for message in messages]}
    wanted, more = body.get("expected_tool_call"), body.get("expect", {})
    if isinstance(wanted, bool) and isinstance(more, dict):
        body = body | {"expect": {"tool_call": wanted} | more}
    return body, source


def _in_our_words(message: Any) -> Any:
    match message:
        case {"role": "_input"}:
            return message | {"role": _SYSTEM}
        case _:
            return message


def _check_wanted(wanted: Sequence[WantedCall], registry: ToolRegistry) -> None:
    """Refuse to want a call that no model could make."""
    offered = {tool.name: tool for tool in registry.definitions}
    for one in wanted:
        if one.name not in offered:
            raise ConfigError(f"expect.calls: {unknown('tool', one.name, offered)}")
        offered[one.name].validate({})  # a schema that is none is told now, not in the trial
