"""`surecall explain`: how a raw response, stream, or text is parsed, and why.

The reply is parsed as in a run with the default presets and all dialects. A text that is one
object of the guided protocol is parsed as in a guided run. `explain` and `render` are pure; only
`command` reads files and prints.
"""

import codecs
import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import click
import msgspec

from surecall.cli.console import (
    FAILED,
    ExitCode,
    WholeNumber,
    json_line,
    print_exact,
    print_note,
    print_text,
)
from surecall.cli.error_bodies import (
    body_fault,
    is_error_object,
    json_fault,
    require_utf8,
    too_large_fault,
    truncated_json_fault,
    truncated_stream_fault,
)
from surecall.core.guided.protocol import BEFORE_A_STEP
from surecall.core.reply_parsing import parse_reply
from surecall.core.streaming import ResponseReader
from surecall.parsing.arguments import REPAIRS
from surecall.parsing.budget import FRAMING_FACTOR, MAX_BYTES
from surecall.parsing.names import is_legal_name
from surecall.runtime.retrying_requests import is_success
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import PRESET
from surecall.tools.registry import ToolRegistry, specs_of
from surecall.values.errors import ConfigError, ErrorCode, Fault, ProviderError
from surecall.values.text import quantity
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolSpec, is_blank
from surecall.wire.assembler import Assembler
from surecall.wire.chat_format import decode, raw_call_id
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import recover
from surecall.wire.finish_reasons import CALLS_EXPECTED, finish_kind
from surecall.wire.response import parse_fault
from surecall.wire.text_calls import TEXT_CALL_PREFIX
from surecall.wire.transforms import BODY, RESPONSE, TOOL_CALL
from surecall.wire.transforms.response_transforms import failed_generation

Sentences: TypeAlias = tuple[str, ...]
FALLBACK: Final = "content_tag_tool_call_fallback"
# How bare JSON begins, in a fence or not.
_JSON_STARTS: Final = frozenset("{[`")

_RETRY_WILL_NOT_HELP: Final = "A retry will not help."
_FAULT_ADVICE: Final[dict[ErrorCode, Sentences]] = {
    ErrorCode.NO_TOOL_USE_ENDPOINT: (
        _RETRY_WILL_NOT_HELP,
        "`surecall proxy --model-preset guided_calls` requests calls without `tools`.",
    ),
    ErrorCode.BAD_REQUEST: (
        "The endpoint rejects the request. The reply is not at fault.",
        "`surecall proxy` repairs histories that endpoints reject.",
    ),
}
_PROBLEM_ADVICE: Final[dict[ErrorCode, Sentences]] = {
    ErrorCode.ARGUMENTS_TRUNCATED: (
        "The reply was truncated: raise `max_tokens`, or the server's context size.",
        "surecall runs none of its calls, and re-prompts the model.",
    ),
    ErrorCode.TOOL_NOT_ALLOWED: (
        "surecall does not run a tool with a similar name instead.",
        "It sends the model the list of tools, and re-prompts it.",
    ),
}
_RETRIED: Final = ("The error may be temporary. surecall retries the request.",)
_NOT_RUN: Final = ("surecall does not run this call. It sends the reason back to the model.",)
_CONFIRMED_FIRST: Final = (
    "surecall does not run this. It asks the model whether it means a call.",
)
_BY_DEFAULT: Final = {
    True: "By default, surecall asks the model whether it means a call.",
    False: "By default, surecall treats this as a text answer.",
}
_WITH_PRESET: Final = f"With the preset {FALLBACK}, it runs the call."
_WRONG_PARSER: Final = (
    "The server's tool parser or chat template does not fit the model.",
    "surecall runs the call. `surecall proxy` repairs it for any client.",
)
_MALFORMED: Final = (
    "A client that does not repair replies fails on this one.",
    "surecall runs the call. `surecall proxy` repairs it for any client.",
)
_WELL_FORMED: Final = ("The reply is valid. If your agent fails on it, the cause is elsewhere.",)
_EMPTY: Final = ("surecall re-prompts the model once, then fails with an error.",)
_TEXT_ANSWER: Final = ("The model replied with text. surecall treats it as the final answer.",)
_BARE_JSON: Final = ("Unmarked JSON is a call only if it names a tool: add --tools.",)


