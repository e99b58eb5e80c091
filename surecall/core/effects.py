"""At-most-once execution: which calls must not run because they may have run already.

    started, no recorded end                       ─► outcome unknown; reported to the model
    same id, tool, and arguments as a call that ran ─► answered with the recorded result
    same tool and arguments as a success           ─► answered with the recorded result
    same tool and arguments as an unknown outcome  ─► held until a person approves it

An effect is a tool with its arguments. Calls of read-only and idempotent tools always run. The last
two rules exempt intended repetitions: `repeatable` tools, and needs of the contract with `repeat`.
The last rule also covers the calls of earlier runs of the conversation.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from surecall.core.giving_up import is_repeatable, is_safe_to_rerun, permanent_failure
from surecall.core.state import Run, once_per_run
from surecall.values.errors import ErrorCode
from surecall.values.json_equality import equality_key
from surecall.values.types import JSON, Assistant, Message, Problem, ToolCall, ToolResult
from surecall.wire.chat_format import encode
from surecall.wire.history_repair import missing_result

Effect: TypeAlias = tuple[str, Hashable]

OUTCOME_UNKNOWN: Final = Problem(
    ErrorCode.CALL_OUTCOME_UNKNOWN,
    "This call had begun when the run was interrupted. Nobody knows whether it took effect. It was "
    "not run again. Find out what happened with another tool, or say that the outcome is unknown.",
)
EARLIER_OUTCOME_UNKNOWN: Final = Problem(
    ErrorCode.CALL_OUTCOME_UNKNOWN,
    "The same call was made before, and nobody knows whether it took effect. It was not run again. "
    "Find out what happened with another tool, or say that the outcome is unknown.",
)
# The reason shown to the person who approves such a call.
MAY_REPEAT_EFFECT: Final = (
    "The same call was made before, and it is unknown whether it took effect. Approve it only if "
    "it did not, or if running it twice is harmless."
)
CALL_NOT_RECORDED: Final = Problem(
    ErrorCode.CALL_NOT_RECORDED,
    "The application could not record this call, so the tool did not run. You cannot fix this; say "
    "so in your answer.",
)
_SAME_ID = "This is the result of an earlier call with the same id; the tool did not run again."
_SAME_CALL_SUCCEEDED = (
    "This exact call was made before in this run, and it succeeded. It was not made again; this is "
    "the result that it had then."
)
_SAME_CALL_RAN = (
    "This exact call was made before in this run, and the tool ran. It was not made again; this is "
    "the result that it had then."
)
# The tool finished; only its output could not be shown.
_OUTPUT_CODES: Final = frozenset(
    {
        ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,
        ErrorCode.TOOL_OUTPUT_TOO_DEEP,
        ErrorCode.TOOL_OUTPUT_TOO_LARGE,
    }
)
# The tool was started, and its outcome is unknown. A refusal with `TOOL_TIMEOUT` did not start it.
_UNKNOWN_OUTCOME_CODES: Final = frozenset(
    {ErrorCode.CALL_OUTCOME_UNKNOWN, ErrorCode.TOOL_STILL_RUNNING}
)


def effect_of(call: ToolCall, parameters: JSON) -> Effect:
    """Return the effect of a call: its tool, and its arguments in a comparable form.

    The order of keys does not matter, 1 equals 1.0, and a property that repeats its default equals
    an absent one.
    """
    return call.name, equality_key(without_defaults(call.arguments, parameters))


def _is_safe_to_repeat(run: Run, call: ToolCall) -> bool:
    """Whether a call may run again: it is meant to be repeated, or repeating it is harmless."""
    return is_safe_to_rerun(run, call) or is_repeatable(run, call)


def mark_unfinished(run: Run, started_calls: Iterable[ToolCall]) -> Run:
    """Return the run with the started calls that have no result marked as begun."""
    due = {call.id for call in run.pending_calls}
    began = (call for call in started_calls if call.id in due and call.problem is None)
    ids = [call.id for call in began if recorded_result(run, call) is None]
    begun = tuple(dict.fromkeys((*run.begun, *ids)))
    return run if begun == run.begun else msgspec.structs.replace(run, begun=begun)


def messages_with_unknown_outcomes(run: Run) -> tuple[Message, ...]:
    """Return the messages of an abandoned run, with results that say "outcome unknown".

    Equal calls of the next run find out whether these calls have ended.
    """
    begun = [call for call in run.pending_calls if call.id in run.begun]
    results = (
        msgspec.structs.replace(missing_result(call), execution=execution_id(run.run_id, call))
        for call in begun
    )
    return run.with_results(list(results)).messages if begun else run.messages


class DuplicateCalls(NamedTuple):
    """The calls with the same id, tool, and arguments: in earlier replies, and in the same one."""

    earlier: Sequence[str] = ()
    same_reply: Sequence[str] = ()


def duplicate_calls(run: Run, call: ToolCall) -> DuplicateCalls:
    """Return the duplicates of a call of the newest reply, by the id that it came with.

    Some providers count ids from zero in every reply: an id that an earlier reply used for a
    different call means nothing. An id written in text counts only within its reply.
    """
    if call.first_id is None or call.problem is not None or _is_safe_to_repeat(run, call):
        return DuplicateCalls()
    turns, what = _calls_by_given_id(run)[call.first_id], _effect_of(run, call)
    *earlier, newest = turns.values()
    same_reply = newest[what]
    is_counter = call.from_text or any(calls.keys() != {what} for calls in earlier)
    before = [] if is_counter else [one for calls in earlier for one in calls[what]]
    return DuplicateCalls(before, same_reply[: same_reply.index(call.id)])


@once_per_run
def _calls_by_given_id(run: Run) -> dict[str, dict[int, dict[Effect, list[str]]]]:
    """Return the calls by the id that they came with, then by reply, then by effect.

    Calls that could not run are ignored.
    """
    found: dict[str, dict[int, dict[Effect, list[str]]]] = {}
    for turn, reply in enumerate(run.replies):
        for call in reply.calls:
            if call.problem is None:
                turns = found.setdefault(call.first_id or call.id, {})
                turns.setdefault(turn, {}).setdefault(_effect_of(run, call), []).append(call.id)
    return found


def _effect_of(run: Run, call: ToolCall) -> Effect:
    return effect_of(call, _parameters_by_tool(run).get(call.name, {}))


@once_per_run
def _parameters_by_tool(run: Run) -> dict[str, JSON]:
    return {spec.name: spec.parameters for spec in run.tools}


def known_result(
    run: Run, call: ToolCall, new_results: Sequence[ToolResult] = ()
) -> ToolResult | Problem | None:
    """Return the recorded result, or the problem, of a call that must not run; None if it must."""
    return recorded_result(run, call, new_results) or permanent_failure(run, call, new_results)


def recorded_result(
    run: Run, call: ToolCall, new_results: Sequence[ToolResult] = ()
) -> ToolResult | None:
    """Return the result of a call that ran already; None if it must run."""
    duplicates = duplicate_calls(run, call)
    earlier = _earlier_success(run, call, new_results)
    for one in (*duplicates.earlier, *duplicates.same_reply):
        result = next((item for item in (*run.results, *new_results) if item.call_id == one), None)
        if result is None or not result.executed or has_unknown_outcome(result):
            continue
        if result.ok or earlier is None:
            detail = f"the result of call {result.call_id}, which had the same id"
            return _repeat_result(call, result, _SAME_ID, detail)
    if earlier is None:
        return None
    detail = f"the result of call {earlier.call_id}, which had the same arguments"
    return _repeat_result(
        call, earlier, _SAME_CALL_SUCCEEDED if earlier.ok else _SAME_CALL_RAN, detail
    )


class UnknownOutcome(NamedTuple):
    """The unknown outcome of a call that may have taken effect.

    `problem` is sent to the model if the call is not run. With `is_same_reply`, both calls are in
    one reply: the model did not know the outcome when it made them, so they cannot be approved.
    `execution` identifies the execution, which may have ended meanwhile; blank if unknown.
    """

    problem: Problem
    is_same_reply: bool
    execution: str = ""


def execution_id(run_id: str, call: ToolCall) -> str:
    """Return the id of the execution that a call starts."""
    return f"{run_id}/{call.id}"


def find_unknown_outcome(
    run: Run, call: ToolCall, new_results: Sequence[ToolResult] = (), *, has_time_left: bool = True
) -> UnknownOutcome | None:
    """Return the unknown outcome that concerns a call of the newest reply; None without one.

    It is that of the call itself, started without a recorded end, or of an equal call, also in an
    earlier run of the conversation. A result with a known outcome supersedes it: a late result of
    the tool, or the result of a call that a person approved.
    """
    if call.id in run.begun:
        known = UnknownOutcome(
            OUTCOME_UNKNOWN, is_same_reply=True, execution=execution_id(run.run_id, call)
        )
        return None if has_time_left and is_safe_to_rerun(run, call) else known
    if not (run.begun or _unknown_outcomes(run) or any(map(has_unknown_outcome, new_results))):
        return None
    if _is_safe_to_repeat(run, call):
        return None
    what = _effect_of(run, call)
    doubt = _unknown_outcomes(run).get(what)
    like = {call_id for call_id, effect in _newest_effects(run).items() if effect == what}
    if not like.isdisjoint(run.begun):
        doubt = UnknownOutcome(EARLIER_OUTCOME_UNKNOWN, is_same_reply=True)
    for result in new_results:
        if result.call_id in like:
            doubt = _update_outcome(doubt, result, is_beside=True)
    return doubt


@once_per_run
def _unknown_outcomes(run: Run) -> dict[Effect, UnknownOutcome]:
    """Return the effects with an unknown outcome."""
    results = [item for item in run.messages if isinstance(item, ToolResult)]
    if not any(map(has_unknown_outcome, results)):
        return {}
    answers = {result.call_id: result for result in results}
    same_reply = {item.call_id for item in run.tail if isinstance(item, ToolResult)}
    doubts: dict[Effect, UnknownOutcome] = {}
    for reply in run.messages:
        for call in reply.calls if isinstance(reply, Assistant) else ():
            if call.id in answers:
                what = _effect_of(run, call)
                before, is_beside = doubts.pop(what, None), call.id in same_reply
                after = _update_outcome(before, answers[call.id], is_beside=is_beside)
                doubts |= {} if after is None else {what: after}
    return doubts


def _update_outcome(
    before: UnknownOutcome | None, result: ToolResult, *, is_beside: bool
) -> UnknownOutcome | None:
    """Return the unknown outcome of an effect after one more result; None if it is known."""
    if has_unknown_outcome(result):
        # A call that did not start the tool leaves the earlier execution unknown.
        known = "" if before is None or result.executed else before.execution
        return UnknownOutcome(EARLIER_OUTCOME_UNKNOWN, is_beside, result.execution or known)
    # A failure in a plain history does not say whether the tool ran.
    is_known = result.executed and (result.ok or bool(result.error_codes))
    return None if is_known else before


def has_unknown_outcome(result: ToolResult) -> bool:
    """Whether a tool was started for this call and it is unknown whether it took effect."""
    if result.ok:
        return False
    codes = result.error_codes or _codes_in_content(result)
    timed_out = result.executed and ErrorCode.TOOL_TIMEOUT in codes
    return timed_out or not _UNKNOWN_OUTCOME_CODES.isdisjoint(codes)


def _codes_in_content(result: ToolResult) -> tuple[str, ...]:
    """Parse the error codes from a result's content; a plain history has them only there."""
    with suppress(msgspec.DecodeError, TypeError, KeyError, RecursionError):
        return tuple(str(error["code"]) for error in result.envelope["errors"])
    return ()


