"""Faults of calls: the form of the call list, ids, and names."""

from typing import Any

from surecall.simulator.faults.shape_fault import (
    PARALLEL_WRAPPER,
    Sample,
    decode_arguments,
    encode_json,
    on_call,
    on_calls,
    on_choice,
    on_function,
    on_message,
    shape_fault,
)
from surecall.values.types import JSON

_LEGACY_REPAIR = "assistant_function_call_to_tool_calls"
_TAGS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


@shape_fault(on_choice, "message", "D01", repairs=(_LEGACY_REPAIR,))
def legacy_function_call(choice: JSON, _sample: Sample) -> JSON:
    """A single call is in the deprecated `function_call` field."""
    match choice.get("message"):
        case {"tool_calls": [{"function": dict(function)}], **rest}:
            return choice | {
                "finish_reason": "function_call",
                "message": rest | {"function_call": function},
            }
        case _:
            return choice


@shape_fault(on_message, "message", "D02", repairs=(_LEGACY_REPAIR,))
def both_call_forms(message: JSON, _sample: Sample) -> JSON:
    """The first call is in both `tool_calls` and `function_call`."""
    match message:
        case {"tool_calls": [{"function": dict(function)}, *_]}:
            return message | {"function_call": function}
        case _:
            return message


@shape_fault(on_calls, "message", "D03", repairs=("assistant_tool_calls_object_to_array",))
def tool_calls_object(calls: list[Any], _sample: Sample) -> Any:
    """`tool_calls` is a single call instead of a list."""
    return calls[0] if len(calls) == 1 and isinstance(calls[0], dict) else calls


@shape_fault(on_message, "message", "D03", repairs=("assistant_tool_calls_json_text_to_array",))
def tool_calls_text(message: JSON, _sample: Sample) -> JSON:
    """`tool_calls` is a JSON string."""
    calls = message.get("tool_calls")
    if not calls or isinstance(calls, str):
        return message
    return message | {"tool_calls": encode_json(calls)}


@shape_fault(on_calls, "message", "D03", outcome="TOOL_NOT_ALLOWED")
def tool_calls_prose(calls: list[Any], sample: Sample) -> Any:
    """`tool_calls` is text from which no call can be parsed."""
    return sample.pick(["add(a=1, b=2)", encode_json(calls)[:-1], '"add"', "7"])


@shape_fault(on_calls, "message", "D03")
def tool_calls_junk(calls: list[Any], sample: Sample) -> list[Any]:
    """`tool_calls` contains nulls, strings, or other values between the calls."""
    junk = sample.pick([None, "", "function", 0, []])
    return [junk, *(item for call in calls for item in (call, junk))]


@shape_fault(on_call, "message", "D04", repairs=("assistant_tool_calls_flat_to_function",))
def call_unwrapped(call: JSON, _sample: Sample) -> JSON:
    """Name and arguments are not wrapped in `function`."""
    match call:
        case {"function": dict(function), **rest}:
            return {key: rest[key] for key in rest if key != "type"} | function
        case _:
            return call


@shape_fault(on_calls, "names", "D51", repairs=("assistant_tool_calls_parallel_expanded",))
def parallel_wrapper(calls: list[Any], sample: Sample) -> list[Any]:
    """All calls are inside one call of `multi_tool_use.parallel`."""
    uses: list[JSON] = []
    for call in calls:
        match call:
            case {"function": {"name": str(name), "arguments": arguments}} if name:
                values = decode_arguments(arguments)
                parameters = arguments if values is None else values
                recipient = f"functions.{name}" if name.isidentifier() else name
                uses.append({"recipient_name": recipient, "parameters": parameters})
            case _:
                return calls
    function = {"name": PARALLEL_WRAPPER, "arguments": encode_json({"tool_uses": uses})}
    wrapper = {"id": sample.pick(["call_p", ""]), "type": "function", "function": function}
    return [wrapper]


@shape_fault(on_calls, "names", "D58", repairs=("assistant_tool_calls_blank_dropped",))
def call_blank_beside(calls: list[Any], sample: Sample) -> list[Any]:
    """The calls are followed by one without id and name."""
    function = {"name": "", "arguments": sample.pick(["{}", '{"path":"x"}', ""])}
    return [*calls, {"id": "", "type": "function", "function": function}]


@shape_fault(on_call, "names", "D58", outcome="TOOL_NOT_ALLOWED")
def call_blank_alone(call: JSON, _sample: Sample) -> JSON:
    """The calls have arguments, but neither id nor name."""
    match call:
        case {"function": {"arguments": str(text)}}:
            function = {"name": "", "arguments": text if len(text) > 2 else '{"a":1}'}  # noqa: PLR2004  # not {}
            return {"id": "", "type": "function", "function": function}
        case _:
            return call