def step_meaning(step: str) -> Sentences:
    """Return what a repair step found; empty if its name is self-explanatory."""
    if step.startswith(TEXT_CALL_PREFIX):
        return ("The call was written as text, not in `tool_calls`.",)
    helps = [family.help(step) for family in (BODY, RESPONSE, TOOL_CALL) if step in family.names]
    return tuple(helps or [REPAIRS[name] for name in [step] if name in REPAIRS])


def fault_advice(fault: Fault) -> Sentences:
    """Return what surecall does about a failed request, and what the user can do."""
    return _FAULT_ADVICE.get(fault.code) or (
        _RETRIED if fault.retryable else (_RETRY_WILL_NOT_HELP,)
    )


def reply_advice(
    all_calls: Reply, by_rules: Reply, by_default: Reply, *, is_malformed: bool, has_tools: bool
) -> Sentences:
    """Return what surecall does about a reply, and what the user can do.

    `all_calls` accepts every call in text, `by_rules` only those that the rules allow, and
    `by_default` is the reply without the preset for calls in text.
    """
    if all_calls.calls:
        return _calls_advice(all_calls.calls, by_rules, by_default, is_malformed=is_malformed)
    if by_rules.claims or by_default.claims:
        return _CONFIRMED_FIRST
    if is_blank(all_calls.text):
        return _EMPTY
    is_bare = not has_tools and all_calls.text.lstrip()[:1] in _JSON_STARTS
    return _BARE_JSON if is_bare else _TEXT_ANSWER


def _calls_advice(
    calls: Sequence[ToolCall], by_rules: Reply, by_default: Reply, *, is_malformed: bool
) -> Sentences:
    problem = next((call.problem for call in calls if call.problem is not None), None)
    if problem is not None:
        return _PROBLEM_ADVICE.get(problem.code, _NOT_RUN)
    if not by_rules.calls:
        return _CONFIRMED_FIRST
    if not by_default.calls:
        return (_BY_DEFAULT[bool(by_default.claims)], _WITH_PRESET)
    if any(call.from_text for call in calls):
        return _WRONG_PARSER
    return _MALFORMED if is_malformed else _WELL_FORMED


