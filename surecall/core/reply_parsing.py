"""Parse a response body into a reply: repair it, extract its calls, and check them.

    body ─► envelope ─► message ─► call protocol ─► calls ─► ids ─► names ─► arguments ─► validation

Every step is tolerant and named; the names of the steps that changed something are in
`Reply.fired`. A canonical body needs no repair and skips the transforms. No vendor is mentioned
here: quirks are transforms, chosen by the config.
"""

from functools import partial
from typing import Any

import msgspec

from surecall.core.ambiguous_calls import accept_text_calls, reject_guided_copies
from surecall.core.cut_calls import join_continuation, refuse_cut_calls, refuse_unjoined_calls
from surecall.core.protocols import decode_message
from surecall.parsing.argument_candidates import (
    TargetTool,
    encode_containers,
    find_misplaced_content,
    sole_candidate,
    split_call_name,
    unescape_arguments,
)
from surecall.parsing.arguments import ParsedArguments, parse_arguments
from surecall.parsing.budget import MAX_CALLS, MAX_VALUES, WorkBudget, value_count_bound
from surecall.parsing.coercion import Coercion
from surecall.parsing.names import nearest_names
from surecall.settings.config import ToolCallingConfig
from surecall.tools.registry import Toolbox, ToolDefinition
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Plan, Problem, Reply, ToolCall, is_blank
from surecall.wire.call_styles import TextCalls
from surecall.wire.chat_format import (
    TEXT_CALL_ID_PREFIX,
    encode,
    is_finite,
    name_and_arguments,
    parse_usage,
    raw_call_id,
    raw_calls,
)
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import MAX_REASON_LENGTH, FinishKind, finish_kind
from surecall.wire.finish_reasons import worst_finish_reason as finish_reason_of
from surecall.wire.history_repair import CallIds, used_call_ids
from surecall.wire.provider_state import call_extra, message_extra
from surecall.wire.response import HINTS, parse_choice
from surecall.wire.text_calls import ExtractedCalls, extract_text_calls
from surecall.wire.text_edges import starts_with_content, trim_edges
from surecall.wire.transforms import BODY, RESPONSE, TOOL_CALL
from surecall.wire.transforms.response_transforms import (
    assistant_content_edges_trimmed,
    assistant_content_tool_call_tags_to_tool_calls,
    choices_of_one_turn_joined,
    failed_generation_to_message,
)

# Canonical bodies need no repair, so they skip the transforms.
#
# A body is canonical by its form alone: one choice, whose message is not empty, with its text in
# `content` and its calls in `tool_calls`, each with a name and arguments as text. Every transform
# of bodies and messages returns such a body unchanged. The text and the arguments are still parsed.

# What transforms look for in a name: argument tags, and calls inside a call.
_MALFORMED_NAME_MARKS = ("<arg_key>", "multi_tool_use")


def is_canonical(body: object) -> bool:
    """Whether no transform would change a response body."""
    if not isinstance(body, dict) or body.get("error"):
        return False
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return False
    message = choices[0].get("message")
    if not isinstance(message, dict) or "function_call" in message:
        return False
    content, calls = message.get("content"), message.get("tool_calls")
    if content not in (None, "") and not (
        isinstance(content, str) and starts_with_content(content)
    ):
        return False
    if calls in (None, []):
        return bool(content)
    return isinstance(calls, list) and all(map(_is_canonical_call, calls))