def first_equal_call(run: Run, call: ToolCall) -> str:
    """Return the first call of the newest reply with the same effect; itself if it may repeat."""
    return (
        call.id
        if _is_safe_to_repeat(run, call)
        else _first_calls(run).get(_effect_of(run, call), call.id)
    )


@once_per_run
def _first_calls(run: Run) -> dict[Effect, str]:
    """Return the id of the first call with each effect in the newest reply."""
    firsts: dict[Effect, str] = {}
    for call_id, what in _newest_effects(run).items():
        firsts.setdefault(what, call_id)
    return firsts


@once_per_run
def _newest_effects(run: Run) -> dict[str, Effect]:
    """Return the effects of the calls of the newest reply, by call id."""
    return {
        call.id: _effect_of(run, call) for call in (run.replies[-1].calls if run.replies else ())
    }


def _earlier_success(
    run: Run, call: ToolCall, new_results: Sequence[ToolResult]
) -> ToolResult | None:
    """Return the first result of an effect that must not repeat; None if the call may run."""
    if not run.results and not new_results:
        return None
    if call.problem is not None or _is_safe_to_repeat(run, call):
        return None
    what = _effect_of(run, call)
    newest = _newest_effects(run)
    same_reply = (item for item in new_results if _has_run(item) and newest[item.call_id] == what)
    return _first_successes(run).get(what) or next(same_reply, None)