# Ids


@shape_fault(on_call, "ids", "D59", "D60")
def id_missing(call: JSON, sample: Sample) -> JSON:
    """The id is missing, null, empty, or blank."""
    rest = {key: call[key] for key in call if key != "id"}
    return sample.pick([rest, call | {"id": None}, call | {"id": ""}, call | {"id": " "}])  # type: ignore[no-any-return]


@shape_fault(on_call, "ids", "D61", "D64")
def id_repeated(call: JSON, sample: Sample) -> JSON:
    """All calls of a reply have the same id."""
    same = sample.pick(["call_1", "0", "call_00_aaa"])
    return call if call.get("id") == same else call | {"id": same}


@shape_fault(on_calls, "ids", "D62")
def id_reused(calls: list[Any], sample: Sample) -> list[Any]:
    """The ids restart from zero in each turn."""
    form = sample.pick(["call_{}", "terminal:{}", "{}"])
    return [
        call | {"id": form.format(at)} if isinstance(call, dict) and call.get("id") else call
        for at, call in enumerate(calls)
    ]


# Names


def _with_formatted_name(function: JSON, form: str) -> JSON:
    """Return a function whose name is inserted into a format string."""
    return function | {"name": form.format(function["name"])}


@shape_fault(on_function, "names", "D48")
def name_control_token(function: JSON, sample: Sample) -> JSON:
    """The name contains a control token of the chat template."""
    forms = ["{}<|channel|>commentary", "{}<|constrain|>json", "functions.{}<|channel|>analysis"]
    return _with_formatted_name(function, sample.pick(forms))


@shape_fault(on_function, "names", "D49")
def name_prefixed(function: JSON, sample: Sample) -> JSON:
    """The name has a known namespace prefix."""
    forms = ["functions.{}", "default_api:{}", "google:{}", "creating:{}", "default_api.{}", " {} "]
    return _with_formatted_name(function, sample.pick(forms))


@shape_fault(on_function, "names", "vllm-mlx-631")
def name_surrounded(function: JSON, sample: Sample) -> JSON:
    """The name is surrounded by template markers, a number, parentheses, or backticks."""
    forms = ["{}[ARGS]", "functions.{}:0", "{}()", "`{}`", "{}\n<tool_sep>", "{}</tool_call>"]
    forms += ["commentary to=functions.{}<|constrain|>json", "[TOOL_CALLS]{}"]
    return _with_formatted_name(function, sample.pick(forms))


@shape_fault(on_function, "names", "D50", outcome="TOOL_NOT_ALLOWED")
def name_embellished(function: JSON, sample: Sample) -> JSON:
    """The name is embedded in invented words; similar names never run."""
    forms = ["tool:{}", "google:tool:{}:index:0", "{}_v2_final", "my {} tool"]
    return _with_formatted_name(function, sample.pick(forms))


@shape_fault(on_function, "names", "D52", "D53", "D54", "D56", outcome="TOOL_NOT_ALLOWED")
def name_unknown(function: JSON, sample: Sample) -> JSON:
    """The tool was never declared; its name may be illegal."""
    return _with_formatted_name(
        function, sample.pick(["toolbox.web.answer", "Search The Web!", "ünïcode", "."])
    )


@shape_fault(on_function, "names", "D57", repairs=("assistant_tool_calls_name_tags_to_arguments",))
def name_swallowed_arguments(function: JSON, sample: Sample) -> JSON:
    """The arguments are written as tags inside the name."""
    values = decode_arguments(function.get("arguments"))
    # In a tag, null cannot be distinguished from the string "null".
    if not values or None in values.values():
        return function
    texts = {
        key: value if isinstance(value, str) else encode_json(value)
        for key, value in values.items()
    }
    if any(tag in text for pair in texts.items() for text in pair for tag in _TAGS):
        return function
    tagged = "".join(
        f"<arg_key>{key}</arg_key><arg_value>{text}</arg_value>" for key, text in texts.items()
    )
    return {"name": function["name"] + tagged, "arguments": sample.pick(["", "{}"])}


@shape_fault(on_function, "names", "D57", outcome="TOOL_NOT_ALLOWED")
def name_swallowed_half(function: JSON, _sample: Sample) -> JSON:
    """The arguments are tags inside the name, and the last one is truncated."""
    return _with_formatted_name(function, "{}<arg_key>path</arg_key><arg_value>/home") | {
        "arguments": ""
    }