def _is_canonical_call(call: object) -> bool:
    """Whether no transform would change a call."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return False
    name = function.get("name")
    return (
        isinstance(name, str)
        and bool(name.strip())
        and not any(mark in name for mark in _MALFORMED_NAME_MARKS)
    )


MAX_LISTED_TOOLS = 12
# What comparing two names costs of a work budget.
_COMPARISON_COST = 50
_MALFORMED = Problem(
    ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
    "This call arrived malformed and did not run. Make the call again, with all its arguments.",
)
_NOT_FINITE = Problem(ErrorCode.ARGUMENT_ERROR, "NaN and infinity are not allowed in JSON.")
FAILED_GENERATION = failed_generation_to_message.__name__
TAG_CALLS = assistant_content_tool_call_tags_to_tool_calls.__name__
EDGES_TRIMMED = assistant_content_edges_trimmed.__name__
CHOICES_JOINED = choices_of_one_turn_joined.__name__


def parse_reply(
    body: Any,
    plan: Plan,
    config: ToolCallingConfig,
    toolbox: Toolbox,
    budget: WorkBudget | None = None,
) -> Reply | Fault:
    """Parse a decoded response: repair it, extract the calls, check them within one budget."""
    repairs: list[str] = []
    if not (canonical := is_canonical(body)):
        body = _repaired_body(body, plan, config, repairs)
    choice = parse_choice(body)
    if isinstance(choice, Fault):
        return choice
    original = raw if isinstance(raw := choice.get("message"), dict) else {}
    if (fault := _size_fault(original)) is not None:
        return fault
    repaired = _repaired_message(original, plan, config, repairs, is_canonical_body=canonical)
    judge = _Judgement(config, toolbox, budget or WorkBudget())
    reading = _extract_calls(repaired, plan, judge, is_salvaged=FAILED_GENERATION in repairs)
    message, finish_reason = reading.message, finish_reason_of(choice)
    repairs += reading.repairs
    if message is not original and (fault := _size_fault(message)) is not None:
        return fault
    calls = _parse_calls(reading, plan, judge, repairs)
    text = _answer_text(message, config, repairs)
    if not calls and (fault := _withheld_fault(finish_reason, text, repairs)) is not None:
        return fault
    return Reply(
        text,
        _refuse_unfinished(calls, finish_reason, reading, repaired, plan, config),
        finish_reason,
        parse_usage(body.get("usage")),
        _text_field(body, "model"),
        _text_field(body, "provider"),
        _text_field(body, "id"),
        tuple(repairs),
        message_extra(message, original),
        reading.claims,
    )


def may_contain_calls(body: Any) -> bool:
    """Whether a decoded response has text that may contain a call."""
    match body:
        case {"choices": [{"message": {"content": str(text)}}, *_]}:
            return any(mark in text for mark in "<{[(")
        case _:
            return False


def _answer_text(message: JSON, config: ToolCallingConfig, repairs: list[str]) -> str:
    """Return the text of a message, without end tokens and invisible characters at its edges."""
    text = text_of(message.get("content"))
    if EDGES_TRIMMED not in config.endpoint.response_transforms:
        return text
    answer = trim_edges(text)
    if answer is not text and EDGES_TRIMMED not in repairs:
        repairs.append(EDGES_TRIMMED)
    return answer


def _repaired_body(body: Any, plan: Plan, config: ToolCallingConfig, repairs: list[str]) -> Any:
    """Return a body with its transforms applied; add their names to `repairs`."""
    is_object = isinstance(body, dict)
    return BODY.apply(_body_transforms(plan, config), body, repairs) if is_object else body


def _repaired_message(
    original: JSON,
    plan: Plan,
    config: ToolCallingConfig,
    repairs: list[str],
    *,
    is_canonical_body: bool,
) -> JSON:
    """Return a message with its transforms applied; add their names to `repairs`."""
    message = original
    if not is_canonical_body:
        message = RESPONSE.apply(config.endpoint.response_transforms, original, repairs)
    if config.call_protocol == "guided":
        message = _strip_json_surroundings(message, config, repairs)
    return join_continuation(message, plan)


def _strip_json_surroundings(message: JSON, config: ToolCallingConfig, repairs: list[str]) -> JSON:
    """Return a guided message with its text trimmed to the JSON."""
    text = _answer_text(message, config, repairs)
    return message if text == message.get("content") else message | {"content": text}


def _body_transforms(plan: Plan, config: ToolCallingConfig) -> tuple[str, ...]:
    """Return the body transforms; several requested choices (`n`) are not joined into one."""
    asked = plan.options.get("n")
    several = not (asked is None or asked == 1)
    return tuple(
        name for name in config.endpoint.body_transforms if not (several and name == CHOICES_JOINED)
    )


def _withheld_fault(finish_reason: str | None, text: str, repairs: list[str]) -> Fault | None:
    """Return why a reply was withheld: the provider could not parse it, or a filter blocked it.

    A blocked reply is not retried: the filter would block it again.
    """
    if FAILED_GENERATION in repairs:
        sentence = "the provider could not parse the model's output"
        return Fault(ErrorCode.MALFORMED_CALL, sentence, retryable=True)
    if not is_blank(text) or finish_kind(finish_reason) is not FinishKind.FILTERED:
        return None
    sentence = f"the provider blocked the reply: {str(finish_reason)[:MAX_REASON_LENGTH]}"
    return Fault(ErrorCode.CONTENT_POLICY, sentence, hint=HINTS[ErrorCode.CONTENT_POLICY])


def _refuse_unfinished(
    calls: tuple[ToolCall, ...],
    finish_reason: str | None,
    reading: ExtractedCalls,
    message: JSON,
    plan: Plan,
    config: ToolCallingConfig,
) -> tuple[ToolCall, ...]:
    """Refuse the calls of a reply that was cut off, filtered, or reported as malformed."""
    match finish_kind(finish_reason):
        case FinishKind.CUT_OFF:
            written = _written_call(reading, message) if len(calls) == 1 else ""
            return refuse_cut_calls(calls, written, plan, config.max_tool_args_bytes)
        case FinishKind.FILTERED:
            return refuse_cut_calls(calls, "", plan, 0)
        case FinishKind.MALFORMED:
            return tuple(msgspec.structs.replace(call, problem=_MALFORMED) for call in calls)
        case _:
            return refuse_unjoined_calls(calls, plan)


def _written_call(reading: ExtractedCalls, message: JSON) -> str:
    """Return the only call of a reply as the model wrote it: its arguments, or the whole text."""
    if reading.requested_calls or not raw_calls(message):
        return text_of(message.get("content"))
    arguments = name_and_arguments(raw_calls(message)[0])[1]
    return arguments if isinstance(arguments, str) else ""


class _Judgement:
    """Judges the calls of one reply, each once, within one budget."""

    def __init__(self, config: ToolCallingConfig, toolbox: Toolbox, budget: WorkBudget) -> None:
        self.config = config
        self.budget = budget
        self._toolbox = toolbox
        # Keeps the raw calls alive, so their ids stay unique.
        self._judged: dict[int, tuple[JSON, JSON, ToolCall, list[str]]] = {}

    def repair_call(self, raw: JSON, *, in_text: bool) -> tuple[JSON, ToolCall, list[str]]:
        """Return a raw call repaired, the call with its problem, and the names of the repairs."""
        if id(raw) not in self._judged:
            steps: list[str] = []
            fixed = TOOL_CALL.apply(self.config.endpoint.tool_call_transforms, raw, steps)
            name, arguments = name_and_arguments(fixed)
            call = resolve_call(
                name, arguments, self.config, self._toolbox, in_text=in_text, budget=self.budget
            )
            self._judged[id(raw)] = (raw, fixed, call, [*steps, *call.repairs])
        return self._judged[id(raw)][1:]

    def with_called_tools(self, plan: Plan, reading: ExtractedCalls) -> Plan:
        """Return the plan with the tools that a text calls and that are not exposed.

        Such a call is valid, so the rules for calls in text must know its tool.
        """
        if not reading.requested_calls:
            return plan
        exposed = {spec.name for spec in plan.tools}
        called = filter(None, map(self._toolbox.resolve, dict.fromkeys(reading.tool_names)))
        hidden = {tool.name: tool.spec for tool in called if tool.name not in exposed}
        return (
            msgspec.structs.replace(plan, tools=(*plan.tools, *hidden.values())) if hidden else plan
        )

    def resolve(self, raw: JSON, *, in_text: bool) -> tuple[str, Any]:
        """Return the tool and the arguments that a call would run with."""
        fixed, call, _ = self.repair_call(raw, in_text=in_text)
        return call.name, name_and_arguments(fixed)[1] if call.problem else call.arguments


def _extract_calls(
    message: JSON, plan: Plan, judge: _Judgement, *, is_salvaged: bool
) -> ExtractedCalls:
    """Extract the calls of the call protocol, and calls written as text that are unambiguous."""
    config = judge.config
    decoded = decode_message(config.call_protocol, message, plan)
    # A guided answer contains no calls, whatever it quotes.
    is_answer = decoded is not message and not raw_calls(decoded)
    # Where the application forbids calls, text that looks like one is part of the answer.
    forbids = config.tool_choice == "none" and plan.tool_choice in {None, "none"}
    mode: TextCalls = "off" if is_answer or forbids else text_calls_mode(config)
    # A guided reply that begins as JSON is meant as a call, whatever its keys.
    is_json = config.call_protocol == "guided" and _begins_json(text_of(decoded.get("content")))
    if is_salvaged or (is_json and not is_answer):
        mode = "any"
    reading = extract_text_calls(
        decoded, plan.tools, mode, strip_thinking=config.endpoint.strip_thinking
    )
    plan = judge.with_called_tools(plan, reading)
    resolve = partial(judge.resolve, in_text=bool(reading.requested_calls))
    if decoded is not message and not is_answer:
        return reject_guided_copies(reading, message, plan, config, resolve, judge.budget)
    config = _salvage_config(config) if is_salvaged else config
    return accept_text_calls(reading, plan, config, resolve, judge.budget)


def _salvage_config(config: ToolCallingConfig) -> ToolCallingConfig:
    """Return the config for text that the provider failed to parse: it was meant as a call."""
    rules = config.endpoint.text_call_rules
    return config.replace(text_call_rules=tuple(rule for rule in rules if rule == "own_words"))


def _size_fault(message: JSON) -> Fault | None:
    """Return why the calls of a reply are too large to parse; None if they are not.

    Arguments are JSON in a string, which may be nested in further strings; so may all calls be.
    """
    calls = raw_calls(message)
    if len(calls) > MAX_CALLS:
        sentence = f"The answer has more than {MAX_CALLS} calls."
        return Fault(ErrorCode.RESPONSE_TOO_LARGE, sentence)
    given = (message.get("tool_calls"), *[name_and_arguments(call)[1] for call in calls])
    texts = [text for text in given if isinstance(text, str)]
    if sum(map(len, texts)) <= MAX_VALUES:  # each value takes a character at least
        return None
    values = sum(value_count_bound(text.encode("utf-8", "replace")) for text in texts)
    sentence = f"The arguments of the answer's calls may hold more than {MAX_VALUES} values."
    return Fault(ErrorCode.RESPONSE_TOO_LARGE, sentence) if values > MAX_VALUES else None


def _begins_json(text: str) -> bool:
    return text.lstrip()[:1] in {"{", "[", "`"}


def text_calls_mode(config: ToolCallingConfig) -> TextCalls:
    """Return which calls to parse from text; text protocols parse at least marked ones."""
    by_text = config.call_protocol != "native" or TAG_CALLS in config.endpoint.response_transforms
    return (
        "marked" if by_text and config.endpoint.text_calls == "off" else config.endpoint.text_calls
    )


def _text_field(mapping: JSON, key: str) -> str | None:
    """Return the value of a key if it is text."""
    value = mapping.get(key)
    return value if isinstance(value, str) else None


def _parse_calls(
    reading: ExtractedCalls, plan: Plan, judge: _Judgement, repairs: list[str]
) -> tuple[ToolCall, ...]:
    """Parse the calls of a message, each with an id that is unused in the conversation."""
    requested = raw_calls(reading.message)
    ids = used_call_ids(plan.messages) if requested else CallIds()
    in_text = bool(reading.requested_calls)
    return tuple(_parse_call(raw, judge, ids, repairs, in_text=in_text) for raw in requested)


def _parse_call(
    raw: JSON, judge: _Judgement, ids: CallIds, repairs: list[str], *, in_text: bool
) -> ToolCall:
    raw, call, steps = judge.repair_call(raw, in_text=in_text)
    given = raw_call_id(raw)
    repairs += steps
    # The prefix marks calls parsed from text: no model may choose it for a native call.
    is_forged = not in_text and given.startswith(TEXT_CALL_ID_PREFIX)
    claimed = ids.claim(f"call_{given}" if is_forged else given)
    return msgspec.structs.replace(
        call,
        id=claimed,
        extra=call_extra(raw),
        from_text=in_text,
        first_id=given if given and claimed != given else None,
    )


def resolve_call(
    name: str,
    arguments: Any,
    config: ToolCallingConfig,
    toolbox: Toolbox,
    *,
    in_text: bool = False,
    budget: WorkBudget | None = None,
) -> ToolCall:
    """Resolve the name and parse the arguments of a call; a `problem` means it must not run."""
    budget = budget or WorkBudget()
    tool = toolbox.resolve(name)
    if tool is None and '="' in name:
        name, arguments = split_call_name(name, arguments)
        tool = toolbox.resolve(name)
    read = parse_arguments(arguments, config.max_tool_args_bytes)
    value, problem, steps = read.value or {}, read.problem, read.repairs
    if tool is None:
        problem = _unknown_tool_problem(name, toolbox, budget)
    elif problem is None:
        fitted = _fit_arguments(value, tool, config, budget)
        value, steps = fitted.value, (*steps, *fitted.steps)
        problem = _validation_problem(value, tool, config, budget)
    can_differ = not budget.is_exhausted and _can_be_reinterpreted(read, config, in_text=in_text)
    if tool is not None and problem is not None and can_differ:
        only = _only_candidate(arguments, read, tool, config, toolbox, budget)
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


def resolve_given_call(
    name: str, arguments: JSON, config: ToolCallingConfig, toolbox: Toolbox
) -> ToolCall:
    """Resolve a call whose arguments the application set; they are validated but not repaired."""
    strict = config.replace(
        coerce_arguments=False, decode_html_entities=False, stringify_containers=False
    )
    own = msgspec.json.decode(encode(arguments))
    call = resolve_call(name, own, strict, toolbox)
    # Checked last: arguments nested too deeply already have a problem.
    if call.problem is None and not is_finite(arguments):
        return msgspec.structs.replace(call, problem=_NOT_FINITE)
    return call


def _fit_arguments(
    value: JSON, tool: ToolDefinition, config: ToolCallingConfig, budget: WorkBudget
) -> Coercion:
    """Coerce arguments to what the tool expects, where the config allows it and nothing is lost."""
    steps: list[str] = []
    if config.endpoint.decode_html_entities:
        value = unescape_arguments(value, steps)
    if config.endpoint.coerce_arguments:
        coerced = tool.coerce(value, budget)
        steps += coerced.steps
        value = coerced.value
    if config.endpoint.stringify_containers:
        value = encode_containers(value, tool.spec.parameters, steps)
    return Coercion(value, tuple(steps))


def _validation_problem(
    value: JSON, tool: ToolDefinition, config: ToolCallingConfig, budget: WorkBudget
) -> Problem | None:
    misplaced = find_misplaced_content(value, tool.spec.parameters["properties"])
    if misplaced:
        return Problem(ErrorCode.ARGUMENT_ERROR, f"The arguments did not arrive whole. {misplaced}")
    errors = tool.validate(value, budget) if config.validate_arguments else ()
    message = "Fix the arguments: " + "; ".join(errors)
    return Problem(ErrorCode.ARGUMENT_ERROR, message) if errors else None


def _can_be_reinterpreted(
    parsed_arguments: ParsedArguments, config: ToolCallingConfig, *, in_text: bool
) -> bool:
    """Whether refused arguments may have another meaning."""
    too_large = (
        parsed_arguments.problem is not None
        and parsed_arguments.problem.code is ErrorCode.ARGUMENTS_TOO_LARGE
    )
    # The end of an unparsable call in text is unknown.
    is_open = in_text and parsed_arguments.value is None
    return config.endpoint.coerce_arguments and not too_large and not is_open


def _only_candidate(
    raw: Any,
    parsed_arguments: ParsedArguments,
    tool: ToolDefinition,
    config: ToolCallingConfig,
    toolbox: Toolbox,
    budget: WorkBudget,
) -> Coercion | None:
    """Return the only valid meaning of refused arguments; None without one or with several."""
    expected = TargetTool(
        lambda name: toolbox.resolve(name) is tool,
        tuple(tool.spec.parameters["properties"]),
        lambda value: _fit_arguments(value, tool, config, budget),
        lambda value: tool.validate.rejections(value, budget),
    )
    only = sole_candidate(raw, parsed_arguments.value, expected)
    # Without budget, further meanings may be unchecked.
    if only is None or budget.is_exhausted:
        return None
    return None if find_misplaced_content(only.value, expected.properties) else only


def _unknown_tool_problem(name: str, toolbox: Toolbox, budget: WorkBudget) -> Problem:
    names = [definition.name for definition in toolbox.definitions]
    near = nearest_names(name, names) if budget.spend(_COMPARISON_COST * len(names)) else ()
    known = names if len(names) <= MAX_LISTED_TOOLS else near
    hint = f"Did you mean {near[0]!r}? " if near else ""
    listed = f"Tools: {', '.join(known)}." if known else "Answer without it."
    return Problem(ErrorCode.TOOL_NOT_ALLOWED, f"There is no tool {name[:64]!r}. {hint}{listed}")
