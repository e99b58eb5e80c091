"""Lessons about the plan of a request: omit an option of ours, or do not require a call.

A lesson is the name of a change that a rejection teaches. It is applied to the rejected request
immediately, and cached for the endpoint and model. `refusals` reads those about the body of a
request, and `wire.request_adaptations` applies them.
"""

from collections.abc import Iterable

import msgspec

from surecall.core.refusals import SERVER_ERROR, is_about_request, split_words
from surecall.core.tool_search import learned_limit, limit_plan
from surecall.core.typed_answers import with_answer_schema
from surecall.settings.overlay import union
from surecall.values.errors import Fault
from surecall.values.types import JSON, Assistant, Message, Plan, System

STREAM = "stream"
# The options that request a streamed reply.
STREAM_OPTIONS: JSON = {STREAM: True, "stream_options": {"include_usage": True}}
# Options that do not change the reply: safe to omit.
DROPPABLE = ("parallel_tool_calls", "stream_options", "prompt_cache_key", "safety_identifier")
TOOL_CHOICE = "tool_choice"
RESPONSE_FORMAT = "response_format"
# An endpoint that rejects `json_schema` may accept this type, with the schema beside it.
JSON_OBJECT = "json_object"
# Some endpoints require tools where the history has calls: they are sent, but calls are forbidden.
TOOLS = "tools"
SOFT_CHOICES = ("auto", "none", None)
_REFUSALS = frozenset({400, 404, 422})
# Some servers report an invalid request as an internal error.
_VALIDATION_ERROR = "validation error"


def is_refusal(fault: Fault) -> bool:
    """Whether an endpoint rejected the request, rather than failed."""
    checked = fault.status == SERVER_ERROR and _VALIDATION_ERROR in fault.message.lower()
    return checked or fault.status in _REFUSALS


def lesson_from(fault: Fault, plan: Plan) -> str | None:
    """Return the lesson of a rejection about a plan; None if there is none."""
    if not is_refusal(fault) or not is_about_request(fault):
        return None
    for option in DROPPABLE:
        if option in plan.options and option in fault.message:
            return option
    if STREAM in plan.options and mentions_streaming(fault.message):
        return STREAM
    if _is_bound_by_us(plan) and _mentions_form(fault.message, plan):
        named = _reply_schema(plan) is not None and JSON_OBJECT in fault.message
        return JSON_OBJECT if named else RESPONSE_FORMAT
    if _hides_tools(plan) and TOOLS in fault.message.lower():
        return TOOLS
    if plan.tools and plan.tool_choice not in SOFT_CHOICES and mentions_tool_choice(fault.message):
        return TOOL_CHOICE
    return None


def _is_bound_by_us(plan: Plan) -> bool:
    """Whether the loop, not the caller, requested the response format."""
    # A form that the caller requested must not be omitted: it would change the answer.
    ours = bool(plan.known_tools) or plan.output is not None
    return plan.response_format is not None and ours


def _reply_schema(plan: Plan) -> JSON | None:
    """Return the schema in OpenAI's `json_schema` response format."""
    match plan.response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            return None


def _mentions_form(message: str, plan: Plan) -> bool:
    """Whether an error is about the response format or the schema of a typed answer."""
    return mentions_format(message) or (plan.output is not None and "schema" in message.lower())


def _hides_tools(plan: Plan) -> bool:
    """Whether a plan omits the tools that its history calls."""
    called = any(isinstance(message, Assistant) and message.calls for message in plan.messages)
    return called and bool(plan.known_tools) and not plan.tools


def mentions_tool_choice(message: str) -> bool:
    """Whether an error is about `tool_choice`, however it is spelled."""
    text = message.lower()
    return any(word in text for word in ("tool_choice", "tool choice", "toolchoice"))


def mentions_format(message: str) -> bool:
    """Whether an error is about the response format."""
    text = message.lower()
    words = ("response_format", "response format", "json_schema", "json schema", "grammar")
    return any(word in text for word in words)


def mentions_streaming(message: str) -> bool:
    """Whether an error is about streaming; `upstream` and `tool_stream` do not count."""
    return not {"stream", "streaming", "streamed"}.isdisjoint(split_words(message.lower()))


def apply_lessons(plan: Plan, lessons: Iterable[str]) -> Plan:
    """Return the plan without what the endpoint rejects; the same object if nothing changes."""
    for lesson in lessons:
        plan = _apply_lesson(plan, lesson)
    return plan


def _apply_lesson(plan: Plan, lesson: str) -> Plan:
    if (most := learned_limit((lesson,))) is not None:
        return limit_plan(plan, most)
    if ":" in lesson:
        return msgspec.structs.replace(plan, lessons=union(plan.lessons, (lesson,)))
    if lesson == TOOL_CHOICE and plan.tools and plan.tool_choice not in SOFT_CHOICES:
        return msgspec.structs.replace(plan, tool_choice="auto")
    if lesson == TOOLS and _hides_tools(plan):
        # With tools in the request, the reply is not bound to a schema.
        return msgspec.structs.replace(
            plan, tools=plan.known_tools, tool_choice="none", response_format=None
        )
    if lesson in {JSON_OBJECT, RESPONSE_FORMAT} and _is_bound_by_us(plan):
        return _relax_format(plan, lesson)
    if lesson not in plan.options:
        return plan
    # `stream_options` is rejected without `stream`.
    left_out = STREAM_OPTIONS.keys() if lesson == STREAM else {lesson}
    options = {key: value for key, value in plan.options.items() if key not in left_out}
    return msgspec.structs.replace(plan, options=options)


def _relax_format(plan: Plan, lesson: str) -> Plan:
    """Return a plan that requests the form with `json_object`, or in the prompt alone.

    The prompt describes it in both cases, as `json_object` may ignore the schema.
    """
    schema = _reply_schema(plan)
    messages = plan.messages if schema is None else _messages_with_schema(plan)
    form = None
    if lesson == JSON_OBJECT:
        form = plan.response_format if schema is None else {"type": JSON_OBJECT, "schema": schema}
    return msgspec.structs.replace(plan, messages=messages, response_format=form)


def _messages_with_schema(plan: Plan) -> tuple[Message, ...]:
    """Return the messages of a plan, with the schema of the answer if they do not describe it."""
    if plan.output is None or plan.known_tools:
        return plan.messages
    first = plan.messages[0]
    system = first if isinstance(first, System) else None
    rest = plan.messages if system is None else plan.messages[1:]
    return (with_answer_schema(system, plan.output), *rest)


def with_stream(plan: Plan) -> Plan:
    """Return the plan with a streamed reply requested."""
    return msgspec.structs.replace(plan, options=plan.options | STREAM_OPTIONS)
