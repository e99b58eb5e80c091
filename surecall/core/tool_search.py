"""Tool search: expose few of many tools, and let the model find the others.

    more tools than `max_tools_per_request` ─► `search_tools` and the most relevant ones
    the model calls `search_tools`          ─► answered here; found tools are exposed next

The exposed tools follow from the transcript: the tools that the contract and `tool_choice` name,
those that are relevant to each message of the user, those that a search found, and those that the
model called. They are listed in the order in which they came up, so that the list only grows and
providers can cache it. If there is no room left, the tools that were only relevant are dropped
first, then those that were found or called longest ago.

A search runs no tool of the application: it is no call of the run, and no limit on calls or turns
counts it. What limits it is `MAX_SEARCHES_IN_A_ROW`. A registered tool can be called even if it is
not exposed: its arguments are validated, and every policy applies.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from surecall.core.obligations import contract_progress
from surecall.core.state import Run, once_per_run
from surecall.core.tool_results import build_result, refusal_envelope, success_envelope
from surecall.parsing.names import fold_name, legalized_name
from surecall.tools.ranking import SEARCH_TOOL, ToolIndex, is_search_spec, tool_index
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    Problem,
    Reply,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
    is_blank,
)
from surecall.wire.content_parts import text_of
from surecall.wire.request_adaptations import MAX_TOOLS_PREFIX

# How many tools a search finds, and how many a message of the user brings up.
MAX_FOUND: Final = 10
# Searches without another result or a message of the user in between.
MAX_SEARCHES_IN_A_ROW: Final = 4
# At least this many of the newest messages of the user are ranked, and less than twice as many.
_RANKED_MESSAGES: Final = 32
_IS_COUNT: Final = re.compile("[1-9][0-9]{0,8}")
_MAX_DESCRIPTION_CHARS: Final = 160
_NO_QUERY: Final = Problem(
    ErrorCode.ARGUMENT_ERROR, 'Say in `query` what the tool should do, such as "send an email".'
)
_TOO_MANY_SEARCHES: Final = Problem(
    ErrorCode.TOOL_CALL_LIMIT,
    "There were enough searches. Call one of the tools that you have, or answer without one.",
)
_NOTHING_FOUND: Final = "No tool matches. Try other words, or answer without a tool."


class _Claim(NamedTuple):
    """Why a tool is exposed. The tools with the lowest claims are dropped first."""

    strength: int
    position: int = 0
    rank: int = 0


_RELEVANT, _USED, _PINNED = 0, 1, 2


def exposed_specs(run: Run) -> tuple[ToolSpec, ...]:
    """Return the tools that requests may have now: all, or the search and some."""
    return _limited_specs(run) if is_limited(run) else run.tools


def is_limited(run: Run) -> bool:
    """Whether the run has more tools than a request may have."""
    most = run.config.endpoint.max_tools_per_request
    return most is not None and len(run.tools) > most


@once_per_run
def _limited_specs(run: Run) -> tuple[ToolSpec, ...]:
    """Return the tools of a request: the search, and those that the transcript brings up."""
    most = run.config.endpoint.max_tools_per_request or len(run.tools)
    contract = run.config.contract
    # In the order of the contract, not by what is missing, so that the list is stable.
    first = [] if contract is None else [need.tool for need in contract.needs]
    return select_tools(run.tools, run.messages, most, required_names(run), first)


def required_names(run: Run) -> tuple[str, ...]:
    """Return the tools that must be exposed: those that contract and `tool_choice` demand."""
    if run.config.contract is None:
        return chosen_names(run.config.tool_choice)
    missing = (need.tool for needs in contract_progress(run).missing for need in needs)
    return tuple(dict.fromkeys((*chosen_names(run.config.tool_choice), *missing)))


def chosen_names(choice: Any) -> tuple[str, ...]:
    """Return the tools that a `tool_choice` names."""
    match choice:
        case {"function": {"name": str(name)}}:
            return (name,)
        case {"allowed_tools": {"tools": list(tools)}}:
            return tuple(name for tool in tools for name in chosen_names(tool))
        case _:
            return ()


def limit_plan(plan: Plan, limit: int) -> Plan:
    """Return the plan with at most this many tools; the same object if it has no more.

    An endpoint has refused the number of its tools. Plans of text protocols have none.
    """
    if len(plan.tools) <= limit:
        return plan
    pinned = (*chosen_names(plan.tool_choice), *plan.required_tools)
    search, *others = plan.tools
    if is_search_spec(search):  # the limit was too high
        others.sort(key=lambda spec: spec.name not in pinned)
        tools = (search, *others)[:limit]
    else:
        tools = select_tools(plan.tools, plan.messages, limit, pinned)
    return msgspec.structs.replace(plan, tools=tools)


def learned_limit(lessons: Iterable[str]) -> int | None:
    """Return the lowest number of tools in lessons such as `max-tools:128`, if any."""
    numbers = (
        lesson.removeprefix(MAX_TOOLS_PREFIX)
        for lesson in lessons
        if lesson.startswith(MAX_TOOLS_PREFIX)
    )
    valid = (number for number in numbers if _IS_COUNT.fullmatch(number))
    return min(map(int, valid), default=None)


def with_learned_limit(run: Run, lessons: Sequence[str]) -> Run:
    """Return the run with the number of tools that its endpoint accepts, if that was learned."""
    if not lessons:
        return run
    learned, endpoint = learned_limit(lessons), run.config.endpoint
    set_limit = endpoint.max_tools_per_request
    if learned is None or (set_limit is not None and set_limit <= learned):
        return run
    config = run.config.replace(max_tools_per_request=learned)
    return msgspec.structs.replace(run, config=config)


def with_room_for_other_tools(run: Run, other_tool_count: int) -> Run:
    """Return the run with fewer functions per request, as limits count the other tools too."""
    most = run.config.endpoint.max_tools_per_request
    if most is None or not other_tool_count:
        return run
    config = run.config.replace(max_tools_per_request=max(most - other_tool_count, 1))
    return msgspec.structs.replace(run, config=config)


def select_tools(
    tools: tuple[ToolSpec, ...],
    messages: Sequence[Message],
    limit: int,
    pinned: Sequence[str] = (),
    first: Sequence[str] = (),
) -> tuple[ToolSpec, ...]:
    """Return at most this many tools for a transcript: the search, then others as they came up.

    The `pinned` tools are always among them, and the `first` ones precede the others. Equal
    selections from the same list are the same object. One tool leaves no room for the search.
    """
    index = tool_index(tools)
    names = _Selection(index, max(limit - 1, 1)).select_names(messages, pinned, first)
    specs = index.select(names)
    return specs if limit > 1 else specs[1:]


class _Selection:
    """The tools that a transcript brings up, in order, and the claim of each."""

    def __init__(self, index: ToolIndex, room: int) -> None:
        self._index = index
        self._room = room
        self._claims: dict[str, _Claim] = {}

    def select_names(
        self, messages: Sequence[Message], pinned: Sequence[str], first: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the names of the selected tools, in the order in which they came up."""
        self._add((name, _Claim(_USED)) for name in first)
        start = _ranked_start(messages)
        for position, message in enumerate(messages):
            if position >= start or not isinstance(message, User):
                self._add(self._claims_of(message, position))
        self._add(
            (name if name in self._index.by_name else legalized_name(name), _Claim(_PINNED, 0, -at))
            for at, name in enumerate(pinned)
        )
        return tuple(self._claims)

    def _claims_of(self, message: Message, position: int) -> Iterator[tuple[str, _Claim]]:
        """Yield the tools that a message brings up, each with its claim."""
        match message:
            case User(nudge=False, rung=""):
                found = self._index.rank(text_of(message.content), MAX_FOUND)
                for rank, name in enumerate(found):
                    yield name, _Claim(_RELEVANT, position, -rank)
            case Assistant(calls=calls):
                for call in calls:
                    yield call.name, _Claim(_USED, position)
            case ToolResult(found=(*found,)):
                for rank, name in enumerate(found):
                    yield name, _Claim(_USED, position, -rank)
            case _:
                pass

    def _add(self, claims: Iterable[tuple[str, _Claim]]) -> None:
        """Add tools, and drop those with the lowest claims if there is no room for all."""
        for name, claim in claims:
            if name in self._index.by_name:
                self._claims[name] = max(claim, self._claims.get(name, claim))
        if len(self._claims) > self._room:
            weakest = sorted(self._claims, key=self._claims.__getitem__)
            for name in weakest[: len(self._claims) - self._room]:
                del self._claims[name]


