"""Scenarios from files of recorded requests. They are data: no code is run.

    {"messages": […], "tools": […], "expect": {"tool_call": true, "tools": ["state_get"]}}

Each line is the full body of a request. It is sent once, and judged like vendors' verifiers do: the
calls in the reply must fit the schemas of their tools. `expect` adds expectations:

    tool_call    whether the reply has any call
    tools        tools that must be called
    calls        exactly the calls to make: see `accepted_calls`
    text         a text that the answer must contain
    fits_schema  false: calls may violate the schema of their tool

The fact `schema_valid`, whether the calls fit their schemas, is always recorded, and so are the
calls (`draft`).

Files of vendors' verifiers are accepted unchanged: in a line with results, `request` is used, the
role `_input` means `system`, and `expected_tool_call` means `tool_call`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.outcome import RunFailed, RunResult
from surecall.core.state import Run
from surecall.eval.scenarios.accepted_calls import UNREADABLE_CODES, WantedCall, call_misses
from surecall.eval.scenarios.expectations import (
    answer_miss,
    describe_answer,
    format_call,
    format_value,
    last_turn,
    make_miss,
    shorten,
)
from surecall.eval.scenarios.scenario import AskModel, Executor, Scenario, check_scenario_id
from surecall.eval.storage.trial import Miss, Score
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.family import unknown_name_message
from surecall.values.nesting import MAX_WRAPPED_DEPTH, TooDeep, decode_json
from surecall.values.types import JSON, ToolCall
from surecall.wire.chat_format import RESERVED_OPTIONS, encode
from surecall.wire.content_parts import text_of

SCHEMA_CHECK: Final = "every call fits the schema of its tool"
PARALLEL_TOOL_CALLS: Final = "parallel_tool_calls"
# Fields that are not request options: the runner or this module handles them.
_NOT_OPTIONS = RESERVED_OPTIONS | {"id", "expect", "tags", PARALLEL_TOOL_CALLS}
# Fields that verifiers add to a request for their own use.
_VERIFIER_FIELDS: Final = frozenset({"check_type", "expected_tool_call", "scenario_check"})
_SYSTEM_ROLE: Final = "system"
# Fields of a line with results that describe its request.
_RESULT_LINE_FIELDS: Final = ("id", "tags", "expect", "expected_tool_call")


class RequestExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is expected of the reply; an absent field is not checked."""

    tool_call: bool | None = None
    tools: tuple[str, ...] = ()
    calls: tuple[WantedCall, ...] | None = None
    text: str | None = None
    fits_schema: bool = True


class RecordedRequest(msgspec.Struct, frozen=True):
    """One line of a file of requests."""

    messages: list[JSON]
    tools: list[JSON] = []
    tool_choice: str | JSON | None = None
    id: str = ""
    tags: tuple[str, ...] = ()
    expect: RequestExpectation = RequestExpectation()


async def _return_nothing(_name: str, _arguments: JSON) -> JSON:
    return {}


class RecordedWorld:
    """One attempt at a recorded request: it is sent once, and its tools do nothing."""

    def __init__(self, recorded: RecordedRequest, registry: ToolRegistry) -> None:
        self.registry = registry
        self.executor: Executor | None = _return_nothing
        self.draft: JSON = {}
        self._recorded = recorded

    async def converse(self, ask: AskModel) -> RunResult:
        """Send the request once; a reply with calls is a result, not a failure."""
        try:
            return await ask(history=_history_messages(self._recorded))
        except RunFailed as failure:
            if failure.code is not ErrorCode.MAX_TURNS_EXCEEDED:
                raise
            return failure.result

    def judge(self, result: RunResult) -> Score:
        """Judge the calls by their schemas, then by the expectations."""
        expected, calls = self._recorded.expect, _calls_by_turn(result.run)
        invalid = [miss for turn, call in calls if (miss := _schema_miss(turn, call))]
        self.draft = {"calls": [_call_summary(turn, call) for turn, call in calls]}
        unmet = [*invalid] if expected.fits_schema else []
        unmet += _expectation_misses(expected, calls, result)
        if expected.calls is not None:
            ended = last_turn(result.run)
            schemas = {tool.name: tool.spec.parameters for tool in self.registry.definitions}
            unmet += call_misses(expected.calls, calls, schemas, ended)
        wanted = expected.text
        text = None if wanted is None else wanted in result.assistant_text
        wrong = () if wanted is None or text else (_text_miss(result, wanted),)
        return Score(
            process=not unmet,
            final=text,
            misses=(*unmet, *wrong),
            facts={"tool_call": bool(calls), "schema_valid": not invalid},
        )


_TurnCalls: TypeAlias = Sequence[tuple[int, ToolCall]]


def _calls_by_turn(run: Run) -> _TurnCalls:
    """Return the calls of a run, each with its turn."""
    return [
        (turn, call)
        for turn, message in enumerate(run.replies)
        for call in (*message.calls, *message.dropped)
    ]


def _schema_miss(turn: int, call: ToolCall) -> Miss | None:
    """Return the miss for a call that does not fit its schema; None if it does."""
    # The problem of an ignored call is the cell's limit, not its arguments.
    if call.problem is None or call.is_ignored:
        return None
    got = shorten(f"{call.name[:120]}: {call.problem.code}: {call.problem.message}")
    return Miss(SCHEMA_CHECK, "fits the schema of its tool", got, turn, call.id)