@once_per_run
def _first_successes(run: Run) -> dict[Effect, ToolResult]:
    """Return the first result of each effect that succeeded in this run."""
    writes: dict[Effect, ToolResult] = {}
    for call, result in run.answered_calls:
        if _has_run(result):
            writes.setdefault(_effect_of(run, call), result)
    return writes


def _has_run(result: ToolResult) -> bool:
    return result.executed and (result.ok or not _OUTPUT_CODES.isdisjoint(result.error_codes))


def _repeat_result(call: ToolCall, earlier: ToolResult, note: str, detail: str) -> ToolResult:
    """Return the result of an earlier call as that of this one, with a note for the model."""
    envelope = earlier.envelope
    warnings = [*call.warnings, *envelope.get("warnings", ()), note]
    return ToolResult(
        call.id,
        call.name,
        ok=earlier.ok,
        content=encode(envelope | {"warnings": warnings}).decode(),
        error_codes=earlier.error_codes,
        detail=detail,
    )


# Removing properties that repeat their defaults, also in nested objects and lists.
#
# Defaults come from `properties`, `items`, `$ref`, and `allOf`, and from the only alternative that
# can fit an object or an array. Where several can, no default is certain and the value stays.

# Maximum number of schemas visited for one call; beyond it, values stay unchanged.
_MAX_VISITS: Final = 10_000
_ABSENT: Final = object()