def _ranked_start(messages: Sequence[Message]) -> int:
    """Return the position from which messages of the user are ranked.

    It moves rarely, so that the selection of a long conversation is stable.
    """
    places = [at for at, message in enumerate(messages) if isinstance(message, User)]
    left_out = (len(places) // _RANKED_MESSAGES - 1) * _RANKED_MESSAGES
    return places[left_out] if left_out > 0 else 0


# The search itself.


def as_search(run: Run, call: ToolCall) -> ToolCall | None:
    """Return a call of the search tool, which no registry knows, as valid; None for any other."""
    if not is_limited(run) or (
        call.problem is not None and call.problem.code is not ErrorCode.TOOL_NOT_ALLOWED
    ):
        return None
    if not is_search_name(run.tools, call.name):
        return None
    name = tool_index(run.tools).search_spec.name
    asked = call.asked or (call.name if call.name != name else None)
    return msgspec.structs.replace(call, name=name, problem=None, asked=asked)


def with_searches(run: Run, reply: Reply) -> Reply:
    """Return the reply with its searches as valid calls; the same object if it has none."""
    if not is_limited(run):
        return reply
    calls = tuple(as_search(run, call) or call for call in reply.calls)
    return reply if calls == reply.calls else msgspec.structs.replace(reply, calls=calls)


def is_search_name(tools: tuple[ToolSpec, ...], name: str) -> bool:
    """Whether a name is that of the search, in any spelling, and of no tool."""
    if SEARCH_TOOL not in fold_name(name):
        return False
    index = tool_index(tools)
    return name not in index.by_name and index.is_search(name)


def is_search(run: Run, call: ToolCall) -> bool:
    """Whether a call of a turn is a search."""
    return call.is_runnable and as_search(run, call) is not None


def answer_searches(run: Run) -> Run:
    """Return the run with the results of the searches in its newest turn."""
    if not is_limited(run):
        return run
    searches = [call for call in run.replies[-1].calls if is_search(run, call)]
    if not searches:
        return run
    before = _count_searches_in_a_row(run.messages[:-1])
    results = [_search(run, call, before + at) for at, call in enumerate(searches)]
    return run.with_results(results)


def search_results(run: Run) -> tuple[tuple[ToolCall, ToolResult], ...]:
    """Return the searches of the newest turn, each with its result."""
    if not is_limited(run):
        return ()
    found = {
        item.call_id: item
        for item in run.tail
        if isinstance(item, ToolResult) and item.found is not None
    }
    calls = run.replies[-1].calls if run.replies else ()
    return tuple((call, found[call.id]) for call in calls if call.id in found)


def search_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of the turns that only searched for tools, and were answered."""
    answers = {
        message.call_id: message
        for message in messages
        if isinstance(message, ToolResult) and message.found is not None and message.ok
    }
    found: list[Message] = []
    for message in messages:
        if (
            answers
            and isinstance(message, Assistant)
            and message.calls
            and all(call.id in answers for call in message.calls)
        ):
            found += [message, *(answers[call.id] for call in message.calls)]
    return found


def without_searches(run: Run, turn: Assistant) -> Assistant:
    """Return the newest turn of a run, or a copy of it, without its searches."""
    searches = {call.id for call, _ in search_results(run)}
    if not searches:
        return turn
    calls = tuple(call for call in turn.calls if call.id not in searches)
    return msgspec.structs.replace(turn, calls=calls)


def _count_searches_in_a_row(messages: Sequence[Message]) -> int:
    searches = 0
    for message in reversed(messages):
        match message:
            case ToolResult(found=None) | User(nudge=False):
                break
            case ToolResult(ok=ok):
                searches += ok
            case _:
                pass
    return searches


def search_query(call: ToolCall) -> str:
    """Return the words of a search; models may write them under other names, or as a list."""
    given = call.arguments.get("query") or list(call.arguments.values())
    texts = given if isinstance(given, list) else [given]
    return " ".join(text for text in texts if isinstance(text, str))


def _search(run: Run, call: ToolCall, searches_in_a_row: int) -> ToolResult:
    """Return the result of a search, unless there were too many in a row."""
    query = search_query(call)
    found: tuple[str, ...] = ()
    if searches_in_a_row >= MAX_SEARCHES_IN_A_ROW:
        envelope = refusal_envelope(call.name, _TOO_MANY_SEARCHES)
    elif is_blank(query):
        envelope = refusal_envelope(call.name, _NO_QUERY)
    else:
        index, later = tool_index(run.tools), contract_progress(run).later
        most = (run.config.endpoint.max_tools_per_request or MAX_FOUND) - 1
        names = index.rank(query, MAX_FOUND)
        found = tuple(name for name in names if name not in later)[:most]
        envelope = success_envelope(call.name, _found_data(index, found))
    result = build_result(call, envelope, run.config, executed=False)
    return msgspec.structs.replace(result, found=found)


def _found_data(index: ToolIndex, names: tuple[str, ...]) -> JSON:
    """Return the data of the result of a search: the tools found, and a note."""
    if not names:
        return {"found": [], "note": _NOTHING_FOUND}
    rows = [
        {"name": name, "description": index.by_name[name].description[:_MAX_DESCRIPTION_CHARS]}
        for name in names
    ]
    return {"found": rows, "note": "You can call these tools now."}
