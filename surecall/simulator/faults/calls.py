"""Faults of calls: the form of the list of calls, and their ids and names."""

from typing import Any

from surecall.simulator.faults.shape_fault import (
    PARALLEL,
    Sample,
    decoded,
    on_call,
    on_calls,
    on_choice,
    on_function,
    on_message,
    shape_fault,
    written,
)
from surecall.values.types import JSON

_LEGACY = "assistant_function_call_to_tool_calls"
_TAGS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


@shape_fault("message", "D01", cures=(_LEGACY,))
@on_choice
def legacy_function_call(choice: JSON, _sample: Sample) -> JSON:
    """A single call in the deprecated `function_call` field."""
    match choice.get("message"):
        case {"tool_calls": [{"function": dict(function)}], **rest}:
            return choice | {
                "finish_reason": "function_call",
                "message": rest | {"function_call": function},
            }
        case _:
            return choice


@shape_fault("message", "D02", cures=(_LEGACY,))
@on_message
def both_call_forms(message: JSON, _sample: Sample) -> JSON:
    """The first call is in `tool_calls` and in `function_call` as well."""
    match message:
        case {"tool_calls": [{"function": dict(function)}, *_]}:
            return message | {"function_call": function}
        case _:
            return message


@shape_fault("message", "D03", cures=("assistant_tool_calls_object_to_array",))
@on_calls
def tool_calls_object(calls: list[Any], _sample: Sample) -> Any:
    """A single call without the list around it."""
    return calls[0] if len(calls) == 1 and isinstance(calls[0], dict) else calls


@shape_fault("message", "D03", cures=("assistant_tool_calls_json_text_to_array",))
@on_message
def tool_calls_text(message: JSON, _sample: Sample) -> JSON:
    """The calls as JSON text."""
    calls = message.get("tool_calls")
    if not calls or isinstance(calls, str):
        return message
    return message | {"tool_calls": written(calls)}


@shape_fault("message", "D03", outcome="TOOL_NOT_ALLOWED")
@on_calls
def tool_calls_prose(calls: list[Any], sample: Sample) -> Any:
    """A text about calls in place of the calls, which cannot be read as JSON."""
    return sample.pick(["add(a=1, b=2)", written(calls)[:-1], '"add"', "7"])


@shape_fault("message", "D03")
@on_calls
def tool_calls_junk(calls: list[Any], sample: Sample) -> list[Any]:
    """Nulls and texts between the calls."""
    junk = sample.pick([None, "", "function", 0, []])
    return [junk, *(item for call in calls for item in (call, junk))]


@shape_fault("message", "D04", cures=("assistant_tool_calls_flat_to_function",))
@on_call
def call_unwrapped(call: JSON, _sample: Sample) -> JSON:
    """Name and arguments without the `function` around them."""
    match call:
        case {"function": dict(function), **rest}:
            return {key: rest[key] for key in rest if key != "type"} | function
        case _:
            return call


@shape_fault("names", "D51", cures=("assistant_tool_calls_parallel_expanded",))
@on_calls
def parallel_wrapper(calls: list[Any], sample: Sample) -> list[Any]:
    """All calls inside one call of `multi_tool_use.parallel`."""
    uses: list[JSON] = []
    for call in calls:
        match call:
            case {"function": {"name": str(name), "arguments": arguments}} if name:
                values = decoded(arguments)
                parameters = arguments if values is None else values
                recipient = f"functions.{name}" if name.isidentifier() else name
                uses.append({"recipient_name": recipient, "parameters": parameters})
            case _:
                return calls
    function = {"name": PARALLEL, "arguments": written({"tool_uses": uses})}
    wrapper = {"id": sample.pick(["call_p", ""]), "type": "function", "function": function}
    return [wrapper]


@shape_fault("names", "D58", cures=("assistant_tool_calls_blank_dropped",))
@on_calls
def call_blank_beside(calls: list[Any], sample: Sample) -> list[Any]:
    """A call without id and name beside the real ones."""
    function = {"name": "", "arguments": sample.pick(["{}", '{"path":"x"}', ""])}
    return [*calls, {"id": "", "type": "function", "function": function}]


@shape_fault("names", "D58", outcome="TOOL_NOT_ALLOWED")
@on_call
def call_blank_alone(call: JSON, _sample: Sample) -> JSON:
    """Calls that have arguments, but neither id nor name."""
    match call:
        case {"function": {"arguments": str(text)}}:
            function = {"name": "", "arguments": text if len(text) > 2 else '{"a":1}'}  # noqa: PLR2004  # not {}
            return {"id": "", "type": "function", "function": function}
        case _:
            return call