def without_defaults(arguments: JSON, parameters: JSON) -> JSON:
    """Return arguments without properties that repeat their defaults."""
    kept: JSON = _DefaultRemover(parameters).remove(arguments, [parameters])
    return kept


class _DefaultRemover:
    """One pass over the arguments of a call, with a limit on its work."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._remaining_visits = _MAX_VISITS

    def remove(self, value: Any, schemas: Iterable[Any]) -> Any:
        """Return a copy of a value without the entries that equal their schema's default."""
        if not isinstance(value, dict | list) or self._remaining_visits <= 0:
            return value
        kind = "object" if isinstance(value, dict) else "array"
        known = list(self._applicable_schemas(schemas, kind))
        if isinstance(value, list):
            items = [schema["items"] for schema in known if isinstance(schema.get("items"), dict)]
            return [self.remove(item, items) for item in value] if items else value
        named = [item for one in known if isinstance(item := one.get("properties"), dict)]
        return self._remove_from_object(value, named) if named else value

    def _remove_from_object(self, value: JSON, property_maps: list[JSON]) -> JSON:
        """Return an object without defaults; a property may be in several of the maps."""
        kept: JSON = {}
        for key, item in value.items():
            schemas = [properties[key] for properties in property_maps if key in properties]
            folded = self.remove(item, schemas)
            if not self._is_default(item, folded, schemas):
                kept[key] = folded
        return kept

    def _is_default(self, item: Any, item_without_defaults: Any, schemas: list[Any]) -> bool:
        """Whether a property repeats its default, apart from defaults inside it."""
        defaults = (one.get("default", _ABSENT) for one in schemas if isinstance(one, dict))
        default = next((one for one in defaults if one is not _ABSENT), _ABSENT)
        if default is _ABSENT:
            return False
        return equality_key(item) == equality_key(default) or (
            equality_key(item_without_defaults) == equality_key(self.remove(default, schemas))
        )

    def _applicable_schemas(self, schemas: Iterable[Any], kind: str) -> Iterator[JSON]:
        """Yield the schemas that certainly apply to a value of a kind."""
        waiting = [schema for schema in schemas if isinstance(schema, dict)]
        seen: set[int] = set()
        while waiting and self._remaining_visits > 0:
            schema = waiting.pop()
            self._remaining_visits -= 1
            if id(schema) not in seen:
                seen.add(id(schema))
                yield schema
                waiting += [one for one in self._subschemas(schema, kind) if isinstance(one, dict)]

    def _subschemas(self, schema: JSON, kind: str) -> Iterator[Any]:
        """Yield the schemas that apply to a value of a kind wherever `schema` does."""
        if (pointer := schema.get("$ref")) is not None:
            yield self._resolve_reference(str(pointer))
        yield from _schema_list(schema, "allOf")
        for keyword in ("anyOf", "oneOf"):
            possible = [one for one in _schema_list(schema, keyword) if _allows_type(one, kind)]
            yield from possible if len(possible) == 1 else ()

    def _resolve_reference(self, pointer: str) -> Any:
        definitions = self._root.get("$defs")
        known = definitions if isinstance(definitions, dict) else {}
        return self._root if pointer == "#" else known.get(pointer.removeprefix("#/$defs/"))


def _schema_list(schema: JSON, keyword: str) -> list[Any]:
    """Return the schemas under a keyword; none if it is missing or malformed."""
    below = schema.get(keyword)
    return below if isinstance(below, list) else []


def _allows_type(schema: Any, kind: str) -> bool:
    """Whether a schema allows values of a JSON type; without a type it does."""
    types = schema.get("type", kind) if isinstance(schema, dict) else kind
    return kind in (types if isinstance(types, list) else [types])