def _call_summary(turn: int, call: ToolCall) -> JSON:
    """Return a call as recorded with the trial."""
    brief: JSON = {"name": call.name, "arguments": call.arguments}
    if call.problem is not None and call.problem.code in UNREADABLE_CODES:
        brief["unread"] = True
    return brief | {"fits": _schema_miss(turn, call) is None}


def _expectation_misses(
    expected: RequestExpectation, calls: _TurnCalls, result: RunResult
) -> Iterator[Miss]:
    """Yield the misses of the expected tools and of `tool_call`."""
    names = {call.name for _, call in calls}
    made = ", ".join(format_call(call.name, call.arguments) for _, call in calls)
    came, ended = made or describe_answer(result), last_turn(result.run)
    for name in expected.tools:
        if name not in names:
            yield make_miss(f"there is a call of {name}", f"a call of {name}", came, ended)
    if expected.tool_call and not calls:
        yield make_miss("there is a call of a tool", "a call of a tool", came, ended)
    elif expected.tool_call is False and calls:
        turn, call = calls[0]
        yield Miss("there is no call", "no call", shorten(came), turn, call.id)


def _text_miss(result: RunResult, text: str) -> Miss:
    return answer_miss(result, f"the answer contains {format_value(text)}", format_value(text))


def _history_messages(recorded: RecordedRequest) -> list[JSON]:
    """Return the messages without the leading system message, which the runner sends."""
    first = recorded.messages[0]
    return recorded.messages[1:] if first.get("role") == _SYSTEM_ROLE else recorded.messages


def load_recorded(path: Path) -> list[Scenario]:
    """Load the scenarios of a file of requests; errors name the line."""
    found: dict[str, Scenario] = {}
    # Split at line feeds only: JSON strings may contain other line separators.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                one = _parse_line(line.decode().strip(), f"{path.stem}_{number:03}")
                if one.id in found:
                    raise ConfigError(f"two scenarios have the id {one.id!r}: rename one")  # noqa: TRY301
            except (ConfigError, msgspec.MsgspecError, UnicodeDecodeError, TooDeep) as error:
                raise ConfigError(f"{path}:{number}: {error}") from None
            found[one.id] = one
    return list(found.values())


def _parse_line(line: str, default_id: str) -> Scenario:
    """Parse the scenario on a line of the file."""
    body, source = _extract_request(
        decode_json(line, dict[str, Any], limit=MAX_WRAPPED_DEPTH), line
    )
    recorded = msgspec.convert(body, RecordedRequest)
    if not recorded.messages:
        raise ConfigError("messages is empty: a request needs at least one message")
    if "response_format" in body:
        raise ConfigError("response_format is not supported in a recorded request: remove it")
    scenario_id = recorded.id or default_id
    check_scenario_id(scenario_id)
    registry = ToolRegistry(recorded.tools)
    _check_expected_calls(recorded.expect.calls or (), registry)
    first = recorded.messages[0]
    config: JSON = {"tool_use_mode": "relaxed" if recorded.tools else "disabled", "max_turns": 1}
    if recorded.tools and recorded.tool_choice is not None:
        config["tool_choice"] = recorded.tool_choice
    if recorded.tools and PARALLEL_TOOL_CALLS in body:
        # Without this override, presets request one call at a time.
        config["request_overrides"] = {PARALLEL_TOOL_CALLS: body[PARALLEL_TOOL_CALLS]}
    return Scenario(
        id=scenario_id,
        summary="a recorded request",
        begin=lambda _: RecordedWorld(recorded, registry),
        tags=recorded.tags,
        system=text_of(first.get("content")) if first.get("role") == _SYSTEM_ROLE else "",
        config=config,
        options={key: body[key] for key in body if key not in _NOT_OPTIONS | _VERIFIER_FIELDS},
        uses_tools=bool(recorded.tools),
        source=source,
    )


def _extract_request(line: JSON, line_text: str) -> tuple[JSON, str]:
    """Return the request of a line in this module's format, and its source for the prompt hash."""
    body, source = line, line_text
    if "messages" not in line and isinstance(request := line.get("request"), dict):
        body = request | {
            name: line[name] for name in _RESULT_LINE_FIELDS if line.get(name) is not None
        }
        # The recorded answer and its time are not part of the request.
        source = encode(body).decode()
    messages = body.get("messages")
    if isinstance(messages, list):
        body = body | {"messages": [_normalize_role(message) for message in messages]}
    wanted, more = body.get("expected_tool_call"), body.get("expect", {})
    if isinstance(wanted, bool) and isinstance(more, dict):
        body = body | {"expect": {"tool_call": wanted} | more}
    return body, source


def _normalize_role(message: Any) -> Any:
    """Return a message with the role `system` in place of `_input`."""
    match message:
        case {"role": "_input"}:
            return message | {"role": _SYSTEM_ROLE}
        case _:
            return message


def _check_expected_calls(wanted: Sequence[WantedCall], registry: ToolRegistry) -> None:
    """Raise `ConfigError` for an expected call of a tool that is not exposed."""
    offered = {tool.name: tool for tool in registry.definitions}
    for one in wanted:
        if one.name not in offered:
            raise ConfigError(f"expect.calls: {unknown_name_message('tool', one.name, offered)}")
        offered[one.name].validate({})  # report an invalid schema now, not in the trial