GUIDED_STEP = "guided_reply"
ERROR = "error"
# Faults of a body that is neither a reply nor an error in the API's format.
_UNREADABLE = frozenset(
    {ErrorCode.CONNECTION_ERROR, ErrorCode.DECODE_ERROR, ErrorCode.RESPONSE_TOO_LARGE}
)
# The defaults of a run, and every dialect of calls in text.
PRESETS = ("default_tool_calling", FALLBACK)
ANSWER_KEYS = frozenset({"choices", "error", "data", "object"})
# Events of a stream begin with a field name or a comment.
_STREAM_START = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:(?:event|id|retry)?:[^\r\n]*[\r\n]\s*)*data:\s*[\[{]"
    # An error may not be JSON, and a stream may end before its first data.
    rb"|\A(?:event:\s*error\s*[\r\n]|(?:(?:event)?:[^\r\n]*[\r\n]\s*)+\Z)"
)
# The most bytes of any response, and the chunk size for parsing streams.
_MAX_INPUT_BYTES: Final = FRAMING_FACTOR * MAX_BYTES
_CHUNK_BYTES: Final = 65_536
# A text may have one invalid byte in this many characters.
_CHARS_PER_BAD_BYTE: Final = 10
# Limits of `render` for each text and each list.
MAX_SHOWN_CHARS: Final = 500
MAX_LISTED: Final = 20
# Why a call in text breaks a rule.
_RULE_REASONS = {
    "whole": "it is incomplete, or an extra closing mark follows",
    "own_words": "it may be quoted",
    "marked": "its marks may mean something else",
    "last_words": "more text follows it",
    "only_way": "the model also makes native calls",
    "not_destructive": "the tool is destructive",
}
# The guided protocol parses nothing unless there is a tool.
_SOME_TOOL = (ToolSpec("-", "", {}),)


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--tools", type=click.File("rb"), help="JSON list of the tools that were offered.")
@click.option("--status", type=WholeNumber(100, 599), help="HTTP status of the response.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *, file: BinaryIO, tools: BinaryIO | None, status: int | None, as_json: bool
) -> ExitCode:
    """Explain how surecall reads a raw response, stream, or text.

    FILE is a file, or - for standard input. Shows the calls, the repairs, what is not a call and
    why, and what to do. Long texts and lists are shortened, except with --json. Exits with 1 if
    there is no model reply, such as for a gateway's error page or a truncated response.
    """
    if file.isatty():
        print_note("reading standard input; press Ctrl-D to end it")
    explanation = explain(file.read(_MAX_INPUT_BYTES + 1), _read_tools(tools), status)
    if as_json:
        print_exact(json_line(msgspec.to_builtins(explanation)))
    else:
        print_text(render(explanation))
    return FAILED if explanation.unreadable else 0


def _read_tools(file: BinaryIO | None) -> list[Any]:
    if file is None:
        return []
    try:
        tools = decode(file.read())
    except ValueError:
        raise ConfigError("--tools is not JSON: pass a list of tool definitions") from None
    return require_tool_list(tools)


def require_tool_list(tools: Any) -> list[Any]:
    """Return the value of --tools; raise if it is not a list."""
    if not isinstance(tools, list):
        raise ConfigError("--tools must be a JSON list of tool definitions")
    return tools


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a response was parsed. `problem` of a call is the reason why it would not run.

    `asked` of a call is its original name, if that was repaired; `id` is a duplicate id, or null if
    it was missing. `claims` are the calls in text that surecall would ask the model about, each
    with the rule that it breaks. `unreadable` means that there is neither a reply nor an error in
    the API's format.
    """

    kind: str
    steps: tuple[str, ...] = ()
    calls: tuple[JSON, ...] = ()
    text: str = ""
    passed_over: tuple[JSON, ...] = ()
    fault: str = ""
    claims: tuple[JSON, ...] = ()
    advice: tuple[str, ...] = ()
    unreadable: bool = False


def explain(data: bytes, tools: Sequence[JSON] = (), status: int | None = None) -> Explanation:
    """Explain a response body or the events of a stream; anything else counts as a model's text.

    `status` is the HTTP status of the response, which decides how errors are explained.
    """
    failure = None if status is None or is_success(status) else status
    kind, answer = _parse_input(data, failure)
    read = answer if isinstance(answer, Fault) else _interpret(answer, tools, failure)
    if isinstance(read, Fault):
        return _fault_explanation(kind, read)
    reply, content = read.all_calls, _message_text(read.answer)
    left = recover(content, read.specs, weak=True).passed_over
    found = (*reply.calls, *left, *read.by_rules.claims)
    if kind == "text" and not found and (cut := truncated_json_fault(data)):
        return _fault_explanation(kind, cut)
    shown = [_call_json(call, read, judged=bool(tools)) for call in reply.calls]
    steps = (*([GUIDED_STEP] if read.is_guided else []), *reply.fired)
    is_malformed = bool(reply.fired) or any(call.keys() & {"asked", "id"} for call in shown)
    return Explanation(
        kind,
        steps,
        tuple(shown),
        read.by_rules.text,
        tuple({"at": item.start, "text": item.snippet, "reason": item.reason} for item in left),
        _empty_reason(reply, content),
        tuple({"name": claim.name, "rule": claim.rule} for claim in read.by_rules.claims),
        reply_advice(
            reply, read.by_rules, read.by_default, is_malformed=is_malformed, has_tools=bool(tools)
        ),
    )


def _fault_explanation(kind: str, fault: Fault) -> Explanation:
    unreadable = kind == ERROR or fault.code in _UNREADABLE
    return Explanation(kind, fault=str(fault), advice=fault_advice(fault), unreadable=unreadable)


class _Readings(NamedTuple):
    """A response parsed in three ways: see `reply_advice`."""

    answer: JSON
    is_guided: bool
    specs: tuple[ToolSpec, ...]
    all_calls: Reply
    by_rules: Reply
    by_default: Reply


def _interpret(body: JSON, tools: Sequence[JSON], error_status: int | None) -> _Readings | Fault:
    """Parse a body as in a run; with an error status, it is always an error."""
    failed = error_status is not None and failed_generation(body) is None
    return (
        parse_fault(body, error_status, {}, 0.0)
        if failed or is_error_object(body)
        else _parse_three_ways(body, tools)
    )


def _parse_three_ways(body: JSON, tools: Sequence[JSON]) -> _Readings | Fault:
    """Parse a body under three configs; called tools exist if no tools are given."""
    guided = _is_guided(_message_text(body))
    every, usual = config_with(PRESETS, guided=guided), config_with(PRESETS[:1], guided=guided)
    believing = every.replace(text_call_rules=())
    registry = ToolRegistry(tools)
    believed = parse_reply(body, _plan(specs_of(registry)), believing, registry)
    if not tools and isinstance(believed, Reply):
        # Without a list of tools, the called ones are assumed to exist.
        names = dict.fromkeys(call.name for call in believed.calls if is_legal_name(call.name))
        registry = ToolRegistry([{"name": name} for name in names])
    specs = specs_of(registry)
    readings = [parse_reply(body, _plan(specs), how, registry) for how in (believing, every, usual)]
    faults = [reading for reading in readings if isinstance(reading, Fault)]
    replies = [reading for reading in readings if isinstance(reading, Reply)]
    return faults[0] if faults else _Readings(body, guided, specs, *replies)


def _plan(specs: tuple[ToolSpec, ...]) -> Plan:
    """Return the plan of a run with these tools; without tools, those of any run are assumed."""
    return Plan("", (), specs, known_tools=specs or _SOME_TOOL)


def config_with(presets: Sequence[str], *, guided: bool = False) -> ToolCallingConfig:
    """Return the default config under some presets."""
    config = ToolCallingConfig()
    for name in presets:
        config = PRESET[name](config)
    return config.replace(call_protocol="guided") if guided else config


def _is_guided(content: str) -> bool:
    """Whether a text is exactly one object of the guided protocol."""
    try:
        value = decode(content.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    match value:
        case {"tool": str(), "arguments": dict(), **rest}:
            return rest.keys() <= {*BEFORE_A_STEP}
        case {"answer": str(), **rest} | {"cannot": str(), **rest}:
            return rest.keys() <= {*BEFORE_A_STEP}
        case _:
            return False


def _parse_input(data: bytes, error_status: int | None) -> tuple[str, JSON | Fault]:
    """Return the kind of the input, and the input as a response body."""
    require_utf8(data)
    if _STREAM_START.match(data):
        return "stream", _parse_stream(data)
    if data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] not in {b"{", b"["}:
        return _parse_text(data, error_status)
    if len(data) > MAX_BYTES:
        return "response", too_large_fault(f"more than {MAX_BYTES} bytes")
    body = _parse_body(data, error_status)
    return _parse_text(data, error_status) if body is None else ("response", body)


def _parse_stream(data: bytes) -> JSON | Fault:
    """Parse the events of a stream in chunks, as they would arrive."""
    assembler = Assembler(error_parser=lambda error: parse_fault(error, None, {}, 0.0))
    listener = ResponseReader(assembler)
    try:
        for start in range(0, len(data), _CHUNK_BYTES):
            listener.feed(data[start : start + _CHUNK_BYTES])
        listener.close()
    except ProviderError as error:
        return error.fault
    answer: JSON | Fault = assembler.finish()
    is_unread = isinstance(answer, Fault) and answer.code is ErrorCode.DECODE_ERROR
    return (truncated_stream_fault(data) if is_unread else None) or answer


def _parse_body(data: bytes, error_status: int | None) -> JSON | Fault | None:
    """Parse a response body: a fault for invalid JSON, None if it may be a model's text."""
    try:
        value = decode(data)
    except ValueError as error:
        return json_fault(data, error)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # an error in a list, as Google sends it
    if not isinstance(value, dict):
        return None
    is_answer = ANSWER_KEYS & value.keys() or is_error_object(value)
    return value if is_answer or error_status is not None else None


def _parse_text(data: bytes, error_status: int | None) -> tuple[str, JSON | Fault]:
    """Return the kind of a text, and the text as a reply, or the fault that it reports."""
    text = data.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") * _CHARS_PER_BAD_BYTE > len(text):
        raise ConfigError("the input is not text; pass what a model or an endpoint returned")
    if len(data) > MAX_BYTES:
        return "text", too_large_fault(f"more than {MAX_BYTES} bytes")
    if fault := body_fault(text.removeprefix("\ufeff"), error_status):
        return ERROR, fault
    return "text", {"choices": [{"message": {"content": text}}]}


def _message_text(body: JSON) -> str:
    """Return the text of a completion's message."""
    match body:
        case {"choices": [{"message": {"content": content}}, *_]}:
            return text_of(content)
        case _:
            return ""


def _original_call_ids(body: JSON) -> list[str | None]:
    """Return the ids that the body gives its calls."""
    match body:
        case {"choices": [{"message": {"tool_calls": list(calls)}}, *_]}:
            return [raw_call_id(call) for call in calls if isinstance(call, dict)]
        case _:
            return []


def _call_json(call: ToolCall, readings: _Readings, *, judged: bool) -> JSON:
    """Return a call for the explanation; `judged` includes problems of its name."""
    shown: JSON = {"name": call.name, "arguments": call.arguments}
    grounded = next((spec.grounded for spec in readings.specs if spec.name == call.name), {})
    # A run would check grounded arguments against the history, which is not available here.
    if given := {name: tools for name, tools in grounded.items() if name in call.arguments}:
        shown["grounded"] = {name: list(tools) for name, tools in given.items()}
    if call.repairs:
        shown["repairs"] = list(call.repairs)
    if call.asked is not None:
        shown["asked"] = call.asked
    ids = _original_call_ids(readings.answer)
    if ids and call.id not in ids:
        shown["id"] = call.first_id
    # Without a list of tools, an unknown name is not a problem of the call.
    unknown = call.problem is not None and call.problem.code is ErrorCode.TOOL_NOT_ALLOWED
    if call.problem is not None and (judged or not unknown):
        shown["problem"] = f"{call.problem.code}: {call.problem.message}"
    return shown


def _empty_reason(reply: Reply, content: str) -> str:
    """Return why a reply has neither calls nor text; blank if it has."""
    if reply.calls or reply.text.strip() or content.strip():
        return ""
    announced = finish_kind(reply.finish_reason) in CALLS_EXPECTED
    return "the reply announces a call but has none" if announced else "the reply is empty"


def _grounding_text(tools: Sequence[str]) -> str:
    """Return where the value of a grounded argument must have been observed."""
    results = f"in a result of {' or '.join(tools)}"
    return results if tools else "in a user message or a result"


def render(explanation: Explanation) -> str:
    """Format an explanation; long texts and lists are shortened."""
    lines = [f"read as: {explanation.kind}"]
    if explanation.fault:
        lines.append(f"fault: {_shorten(explanation.fault)}")
    for name in dict.fromkeys(explanation.steps):
        lines.append(f"repaired by: {name}")
        lines += [f"  {sentence}" for sentence in step_meaning(name)]
    lines += _limited_lines(explanation.calls, _call_lines, "calls")
    lines += _limited_lines(explanation.claims, _claim_lines, "ambiguous calls")
    lines += _limited_lines(explanation.passed_over, _passed_over_lines, "texts that are not calls")
    if not explanation.calls and not explanation.fault and not explanation.passed_over:
        lines.append("no calls, and nothing that looks like a call")
    if explanation.text.strip():
        lines.append(f"text: {_shorten(explanation.text)}")
    lines += ["in short:", *[f"  {sentence}" for sentence in explanation.advice]]
    return "\n".join(lines)


def _shorten(text: str) -> str:
    more = len(text) - MAX_SHOWN_CHARS
    return (
        f"{text[:MAX_SHOWN_CHARS]} … and {quantity(more, 'more character')}" if more > 0 else text
    )


def _limited_lines(
    items: Sequence[JSON], lines_of: Callable[[JSON], list[str]], noun: str
) -> list[str]:
    """Return the lines of the first items, and how many more there are."""
    lines = [line for item in items[:MAX_LISTED] for line in lines_of(item)]
    more = len(items) - MAX_LISTED
    return [*lines, f"… and {more} more {noun}"] if more > 0 else lines


def _claim_lines(claim: JSON) -> list[str]:
    rule = claim["rule"]
    return [f"ambiguous, not run: {_shorten(claim['name'])} (rule {rule}: {_RULE_REASONS[rule]})"]


def _passed_over_lines(item: JSON) -> list[str]:
    """Return the line about text that resembles a call but is none."""
    return [f"not a call, at {item['at']}: {item['reason']}: {_shorten(item['text'])}"]


def _call_lines(call: JSON) -> list[str]:
    arguments = msgspec.json.encode(call["arguments"]).decode()
    found = [f"call: {_shorten(call['name'])} {_shorten(arguments)}"]
    found += [
        f"  {name} must occur {_grounding_text(tools)}"
        for name, tools in call.get("grounded", {}).items()
    ]
    if "asked" in call:
        found.append(f"  original name: {_shorten(call['asked'])}")
    if "id" in call:
        state = "a duplicate" if call["id"] else "missing"
        found.append(f"  the id is {state}: surecall assigns a new one")
    if "problem" in call:
        found.append(f"  would not run: {_shorten(call['problem'])}")
    return found
