"""Inbound: a decoded answer becomes a reply.

    body ─► envelope ─► message ─► call protocol ─► calls ─► ids ─► names ─► arguments ─► validation

Every step is tolerant and has a name; the names of the steps that changed something end up in
`Reply.fired`. An answer that is canonical has nothing to heal and goes past the transforms. No
vendor is mentioned here: quirks are transforms, chosen by the config.
"""

from typing import Any

import msgspec

from surecall.core.doubtful_calls import settled
from surecall.parsing.argument_rewrites import with_texts, without_entities
from surecall.parsing.arguments import Arguments, read_arguments, truncated
from surecall.parsing.budget import MAX_CALLS, MAX_VALUES, most_values
from surecall.parsing.coercion import Coerced
from surecall.parsing.names import nearest
from surecall.parsing.readings import Expected, only_reading
from surecall.settings.config import ToolCallingConfig
from surecall.tools.registry import Toolbox, ToolDefinition
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    JSON,
    Plan,
    Problem,
    Reply,
    ToolCall,
    is_blank,
)
from surecall.wire.call_styles import TextCalls
from surecall.wire.canonical import is_canonical
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import MAX_REASON, Ending, ending_of
from surecall.wire.finish_reasons import finish_reason as finish_reason_of
from surecall.wire.history import Ids, ids_of
from surecall.wire.messages import FROM_TEXT, call_parts, encode, id_of, parse_usage, raw_calls
from surecall.wire.opaque_state import call_extra, message_extra
from surecall.wire.plain_json import is_finite
from surecall.wire.protocols import hear
from surecall.wire.response import HINTS, read_choice
from surecall.wire.text_calls import TextReading, with_text_calls
from surecall.wire.text_edges import trimmed
from surecall.wire.transforms import BODY, RESPONSE, TOOL_CALL
from surecall.wire.transforms.inbound import (
    assistant_content_edges_trimmed,
    assistant_content_tool_call_tags_to_tool_calls,
    choices_of_one_turn_joined,
    failed_generation_to_message,
)

SHORT_LIST = 12
_MALFORMED = Problem(
    ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
    "This call arrived malformed and did not run. Make the call again, with all its arguments.",
)
_NO_NUMBER = Problem(ErrorCode.ARGUMENT_ERROR, "NaN and the infinities are no JSON.")
FAILED_GENERATION = failed_generation_to_message.__name__
TAGS = assistant_content_tool_call_tags_to_tool_calls.__name__
EDGES = assistant_content_edges_trimmed.__name__
JOINED = choices_of_one_turn_joined.__name__


def inbound(body: Any, plan: Plan, config: ToolCallingConfig, toolbox: Toolbox) -> Reply | Fault:
    """Read a decoded answer: heal it, find the calls, judge them."""
    fired: list[str] = []
    canonical = is_canonical(body)
    if not canonical and isinstance(body, dict):
        body = BODY.apply(_body_transforms(plan, config), body, fired)
    choice = read_choice(body)
    if isinstance(choice, Fault):
        return choice
    raw = choice.get("message")
    said = raw if isinstance(raw, dict) else {}
    if (fault := _too_much(said)) is not None:
        return fault
    healed = said if canonical else RESPONSE.apply(config.endpoint.response_transforms, said, fired)
    if config.call_protocol == "guided":
        healed = _bare(healed, config, fired)
    salvaged = FAILED_GENERATION in fired
    reading = _with_calls(healed, plan, config, salvaged=salvaged)
    message, finish_reason = reading.message, finish_reason_of(choice)
    fired += reading.fired
    if message is not said and (fault := _too_much(message)) is not None:
        return fault
    calls = _calls_of(reading, plan, config, toolbox, fired)
    text = _text_of(message, config, fired)
    if not calls and (fault := _withheld(finish_reason, text, salvaged=salvaged)) is not None:
        return fault
    return Reply(
        text,
        _unless_unfinished(calls, finish_reason),
        finish_reason,
        parse_usage(body.get("usage")),
        _text(body, "model"),
        _text(body, "provider"),
        _text(body, "id"),
        tuple(fired),
        message_extra(message, said),
        reading.claims,
    )


def _text_of(message: JSON, config: ToolCallingConfig, fired: list[str]) -> str:
    """Return what is said, without end tokens and invisible characters at its edges."""
    text = text_of(message.get("content"))
    if EDGES not in config.endpoint.response_transforms:
        return text
    said = trimmed(text)
    if said is not text and EDGES not in fired:
        fired.append(EDGES)
    return said


def _bare(message: JSON, config: ToolCallingConfig, fired: list[str]) -> JSON:
    """Take off what is around a reply that is to be JSON."""
    text = _text_of(message, config, fired)
    return message if text == message.get("content") else message | {"content": text}


