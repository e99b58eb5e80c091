# ruff: noqa: RUF001 (the wide bars and quotation marks are what models write)
"""The inverse of reading: every dialect as a writer of calls, by row id.

A writer takes calls and the text before them, and returns what a model of that dialect would have
written. Whatever a dialect cannot express is left to its law tests to list.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from surecall.parsing.entities import with_entities
from surecall.values.types import ToolCall
from surecall.wire.dialects.spelling import ANTML, LEAD

Writer: TypeAlias = Callable[[Sequence[ToolCall], str], str]
Calls: TypeAlias = Sequence[ToolCall]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(call: ToolCall, name: str = "name", arguments: str = "arguments") -> str:
    return _json({name: call.name, arguments: call.arguments})


def _list(calls: Calls, name: str = "name", arguments: str = "arguments") -> str:
    return f"[{', '.join(_object(call, name, arguments) for call in calls)}]"


def _written(body: Callable[[Calls], str], calls: Calls, text: str) -> str:
    """Put the text before the calls, on lines of its own."""
    return f"{text}\n{body(calls)}" if text else body(calls)


def _each(template: Callable[[ToolCall], str], between: str = "\n") -> Writer:
    def body(calls: Calls) -> str:
        return between.join(template(call) for call in calls)

    return partial(_written, body)


def _all(body: Callable[[Calls], str]) -> Writer:
    return partial(_written, body)


def _wrapped(begin: str, end: str, arguments: str = "arguments", between: str = "\n") -> Writer:
    """Write each call as an object between two marks."""
    return _each(lambda call: f"{begin}{_object(call, 'name', arguments)}{end}", between)


def _listed(begin: str, end: str, name: str = "name", arguments: str = "arguments") -> Writer:
    """Write all calls as one list between two marks."""
    return _all(lambda calls: f"{begin}{_list(calls, name, arguments)}{end}")


def _headed(begin: str, between: str, end: str) -> Writer:
    """Write each call as a name, a separator and an object."""
    return _each(lambda call: f"{begin}{call.name}{between}{_json(call.arguments)}{end}")


def _raw(value: Any) -> str:
    """Write a value as the raw text that its declared type makes unambiguous."""
    return value if isinstance(value, str) else _json(value)


def _lines(raw: str) -> str:
    """Protect a value that begins and ends with line breaks from being taken for wrapped."""
    return f"\n{raw}\n" if raw.startswith("\n") and raw.endswith("\n") else raw


def _function(call: ToolCall) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{_raw(value)}\n</parameter>\n" for key, value in call.arguments.items()
    )
    return f"<function={call.name}>\n{parameters}</function>"


def _invoke(prefix: str, call: ToolCall) -> str:
    parameters = "".join(
        f'<{prefix}parameter name="{key}">{_lines(_raw(value))}</{prefix}parameter>\n'
        for key, value in call.arguments.items()
    )
    return f'<{prefix}invoke name="{call.name}">\n{parameters}</{prefix}invoke>'


def _dsml(call: ToolCall) -> str:
    parameters = "".join(
        f'<｜DSML｜parameter name="{key}" string="{_json(isinstance(value, str))}">'
        f"{_lines(_raw(value))}</｜DSML｜parameter>\n"
        for key, value in call.arguments.items()
    )
    return f'<｜DSML｜invoke name="{call.name}">\n{parameters}</｜DSML｜invoke>'


def _param(call: ToolCall) -> str:
    parameters = "".join(
        f'<param name="{key}">{_lines(_raw(value))}</param>'
        for key, value in call.arguments.items()
    )
    return f'<function name="{call.name}">{parameters}</function>'


def _keys(call: ToolCall, mark: str = "\n", suffix: str = "") -> str:
    pairs = "".join(
        f"<arg_key{suffix}>{key}</arg_key{suffix}>{mark}"
        f"<arg_value{suffix}>{_lines(_raw(value))}</arg_value{suffix}>{mark}"
        for key, value in call.arguments.items()
    )
    return f"{call.name}{mark}{pairs}"


_XTML_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}


def _xtml(call: ToolCall) -> str:
    arguments = "".join(
        f'<|open|>argument key="{with_entities(key)}"'
        f' type="{_XTML_KINDS.get(type(value), "object")}"<|sep|>'
        f"{_lines(_raw(value))}<|close|>argument<|sep|>"
        for key, value in call.arguments.items()
    )
    return f'<|open|>call tool="{call.name}"<|sep|>{arguments}<|close|>call<|sep|>'


def _child(lead: str, key: str, value: Any) -> str:
    """Write a parameter whose name is its tag; containers are tags inside it."""
    match value:
        case dict():
            inside = "".join(_child(lead, name, item) for name, item in value.items())
        case list():
            inside = "".join(_child(lead, "item", item) for item in value)
        case _:
            inside = _raw(value)
    return f"{lead}<{key}>{inside}{lead}</{key}>"


def _children(call: ToolCall, lead: str = "") -> str:
    return "".join(_child(lead, key, value) for key, value in call.arguments.items())


def _minimax_m3(call: ToolCall) -> str:
    return f'{LEAD}<invoke name="{call.name}">{_children(call, LEAD)}{LEAD}</invoke>\n'


def _compact(quote: str, value: Any) -> str:
    """Write an object without quotes around its keys, and with others around its texts."""
    match value:
        case dict():
            pairs = (f"{key}:{_compact(quote, item)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(_compact(quote, item) for item in value)}]"
        case str():
            return f"{quote}{value}{quote}"
        case _:
            return _json(value)


def _python(call: ToolCall) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _python_list(calls: Calls) -> str:
    return f"[{', '.join(map(_python, calls))}]"


def _inline(call: ToolCall) -> str:
    return _json({"function": {"_name": call.name, **call.arguments}})


def _json_fence(calls: Calls) -> str:
    return f"```json\n{_list(calls, 'tool_name', 'parameters')}\n```"


def _cohere(calls: Calls) -> str:
    objects = [
        {"tool_call_id": call.id, "tool_name": call.name, "parameters": call.arguments}
        for call in calls
    ]
    return f"<|START_ACTION|>{_json(objects)}<|END_ACTION|>"


def _mistral(calls: Calls) -> str:
    objects = [{"name": call.name, "arguments": call.arguments, "id": call.id} for call in calls]
    return f"[TOOL_CALLS] {_json(objects)}"


def _kimi(calls: Calls) -> str:
    inside = "".join(
        f"<|tool_call_begin|>functions.{call.name}:{index}<|tool_call_argument_begin|>"
        f"{_json(call.arguments)}<|tool_call_end|>"
        for index, call in enumerate(calls)
    )
    return f"<|tool_calls_section_begin|>{inside}<|tool_calls_section_end|>"


def _deepseek(before: str, after: str, end: str) -> Writer:
    def body(calls: Calls) -> str:
        inside = "".join(
            f"<｜tool▁call▁begin｜>{before}{call.name}{after}{_json(call.arguments)}{end}"
            "<｜tool▁call▁end｜>"
            for call in calls
        )
        return f"<｜tool▁calls▁begin｜>{inside}<｜tool▁calls▁end｜>"

    return _all(body)


def _within(begin: str, template: Callable[[ToolCall], str], end: str) -> Writer:
    """Write all calls between two marks, each in its own tags."""
    return _all(lambda calls: f"{begin}{''.join(map(template, calls))}{end}")


def _block(begin: str, template: Callable[[ToolCall], str], end: str) -> Writer:
    """Write each call between two marks."""
    return _each(lambda call: f"{begin}{template(call)}{end}")


WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        "A1": _wrapped("<tool_call>\n", "\n</tool_call>"),
        "A2": _listed("<|tool_call|>", ""),
        "A3": _wrapped("<function_call> ", ""),
        "A4": _wrapped("<longcat_tool_call>", "</longcat_tool_call>"),
        "A5": _listed("<tool_calls>", "</tool_calls>"),
        "A6": _listed("<TOOLCALL>", "</TOOLCALL>"),
        "A7": _all(_mistral),
        "A8": _listed("functools", ""),
        "A9": _all(
            lambda calls: (
                "<|python_tag|>"
                + "; ".join(_object(call, arguments="parameters") for call in calls)
            )
        ),
        "A10": _all(
            lambda calls: (
                "<|tools_prefix|>"
                + _json([{call.name: call.arguments} for call in calls])
                + "<|tools_suffix|>"
            )
        ),
        "A11": _all(_cohere),
        "A12": _all(lambda calls: f"Action:\n{_json_fence(calls)}"),
        "A13": _wrapped("<|action_start|><|plugin|>\n", "<|action_end|>", "parameters"),
        "A14": _wrapped("<|message_sep|>\n\nfunction call<|role_sep|>\n", ""),
        "A15": _each(
            lambda call: (
                f"<|message_model|>{call.name}<|content_invoke_tool_json|>"
                f"{_object(call, arguments='args')}<|end_message|>"
            )
        ),
        "A16": _wrapped("<dots_function_call>", "</dots_function_call>"),
        "A17": _wrapped("", ""),
        "A18": _each(_inline),
        "A19": _listed("", "", arguments="parameters"),
        "B1": _deepseek("function<｜tool▁sep｜>", "\n```json\n", "\n```"),
        "B2": _deepseek("", "<｜tool▁sep｜>", ""),
        "B3": _all(_kimi),
        "B4": _each(
            lambda call: f"[TOOL_CALLS]{call.name}[CALL_ID]{call.id}[ARGS]{_json(call.arguments)}",
            between="",
        ),
        "B5": _headed(
            "<|start|>assistant<|channel|>commentary to=functions.",
            " <|constrain|>json<|message|>",
            "<|call|>",
        ),
        "B6": _each(
            lambda call: (
                f"<|tool_call:begin|>{call.id}<|tool_call:name|>{call.name}"
                f"<|tool_call:args|>{_json(call.arguments)}<|tool_call:end|>"
            )
        ),
        "B7": _headed("<function=", ">", "</function>"),
        "B8": _headed(">>>", "\n", ""),
        "B9": _each(
            lambda call: (
                f"<start_function_call>call:{call.name}"
                f"{_compact('<escape>', call.arguments)}<end_function_call>"
            )
        ),
        "B10": _each(
            lambda call: (
                f"<|tool_call>call:{call.name}"
                f"{_compact('<|' + chr(34) + '|>', call.arguments)}<tool_call|>"
            )
        ),
        "B11": _headed("<tool_call>", "\n", "</tool_call>"),
        "B12": _headed("«call ", " ", "»"),
        "C1": _block("<tool_call>\n", _function, "\n</tool_call>"),
        "C2": _block("<seed:tool_call>\n", _function, "\n</seed:tool_call>"),
        "C3": _within("<minimax:tool_call>\n", partial(_invoke, ""), "\n</minimax:tool_call>"),
        "C4": _within(
            f"<{ANTML}function_calls>\n", partial(_invoke, ANTML), f"\n</{ANTML}function_calls>"
        ),
        "C5": _within("<｜DSML｜tool_calls>\n", _dsml, "\n</｜DSML｜tool_calls>"),
        "C6": _each(
            lambda call: (
                f"<|start|>assistant to={call.name}<|message|><atem:function_calls>\n"
                f"{_invoke('atem:', call)}\n</atem:function_calls><|eom|>"
            )
        ),
        "C7": _within(
            "<｜tool_calls_begin｜>",
            lambda call: (
                "<｜tool_call_begin｜>function<｜tool_sep｜>"
                f"{_invoke('steptml:', call)}<｜tool_call_end｜>"
            ),
            "<｜tool_calls_end｜>",
        ),
        "C8": _each(_param),
        "C9": _block("<tool_call>", _keys, "</tool_call>"),
        "C10": _within(
            "<tool_calls>",
            lambda call: (
                "<tool_call>"
                + _keys(call, "").replace(call.name, f"{call.name}<tool_sep>", 1)
                + "</tool_call>"
            ),
            "</tool_calls>",
        ),
        "C11": _within("<|open|>tools<|sep|>", _xtml, "<|close|>tools<|sep|>"),
        "C12": _within(f"{LEAD}<tool_call>\n", _minimax_m3, f"{LEAD}</tool_call>"),
        "C13": _each(lambda call: f"<{call.name}>{_children(call)}</{call.name}>"),
        "D1": _all(_python_list),
        "D2": _all(lambda calls: f"<|python_start|>{_python_list(calls)}<|python_end|>"),
        "D3": _all(lambda calls: f"<|tool_call_start|>{_python_list(calls)}<|tool_call_end|>"),
        "D4": _all(
            lambda calls: f"<function_calls>{chr(10).join(map(_python, calls))}</function_calls>"
        ),
        "D5": _block("<|python_tag|>", lambda call: _python(call).replace("(", ".call(", 1), ""),
        "D6": _all(
            lambda calls: (
                "```tool_code\n"
                + "\n".join(f"print(default_api.{_python(call)})" for call in calls)
                + "\n```"
            )
        ),
    }
)
# Rows without a mark of their own, or with a weak one; they are read only when weak marks are.
WEAK_ROWS = frozenset({"A12", "A17", "A18", "A19", "B8", "B12", "C13", "D1"})
