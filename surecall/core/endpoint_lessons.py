"""What an endpoint's refusal teaches: leave out the option it names, ask more softly for a call.

A lesson is the name of what to change. It is learned from one refused request, applied to the
same request immediately, and remembered for the endpoint, so that it is paid for only once.
"""

from collections.abc import Iterable

import msgspec

from surecall.core.typed_answers import asking
from surecall.settings.overlay import union
from surecall.values.errors import Fault
from surecall.values.types import JSON, Assistant, Message, Plan, System
from surecall.wire.history_codec import SYSTEM_IN_USER, is_about_history, with_system_in_user

STREAM = "stream"
# How a streamed answer is asked for.
STREAMED: JSON = {STREAM: True, "stream_options": {"include_usage": True}}
# Options that do not change what is answered: safe to leave out.
DROPPABLE = ("parallel_tool_calls", "stream_options", "prompt_cache_key", "safety_identifier")
TOOL_CHOICE = "tool_choice"
RESPONSE_FORMAT = "response_format"
# A form that is refused as `json_schema` and may be taken as this one, with the schema beside it.
JSON_OBJECT = "json_object"
# Not to be left out, where the conversation has calls: they are sent, and forbidden.
TOOLS = "tools"
SOFT_CHOICES = ("auto", "none", None)
_REFUSALS = frozenset({400, 404, 422})
# Some servers check a request, and report what they find as a failure of their own.
_FAILED = 500
_CHECKED = "validation error"


def is_refusal(fault: Fault) -> bool:
    """Whether an endpoint says that it does not take the request, and not that it failed."""
    checked = fault.status == _FAILED and _CHECKED in fault.message.lower()
    return checked or fault.status in _REFUSALS


def lesson_of(fault: Fault, plan: Plan) -> str | None:
    """Return what a refusal says should be left out of this plan, if it is something we may."""
    if not is_refusal(fault):
        return None
    for option in DROPPABLE:
        if option in plan.options and option in fault.message:
            return option
    if STREAM in plan.options and names_streaming(fault.message):
        return STREAM
    if _is_guided(plan) and _names_form(fault.message, plan):
        named = _schema_of(plan) is not None and JSON_OBJECT in fault.message
        return JSON_OBJECT if named else RESPONSE_FORMAT
    if _hides_tools(plan) and TOOLS in fault.message.lower():
        return TOOLS
    if plan.tools and plan.tool_choice not in SOFT_CHOICES and names_tool_choice(fault.message):
        return TOOL_CHOICE
    return None


def _is_guided(plan: Plan) -> bool:
    # A form that the caller wants is not ours to leave out: the answer would be another one.
    ours = bool(plan.known_tools) or plan.output is not None
    return plan.response_format is not None and ours


def _schema_of(plan: Plan) -> JSON | None:
    """Return the schema that a reply is bound to in the form of OpenAI."""
    match plan.response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            return None


def _names_form(message: str, plan: Plan) -> bool:
    """Whether an error is about the form; the schema of an answer may be any that one can write."""
    return names_format(message) or (plan.output is not None and "schema" in message.lower())


def _hides_tools(plan: Plan) -> bool:
    called = any(isinstance(message, Assistant) and message.calls for message in plan.messages)
    return called and bool(plan.known_tools) and not plan.tools


def names_tool_choice(message: str) -> bool:
    """Whether an error is about a call being demanded. Vendors spell it with `_` or a blank."""
    text = message.lower()
    return "tool_choice" in text or "tool choice" in text


def names_format(message: str) -> bool:
    """Whether an error is about the form that the answer was to have."""
    text = message.lower()
    words = ("response_format", "response format", "json_schema", "json schema", "grammar")
    return any(word in text for word in words)


def names_streaming(message: str) -> bool:
    """Whether an error is about the answer being streamed, and not about something upstream."""
    words = "".join(char if char.isalnum() else " " for char in message.lower()).split()
    return not {"stream", "streaming", "streamed"}.isdisjoint(words)


def applied(plan: Plan, lessons: Iterable[str]) -> Plan:
    """Return the plan without what the endpoint is known to refuse; the same one if all is well."""
    for lesson in lessons:
        plan = _taught(plan, lesson)
    return plan


def _taught(plan: Plan, lesson: str) -> Plan:
    if lesson == SYSTEM_IN_USER:
        return msgspec.structs.replace(plan, messages=with_system_in_user(plan.messages))
    if is_about_history(lesson):
        return msgspec.structs.replace(plan, lessons=union(plan.lessons, (lesson,)))
    if lesson == TOOL_CHOICE and plan.tools and plan.tool_choice not in SOFT_CHOICES:
        return msgspec.structs.replace(plan, tool_choice="auto")
    if lesson == TOOLS and _hides_tools(plan):
        # A reply with tools on offer is not bound to a form.
        return msgspec.structs.replace(
            plan, tools=plan.known_tools, tool_choice="none", response_format=None
        )
    if lesson in {JSON_OBJECT, RESPONSE_FORMAT} and _is_guided(plan):
        return _otherwise_bound(plan, lesson)
    if lesson not in plan.options:
        return plan
    # Its options are refused without `stream` itself.
    left_out = STREAMED.keys() if lesson == STREAM else {lesson}
    options = {key: value for key, value in plan.options.items() if key not in left_out}
    return msgspec.structs.replace(plan, options=options)


def _otherwise_bound(plan: Plan, lesson: str) -> Plan:
    """Return a plan whose form is asked for in another way: with `json_object`, or in words alone.

    It is told in words either way, once: whether `json_object` heeds a schema is not known.
    """
    schema = _schema_of(plan)
    messages = plan.messages if schema is None else _told_form(plan)
    form = None
    if lesson == JSON_OBJECT:
        form = plan.response_format if schema is None else {"type": JSON_OBJECT, "schema": schema}
    return msgspec.structs.replace(plan, messages=messages, response_format=form)


def _told_form(plan: Plan) -> tuple[Message, ...]:
    """Return what is said in a plan; the form of the answer is told if only a field did so."""
    if plan.output is None or plan.known_tools:
        return plan.messages
    first = plan.messages[0]
    system = first if isinstance(first, System) else None
    rest = plan.messages if system is None else plan.messages[1:]
    return (asking(system, plan.output), *rest)


def with_stream(plan: Plan) -> Plan:
    """Return the plan with its answer asked for as a stream."""
    return msgspec.structs.replace(plan, options=plan.options | STREAMED)