def _body_transforms(plan: Plan, config: ToolCallingConfig) -> tuple[str, ...]:
    """Say how the body is healed; who asked for several choices wants the first, not their sum."""
    asked = plan.options.get("n")
    several = not (asked is None or asked == 1)
    return tuple(
        name for name in config.endpoint.body_transforms if not (several and name == JOINED)
    )


def _withheld(reason: str | None, text: str, *, salvaged: bool) -> Fault | None:
    """Say who kept a reply without calls from us: a provider that could not read it, or a filter.

    A filter that let nothing through will not do so the next time either.
    """
    if salvaged:
        sentence = "the provider could not read what the model wrote"
        return Fault(ErrorCode.MALFORMED_CALL, sentence, retryable=True)
    if not is_blank(text) or ending_of(reason) is not Ending.FILTERED:
        return None
    sentence = f"the host stopped the answer: {str(reason)[:MAX_REASON]}"
    return Fault(ErrorCode.CONTENT_POLICY, sentence, hint=HINTS[ErrorCode.CONTENT_POLICY])


def _unless_unfinished(calls: tuple[ToolCall, ...], reason: str | None) -> tuple[ToolCall, ...]:
    """Refuse the calls of a reply that did not come to its end, or was not right at its end."""
    match ending_of(reason):
        case Ending.CUT_OFF | Ending.FILTERED:
            return tuple(map(_cut_off, calls))
        case Ending.MALFORMED:
            return tuple(msgspec.structs.replace(call, problem=_MALFORMED) for call in calls)
        case _:
            return calls


def _with_calls(
    message: JSON, plan: Plan, config: ToolCallingConfig, *, salvaged: bool
) -> TextReading:
    """Put calls where calls belong: those of the protocol, and those that surely came as text."""
    heard = hear(config.call_protocol, message, plan)
    # What says of itself that it is the answer holds no calls, whatever it quotes.
    is_answer = heard is not message and not raw_calls(heard)
    mode: TextCalls = "off" if is_answer else text_calls_of(config)
    # A reply that is all JSON was meant for the machine, in whatever words.
    is_json = config.call_protocol == "guided" and _begins_json(text_of(heard.get("content")))
    if salvaged or (is_json and not is_answer):
        mode = "any"
    reading = with_text_calls(
        heard, plan.tools, mode, strip_thinking=config.endpoint.strip_thinking
    )
    # What a provider failed to read as a call was meant as one.
    return settled(reading, plan, config.replace(text_call_rules=()) if salvaged else config)


def _too_much(message: JSON) -> Fault | None:
    """Say why the calls of a reply are more than anyone means, if they are; before they are read.

    Arguments are JSON in a string, and may be JSON in a string in a string. So may all calls be.
    """
    calls = raw_calls(message)
    if len(calls) > MAX_CALLS:
        sentence = f"The answer has more than {MAX_CALLS} calls."
        return Fault(ErrorCode.RESPONSE_TOO_LARGE, sentence)
    given = (message.get("tool_calls"), *[call_parts(call)[1] for call in calls])
    texts = [text for text in given if isinstance(text, str)]
    if sum(map(len, texts)) <= MAX_VALUES:  # each value takes a character at least
        return None
    values = sum(most_values(text.encode("utf-8", "replace")) for text in texts)
    sentence = f"The arguments of the answer's calls may hold more than {MAX_VALUES} values."
    return Fault(ErrorCode.RESPONSE_TOO_LARGE, sentence) if values > MAX_VALUES else None


def _begins_json(text: str) -> bool:
    return text.lstrip()[:1] in {"{", "[", "`"}


def text_calls_of(config: ToolCallingConfig) -> TextCalls:
    """Say which calls are read from text; protocols that are made of text read at least some."""
    by_text = config.call_protocol != "native" or TAGS in config.endpoint.response_transforms
    return (
        "marked" if by_text and config.endpoint.text_calls == "off" else config.endpoint.text_calls
    )


def _text(mapping: JSON, key: str) -> str | None:
    value = mapping.get(key)
    return value if isinstance(value, str) else None


def _calls_of(
    reading: TextReading,
    plan: Plan,
    config: ToolCallingConfig,
    toolbox: Toolbox,
    fired: list[str],
) -> tuple[ToolCall, ...]:
    """Read the calls of a message, each with an id that the conversation has not used."""
    asked = raw_calls(reading.message)
    ids = ids_of(plan.messages) if asked else Ids()
    in_text = bool(reading.asked)
    return tuple(_read_call(raw, config, toolbox, ids, fired, in_text=in_text) for raw in asked)