# Ids


@shape_fault("ids", "D59", "D60")
@on_call
def id_missing(call: JSON, sample: Sample) -> JSON:
    """The id is absent, null, empty or blank."""
    rest = {key: call[key] for key in call if key != "id"}
    return sample.pick([rest, call | {"id": None}, call | {"id": ""}, call | {"id": " "}])  # type: ignore[no-any-return]


@shape_fault("ids", "D61", "D64")
@on_call
def id_repeated(call: JSON, sample: Sample) -> JSON:
    """Every call of the reply has the same id."""
    same = sample.pick(["call_1", "0", "call_00_aaa"])
    return call if call.get("id") == same else call | {"id": same}


@shape_fault("ids", "D62")
@on_calls
def id_reused(calls: list[Any], sample: Sample) -> list[Any]:
    """Ids that count from zero in each turn, so that they come back turn after turn."""
    form = sample.pick(["call_{}", "terminal:{}", "{}"])
    return [
        call | {"id": form.format(at)} if isinstance(call, dict) and call.get("id") else call
        for at, call in enumerate(calls)
    ]


# Names


def _renamed(function: JSON, form: str) -> JSON:
    return function | {"name": form.format(function["name"])}


@shape_fault("names", "D48")
@on_function
def name_control_token(function: JSON, sample: Sample) -> JSON:
    """A control token of the chat template sticks to the name."""
    forms = ["{}<|channel|>commentary", "{}<|constrain|>json", "functions.{}<|channel|>analysis"]
    return _renamed(function, sample.pick(forms))


@shape_fault("names", "D49")
@on_function
def name_prefixed(function: JSON, sample: Sample) -> JSON:
    """A known namespace before the name."""
    forms = ["functions.{}", "default_api:{}", "google:{}", "creating:{}", "default_api.{}", " {} "]
    return _renamed(function, sample.pick(forms))


@shape_fault("names", "vllm-mlx-631")
@on_function
def name_surrounded(function: JSON, sample: Sample) -> JSON:
    """Marks around the name that are no part of it: separators, a number, quotation marks."""
    forms = ["{}[ARGS]", "functions.{}:0", "{}()", "`{}`", "{}\n<tool_sep>", "{}</tool_call>"]
    forms += ["commentary to=functions.{}<|constrain|>json", "[TOOL_CALLS]{}"]
    return _renamed(function, sample.pick(forms))


@shape_fault("names", "D50", outcome="TOOL_NOT_ALLOWED")
@on_function
def name_embellished(function: JSON, sample: Sample) -> JSON:
    """The name inside words that the model invented; nothing is run by resemblance."""
    forms = ["tool:{}", "google:tool:{}:index:0", "{}_v2_final", "my {} tool"]
    return _renamed(function, sample.pick(forms))


@shape_fault("names", "D52", "D53", "D54", "D56", outcome="TOOL_NOT_ALLOWED")
@on_function
def name_unknown(function: JSON, sample: Sample) -> JSON:
    """A tool that was never declared, sometimes under a name that no provider accepts."""
    return _renamed(
        function, sample.pick(["toolbox.web.answer", "Search The Web!", "ünïcode", "."])
    )


@shape_fault("names", "D57", cures=("assistant_tool_calls_name_tags_to_arguments",))
@on_function
def name_swallowed_arguments(function: JSON, sample: Sample) -> JSON:
    """The arguments are tags inside the name."""
    values = decoded(function.get("arguments"))
    # As a tag, null is the same as the text of that name.
    if not values or None in values.values():
        return function
    texts = {
        key: value if isinstance(value, str) else written(value) for key, value in values.items()
    }
    if any(tag in text for pair in texts.items() for text in pair for tag in _TAGS):
        return function
    tagged = "".join(
        f"<arg_key>{key}</arg_key><arg_value>{text}</arg_value>" for key, text in texts.items()
    )
    return {"name": function["name"] + tagged, "arguments": sample.pick(["", "{}"])}


@shape_fault("names", "D57", outcome="TOOL_NOT_ALLOWED")
@on_function
def name_swallowed_half(function: JSON, _sample: Sample) -> JSON:
    """The arguments are tags inside the name, and the last one is cut off."""
    return _renamed(function, "{}<arg_key>path</arg_key><arg_value>/home") | {"arguments": ""}
