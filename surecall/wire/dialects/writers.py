# ruff: noqa: RUF001 (the wide bars and quotation marks are what models write)
"""Writes calls in every dialect, by row id.

A writer takes calls and the text before them and returns what a model of that dialect would write.
The property tests list what each dialect cannot express.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from surecall.values.text import escape_html
from surecall.values.types import JSON, ToolCall
from surecall.wire.dialects.spelling import ANTML, LEAD

Writer: TypeAlias = Callable[[Sequence[ToolCall], str], str]
Calls: TypeAlias = Sequence[ToolCall]


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _call_object(call: ToolCall, name: str = "name", arguments: str = "arguments") -> str:
    """Return a call as a JSON object with these keys."""
    return _to_json({name: call.name, arguments: call.arguments})


def _call_list(calls: Calls, name: str = "name", arguments: str = "arguments") -> str:
    """Return calls as a JSON list of objects with these keys."""
    return f"[{', '.join(_call_object(call, name, arguments) for call in calls)}]"


def _prefix_text(body: Callable[[Calls], str], calls: Calls, text: str) -> str:
    """Put the text on lines before the calls."""
    return f"{text}\n{body(calls)}" if text else body(calls)


def _per_call_writer(template: Callable[[ToolCall], str], between: str = "\n") -> Writer:
    """Return a writer that writes each call by a template."""

    def body(calls: Calls) -> str:
        return between.join(template(call) for call in calls)

    return partial(_prefix_text, body)


def _all_calls_writer(body: Callable[[Calls], str]) -> Writer:
    """Return a writer that writes all calls by one function."""
    return partial(_prefix_text, body)


def _wrapped_writer(
    begin: str, end: str, arguments: str = "arguments", between: str = "\n"
) -> Writer:
    """Write each call as an object between two marks."""
    return _per_call_writer(
        lambda call: f"{begin}{_call_object(call, 'name', arguments)}{end}", between
    )


def _list_writer(begin: str, end: str, name: str = "name", arguments: str = "arguments") -> Writer:
    """Write all calls as one list between two marks."""
    return _all_calls_writer(lambda calls: f"{begin}{_call_list(calls, name, arguments)}{end}")


def _name_first_writer(begin: str, between: str, end: str) -> Writer:
    """Write each call as a name, a separator and an object."""
    return _per_call_writer(
        lambda call: f"{begin}{call.name}{between}{_to_json(call.arguments)}{end}"
    )


def _raw_value(value: Any) -> str:
    """Return a value as raw text, which its declared type disambiguates."""
    return value if isinstance(value, str) else _to_json(value)


def _protect_line_breaks(raw: str) -> str:
    """Add line breaks around a value that has its own, since parsers strip one pair."""
    return f"\n{raw}\n" if raw.startswith("\n") and raw.endswith("\n") else raw


def _function_tags(call: ToolCall) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{_raw_value(value)}\n</parameter>\n"
        for key, value in call.arguments.items()
    )
    return f"<function={call.name}>\n{parameters}</function>"


def _invoke_tags(prefix: str, call: ToolCall) -> str:
    parameters = "".join(
        f"<{prefix}parameter "
        f'name="{key}">{_protect_line_breaks(_raw_value(value))}</{prefix}parameter>\n'
        for key, value in call.arguments.items()
    )
    return f'<{prefix}invoke name="{call.name}">\n{parameters}</{prefix}invoke>'


def _dsml_tags(call: ToolCall) -> str:
    parameters = "".join(
        f'<｜DSML｜parameter name="{key}" string="{_to_json(isinstance(value, str))}">'
        f"{_protect_line_breaks(_raw_value(value))}</｜DSML｜parameter>\n"
        for key, value in call.arguments.items()
    )
    return f'<｜DSML｜invoke name="{call.name}">\n{parameters}</｜DSML｜invoke>'


def _param_tags(call: ToolCall) -> str:
    parameters = "".join(
        f'<param name="{key}">{_protect_line_breaks(_raw_value(value))}</param>'
        for key, value in call.arguments.items()
    )
    return f'<function name="{call.name}">{parameters}</function>'


def _key_value_tags(call: ToolCall, mark: str = "\n", suffix: str = "") -> str:
    pairs = "".join(
        f"<arg_key{suffix}>{key}</arg_key{suffix}>{mark}"
        f"<arg_value{suffix}>{_protect_line_breaks(_raw_value(value))}</arg_value{suffix}>{mark}"
        for key, value in call.arguments.items()
    )
    return f"{call.name}{mark}{pairs}"


_XTML_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}


def _xtml_tags(call: ToolCall) -> str:
    arguments = "".join(
        f'<|open|>argument key="{escape_html(key)}"'
        f' type="{_XTML_KINDS.get(type(value), "object")}"<|sep|>'
        f"{_protect_line_breaks(_raw_value(value))}<|close|>argument<|sep|>"
        for key, value in call.arguments.items()
    )
    return f'<|open|>call tool="{call.name}"<|sep|>{arguments}<|close|>call<|sep|>'


def _child_tag(lead: str, key: str, value: Any) -> str:
    """Write a parameter as a tag named after it, with containers as nested tags."""
    match value:
        case dict():
            inside = "".join(_child_tag(lead, name, item) for name, item in value.items())
        case list():
            inside = "".join(_child_tag(lead, "item", item) for item in value)
        case _:
            inside = _raw_value(value)
    return f"{lead}<{key}>{inside}{lead}</{key}>"


def _child_tags(call: ToolCall, lead: str = "") -> str:
    return "".join(_child_tag(lead, key, value) for key, value in call.arguments.items())


def _minimax_m3_tags(call: ToolCall) -> str:
    return f'{LEAD}<invoke name="{call.name}">{_child_tags(call, LEAD)}{LEAD}</invoke>\n'


def _compact_value(quote: str, value: Any) -> str:
    """Write an object with unquoted keys and `quote` around its strings."""
    match value:
        case dict():
            pairs = (f"{key}:{_compact_value(quote, item)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(_compact_value(quote, item) for item in value)}]"
        case str():
            return f"{quote}{value}{quote}"
        case _:
            return _to_json(value)


def _python_call(call: ToolCall) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _python_list(calls: Calls) -> str:
    return f"[{', '.join(map(_python_call, calls))}]"


def _inline_object(call: ToolCall) -> str:
    return _to_json({"function": {"_name": call.name, **call.arguments}})


def _json_fence(calls: Calls) -> str:
    return f"```json\n{_call_list(calls, 'tool_name', 'parameters')}\n```"


def _cohere_action(calls: Calls) -> str:
    objects = [
        {"tool_call_id": call.id, "tool_name": call.name, "parameters": call.arguments}
        for call in calls
    ]
    return f"<|START_ACTION|>{_to_json(objects)}<|END_ACTION|>"


def _mistral_list(calls: Calls) -> str:
    objects = [{"name": call.name, "arguments": call.arguments, "id": call.id} for call in calls]
    return f"[TOOL_CALLS] {_to_json(objects)}"


def _kimi_section(calls: Calls) -> str:
    inside = "".join(
        f"<|tool_call_begin|>functions.{call.name}:{index}<|tool_call_argument_begin|>"
        f"{_to_json(call.arguments)}<|tool_call_end|>"
        for index, call in enumerate(calls)
    )
    return f"<|tool_calls_section_begin|>{inside}<|tool_calls_section_end|>"


def _deepseek_writer(before: str, after: str, end: str) -> Writer:
    def body(calls: Calls) -> str:
        inside = "".join(
            f"<｜tool▁call▁begin｜>{before}{call.name}{after}{_to_json(call.arguments)}{end}"
            "<｜tool▁call▁end｜>"
            for call in calls
        )
        return f"<｜tool▁calls▁begin｜>{inside}<｜tool▁calls▁end｜>"

    return _all_calls_writer(body)


def _section_writer(begin: str, template: Callable[[ToolCall], str], end: str) -> Writer:
    """Write all calls between two marks, each in its tags."""
    return _all_calls_writer(lambda calls: f"{begin}{''.join(map(template, calls))}{end}")


def _block_writer(begin: str, template: Callable[[ToolCall], str], end: str) -> Writer:
    """Write each call between two marks."""
    return _per_call_writer(lambda call: f"{begin}{template(call)}{end}")


WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        "A1": _wrapped_writer("<tool_call>\n", "\n</tool_call>"),
        "A2": _list_writer("<|tool_call|>", ""),
        "A3": _wrapped_writer("<function_call> ", ""),
        "A4": _wrapped_writer("<longcat_tool_call>", "</longcat_tool_call>"),
        "A5": _list_writer("<tool_calls>", "</tool_calls>"),
        "A6": _list_writer("<TOOLCALL>", "</TOOLCALL>"),
        "A7": _all_calls_writer(_mistral_list),
        "A8": _list_writer("functools", ""),
        "A9": _all_calls_writer(
            lambda calls: (
                "<|python_tag|>"
                + "; ".join(_call_object(call, arguments="parameters") for call in calls)
            )
        ),
        "A10": _all_calls_writer(
            lambda calls: (
                "<|tools_prefix|>"
                + _to_json([{call.name: call.arguments} for call in calls])
                + "<|tools_suffix|>"
            )
        ),
        "A11": _all_calls_writer(_cohere_action),
        "A12": _all_calls_writer(lambda calls: f"Action:\n{_json_fence(calls)}"),
        "A13": _wrapped_writer("<|action_start|><|plugin|>\n", "<|action_end|>", "parameters"),
        "A14": _wrapped_writer("<|message_sep|>\n\nfunction call<|role_sep|>\n", ""),
        "A15": _per_call_writer(
            lambda call: (
                f"<|message_model|>{call.name}<|content_invoke_tool_json|>"
                f"{_call_object(call, arguments='args')}<|end_message|>"
            )
        ),
        "A16": _wrapped_writer("<dots_function_call>", "</dots_function_call>"),
        "A17": _wrapped_writer("", ""),
        "A18": _per_call_writer(_inline_object),
        "A19": _list_writer("", "", arguments="parameters"),
        "B1": _deepseek_writer("function<｜tool▁sep｜>", "\n```json\n", "\n```"),
        "B2": _deepseek_writer("", "<｜tool▁sep｜>", ""),
        "B3": _all_calls_writer(_kimi_section),
        "B4": _per_call_writer(
            lambda call: (
                f"[TOOL_CALLS]{call.name}[CALL_ID]{call.id}[ARGS]{_to_json(call.arguments)}"
            ),
            between="",
        ),
        "B5": _name_first_writer(
            "<|start|>assistant<|channel|>commentary to=functions.",
            " <|constrain|>json<|message|>",
            "<|call|>",
        ),
        "B6": _per_call_writer(
            lambda call: (
                f"<|tool_call:begin|>{call.id}<|tool_call:name|>{call.name}"
                f"<|tool_call:args|>{_to_json(call.arguments)}<|tool_call:end|>"
            )
        ),
        "B7": _name_first_writer("<function=", ">", "</function>"),
        "B8": _name_first_writer(">>>", "\n", ""),
        "B9": _per_call_writer(
            lambda call: (
                f"<start_function_call>call:{call.name}"
                f"{_compact_value('<escape>', call.arguments)}<end_function_call>"
            )
        ),
        "B10": _per_call_writer(
            lambda call: (
                f"<|tool_call>call:{call.name}"
                f"{_compact_value('<|' + chr(34) + '|>', call.arguments)}<tool_call|>"
            )
        ),
        "B11": _name_first_writer("<tool_call>", "\n", "</tool_call>"),
        "B12": _name_first_writer("«call ", " ", "»"),
        "B13": _name_first_writer("Action: ", "\nAction Input: ", ""),
        "C1": _block_writer("<tool_call>\n", _function_tags, "\n</tool_call>"),
        "C2": _block_writer("<seed:tool_call>\n", _function_tags, "\n</seed:tool_call>"),
        "C3": _section_writer(
            "<minimax:tool_call>\n", partial(_invoke_tags, ""), "\n</minimax:tool_call>"
        ),
        "C4": _section_writer(
            f"<{ANTML}function_calls>\n",
            partial(_invoke_tags, ANTML),
            f"\n</{ANTML}function_calls>",
        ),
        "C5": _section_writer("<｜DSML｜tool_calls>\n", _dsml_tags, "\n</｜DSML｜tool_calls>"),
        "C6": _per_call_writer(
            lambda call: (
                f"<|start|>assistant to={call.name}<|message|><atem:function_calls>\n"
                f"{_invoke_tags('atem:', call)}\n</atem:function_calls><|eom|>"
            )
        ),
        "C7": _section_writer(
            "<｜tool_calls_begin｜>",
            lambda call: (
                "<｜tool_call_begin｜>function<｜tool_sep｜>"
                f"{_invoke_tags('steptml:', call)}<｜tool_call_end｜>"
            ),
            "<｜tool_calls_end｜>",
        ),
        "C8": _per_call_writer(_param_tags),
        "C9": _block_writer("<tool_call>", _key_value_tags, "</tool_call>"),
        "C10": _section_writer(
            "<tool_calls>",
            lambda call: (
                "<tool_call>"
                + _key_value_tags(call, "").replace(call.name, f"{call.name}<tool_sep>", 1)
                + "</tool_call>"
            ),
            "</tool_calls>",
        ),
        "C11": _section_writer("<|open|>tools<|sep|>", _xtml_tags, "<|close|>tools<|sep|>"),
        "C12": _section_writer(f"{LEAD}<tool_call>\n", _minimax_m3_tags, f"{LEAD}</tool_call>"),
        "C13": _per_call_writer(lambda call: f"<{call.name}>{_child_tags(call)}</{call.name}>"),
        "D1": _all_calls_writer(_python_list),
        "D2": _all_calls_writer(
            lambda calls: f"<|python_start|>{_python_list(calls)}<|python_end|>"
        ),
        "D3": _all_calls_writer(
            lambda calls: f"<|tool_call_start|>{_python_list(calls)}<|tool_call_end|>"
        ),
        "D4": _all_calls_writer(
            lambda calls: (
                f"<function_calls>{chr(10).join(map(_python_call, calls))}</function_calls>"
            )
        ),
        "D5": _block_writer(
            "<|python_tag|>", lambda call: _python_call(call).replace("(", ".call(", 1), ""
        ),
        "D6": _all_calls_writer(
            lambda calls: (
                "```tool_code\n"
                + "\n".join(f"print(default_api.{_python_call(call)})" for call in calls)
                + "\n```"
            )
        ),
    }
)
# Rows without a mark or with a weak one; parsed only if weak marks are enabled.
WEAK_ROWS = frozenset({"A12", "A17", "A18", "A19", "B8", "B12", "C13", "D1"})


# The inverse for a dialect without a row: its marks, from texts that a chat template rendered.

SAMPLE_NAME = "qqtoolqq"
SAMPLE_KEYS = ("qqkeyqq", "qqotherqq")
SAMPLE_VALUES = ("qqvalueqq", "qqsecondqq")
SAMPLE_TEXT = "qqsaidqq"


class TemplateDialect(msgspec.Struct, frozen=True):
    """What a template writes around a call, and between two."""

    grammar: str
    opener: str
    before_arguments: str
    closer: str
    between: str
    call: str
    two_calls: str


def dialect_of_renderings(plain: str, one: str, two: str) -> TemplateDialect:
    """Build the dialect from the renderings of no call, one call, and two calls."""
    call, tail = _between_ends(one, plain.partition(SAMPLE_TEXT))
    start, value = call.index(SAMPLE_NAME), call.rindex(SAMPLE_VALUES[0])
    head, rest = call[:start], call[value + len(SAMPLE_VALUES[0]) :]
    middle = (
        call[start + len(SAMPLE_NAME) : call.index(SAMPLE_KEYS[0])]
        if SAMPLE_KEYS[0] in call
        else ""
    )
    grammar = _grammar_of(head, middle)
    if grammar == "A":
        opener, closer = head[: _object_start(head)], rest[rest.rfind("}") + 1 :]
    elif grammar == "B":
        opener, closer = head, rest[rest.rfind("}") + 1 :]
    else:
        opener, closer = head, rest
    body = call[len(opener) : len(call) - len(closer)]
    second = two.removesuffix(tail)[max(two.find(opener + body), 0) :]
    at, last = second.find(body), second.rfind(body)
    between = second[at + len(body) : last].removeprefix(closer).removesuffix(opener)
    return TemplateDialect(
        grammar,
        opener,
        middle,
        closer,
        between if at < last else "",
        call,
        second,
    )


def _between_ends(one: str, parts: tuple[str, str, str]) -> tuple[str, str]:
    """Return the text of a call, without what a plain answer has around it, and what follows."""
    before, _, after = parts
    start = _common_length(one, before)
    end = len(one) - one.rindex(SAMPLE_VALUES[0]) - len(SAMPLE_VALUES[0])
    length = min(_common_length(one[::-1], after[::-1]), end)
    return one[start : len(one) - length], one[len(one) - length :]


def _common_length(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _grammar_of(head: str, middle: str) -> str:
    """Return the letter of the grammar, from what stands before a name and before its key."""
    if head.rstrip("\"' ").endswith(":") and "{" in head:
        return "A"
    if middle.lstrip().startswith("("):
        return "D"
    return "B" if "{" in middle else "C"


def _object_start(head: str) -> int:
    """Return where the object or the list begins that contains the name."""
    at = head.rfind("{")
    listed = head[:at].rstrip()
    return len(listed) - 1 if listed.endswith("[") else at


def corpus_cases(found: TemplateDialect, row: str) -> list[JSON]:
    """Return five cases of the dialect: one, two, with text around, cut off, closer in a value."""
    arguments = {SAMPLE_KEYS[0]: SAMPLE_VALUES[0]}
    call: JSON = {"name": SAMPLE_NAME, "arguments": arguments}
    inside = f"a {found.closer.strip()}b"
    cut = found.call[: found.call.rindex(SAMPLE_VALUES[0]) + len(SAMPLE_VALUES[0])]
    held = found.call.replace(SAMPLE_VALUES[0], inside)
    texts: list[tuple[str, str, list[JSON], str]] = [
        ("plain", found.call, [call], ""),
        ("two calls", found.two_calls, [call] * found.two_calls.count(SAMPLE_VALUES[0]), ""),
        ("text around", f"First.\n{found.call}\n\nThen.", [call], "First.|Then."),
        ("truncated", cut, [call], ""),
        ("closer inside", held, [call | {"arguments": {SAMPLE_KEYS[0]: inside}}], ""),
    ]
    return [
        {
            "row": row,
            "kind": kind,
            "weak": False,
            "text": text,
            "calls": calls,
            "truncated": kind == "truncated",
            "rest": rest,
        }
        for kind, text, calls, rest in texts
    ]