def _read_call(
    raw: JSON,
    config: ToolCallingConfig,
    toolbox: Toolbox,
    ids: Ids,
    fired: list[str],
    *,
    in_text: bool,
) -> ToolCall:
    raw = TOOL_CALL.apply(config.endpoint.tool_call_transforms, raw, fired)
    given = id_of(raw)
    name, arguments = call_parts(raw)
    call = judge_call(name, arguments, config, toolbox, in_text=in_text)
    fired += call.repairs
    # The prefix marks calls parsed from text: no model may choose it for a native call.
    is_forged = not in_text and given.startswith(FROM_TEXT)
    claimed = ids.claim(f"call_{given}" if is_forged else given)
    return msgspec.structs.replace(
        call,
        id=claimed,
        extra=call_extra(raw),
        from_text=in_text,
        first_id=given if given and claimed != given else None,
    )


def judge_call(
    name: str,
    arguments: Any,
    config: ToolCallingConfig,
    toolbox: Toolbox,
    *,
    in_text: bool = False,
) -> ToolCall:
    """Resolve a name and read the arguments: a call that may run, or one with a problem."""
    tool = toolbox.resolve(name)
    read = read_arguments(arguments, config.max_tool_args_bytes)
    value, problem, steps = read.value or {}, read.problem, read.repairs
    if tool is None:
        problem = _unknown_tool(name, toolbox)
    elif problem is None:
        fitted = _fitted(value, tool, config)
        value, steps = fitted.value, (*steps, *fitted.steps)
        problem = _refusal(value, tool, config)
    if tool is not None and problem is not None and config.endpoint.coerce_arguments:
        only = _only_reading(arguments, read, tool, config, toolbox, in_text=in_text)
        if only is not None:
            value, problem, steps = only.value, None, (*read.repairs, *only.steps)
    resolved = name if tool is None else tool.name
    return ToolCall(
        "",
        resolved,
        value,
        problem,
        repairs=tuple(dict.fromkeys(steps)),
        asked=name if name != resolved else None,
        arguments_bytes=read.size,
    )


def judge_given(
    name: str, arguments: JSON, config: ToolCallingConfig, toolbox: Toolbox
) -> ToolCall:
    """Judge a call whose arguments somebody else has set; nothing in them is mended."""
    strict = config.replace(
        coerce_arguments=False, decode_html_entities=False, stringify_containers=False
    )
    own = msgspec.json.decode(encode(arguments))
    call = judge_call(name, own, strict, toolbox)
    # Only now, for what is nested too deeply has its problem already.
    if call.problem is None and not is_finite(arguments):
        return msgspec.structs.replace(call, problem=_NO_NUMBER)
    return call


def _fitted(value: JSON, tool: ToolDefinition, config: ToolCallingConfig) -> Coerced:
    """Make arguments what the tool expects, where the config allows it and nothing is lost."""
    steps: list[str] = []
    if config.endpoint.decode_html_entities:
        value = without_entities(value, steps)
    if config.endpoint.coerce_arguments:
        coerced = tool.coerce(value)
        steps += coerced.steps
        value = coerced.value
    if config.endpoint.stringify_containers:
        value = with_texts(value, tool.spec.parameters, steps)
    return Coerced(value, tuple(steps))


def _refusal(value: JSON, tool: ToolDefinition, config: ToolCallingConfig) -> Problem | None:
    errors = tool.validate(value) if config.validate_arguments else ()
    message = "Fix the arguments: " + "; ".join(errors)
    return Problem(ErrorCode.ARGUMENT_ERROR, message) if errors else None


def _only_reading(
    raw: Any,
    read: Arguments,
    tool: ToolDefinition,
    config: ToolCallingConfig,
    toolbox: Toolbox,
    *,
    in_text: bool,
) -> Coerced | None:
    """Return what arguments that were refused can only mean, if there is one such meaning."""
    # Of a call in text that cannot be read, nobody knows where it ends.
    too_large = read.problem is not None and read.problem.code is ErrorCode.ARGUMENTS_TOO_LARGE
    if too_large or (in_text and read.value is None):
        return None
    expected = Expected(
        lambda name: toolbox.resolve(name) is tool,
        tuple(tool.spec.parameters["properties"]),
        lambda value: _fitted(value, tool, config),
        tool.validate.disproofs,
    )
    return only_reading(raw, read.value, expected)


def _unknown_tool(name: str, toolbox: Toolbox) -> Problem:
    names = [definition.name for definition in toolbox.definitions]
    near = nearest(name, names)
    known = names if len(names) <= SHORT_LIST else near
    hint = f"Did you mean {near[0]!r}? " if near else ""
    listed = f"Tools: {', '.join(known)}." if known else "Answer without it."
    return Problem(ErrorCode.TOOL_NOT_ALLOWED, f"There is no tool {name[:64]!r}. {hint}{listed}")


def _cut_off(call: ToolCall) -> ToolCall:
    """Refuse a call of a reply that did not reach its end, even if it looks complete."""
    if call.problem is not None and call.problem.code is ErrorCode.ARGUMENTS_TOO_LARGE:
        return call  # what was written by then is too much already
    problem = truncated(Arguments(call.arguments, call.arguments_bytes)).problem
    return msgspec.structs.replace(call, problem=problem)
