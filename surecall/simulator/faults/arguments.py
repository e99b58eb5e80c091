"""Faults of argument text: how the JSON is spelt, wrapped, cut and broken."""

import json

from surecall.simulator.faults.shape_fault import (
    Sample,
    decoded,
    on_choice,
    on_function,
    on_text,
    shape_fault,
    written,
)
from surecall.values.types import JSON

_REFUSED = "ARGUMENTS_JSON_PARSE_ERROR"
_ESCAPED_BACKSLASH = "\\\\"
_RUNAWAY = 400_000


@shape_fault("arguments", "D17", cures=("assistant_tool_calls_arguments_json_string_if_hash",))
@on_function
def arguments_object(function: JSON, _sample: Sample) -> JSON:
    """Arguments as an object instead of JSON text."""
    text = function.get("arguments")
    values = decoded(text)
    return function if values is None or values is text else function | {"arguments": values}


@shape_fault("arguments", "D18", cures=("assistant_tool_calls_arguments_blank_to_empty_object",))
@on_text
def arguments_blank(text: str, sample: Sample) -> str:
    """Empty text for a call without arguments."""
    blank: str = sample.pick(["", " ", "\n"])
    return blank if text == "{}" else text


@shape_fault("arguments", "D19")
@on_function
def arguments_null(function: JSON, sample: Sample) -> JSON:
    """Null, or nothing at all, for a call without arguments."""
    if function.get("arguments") != "{}":
        return function
    rest = {key: function[key] for key in function if key != "arguments"}
    return sample.pick([rest | {"arguments": None}, rest])  # type: ignore[no-any-return]


@shape_fault("arguments", "D20", cures=("double_encoded",))
@on_text
def arguments_encoded_twice(text: str, _sample: Sample) -> str:
    """JSON text inside a JSON string."""
    return written(text) if text.strip() and not text.startswith('"') else text


@shape_fault("arguments", "D23", cures=("code_fence",))
@on_text
def arguments_fenced(text: str, sample: Sample) -> str:
    """A code fence around the JSON."""
    if not text.strip() or text.startswith("```"):
        return text
    return f"```{sample.pick(['json', '', 'JSON'])}\n{text}\n```"


@shape_fault("arguments", "D24", cures=("trailing_commas",))
@on_text
def arguments_trailing_comma(text: str, sample: Sample) -> str:
    """A comma after the last value."""
    closed = text.endswith("}") and text.startswith("{") and ":" in text
    return text[:-1] + sample.pick([",", ", ", ",\n"]) + "}" if closed else text


@shape_fault("arguments", "D24", "D42", outcome=_REFUSED)
@on_text
def arguments_cut_off(text: str, sample: Sample) -> str:
    """The JSON ends too early, whatever the finish reason says."""
    return text[: -1 - sample.seed % 3] or "{"


@shape_fault("arguments", "D24", outcome=_REFUSED)
@on_text
def arguments_unbalanced(text: str, sample: Sample) -> str:
    """A bracket of the wrong kind, alone or beside the right one."""
    return f"{text[:-1]}{sample.pick([']}', ']'])}"


@shape_fault("arguments", "vllm-53638", cures=("closers_too_many",))
@on_text
def arguments_closer_too_many(text: str, sample: Sample) -> str:
    """A whole object, and after it one closing bracket too many."""
    return text + sample.pick(["}", "\n}", "]", "}}"]) if _is_object(text) else text


@shape_fault("arguments", "tinyagents-68", cures=("doubled_braces",))
@on_text
def arguments_braces_doubled(text: str, sample: Sample) -> str:
    """A second pair of braces around the object."""
    return sample.pick(["{<>}", "{ <>\n}"]).replace("<>", text) if _is_object(text) else text


@shape_fault("arguments", "tinyagents-68", cures=("bare_keys",))
@on_function
def arguments_bare_keys(function: JSON, _sample: Sample) -> JSON:
    """Keys without quotation marks, as in JavaScript."""
    values = decoded(function.get("arguments"))
    if not isinstance(values, dict) or not values or not all(map(_is_bare, values)):
        return function
    pairs = ", ".join(f"{key}: {written(value)}" for key, value in values.items())
    return function | {"arguments": f"{{{pairs}}}"}


def _is_bare(key: str) -> bool:
    return key.isascii() and key.isidentifier() and key not in {"True", "False", "None"}


@shape_fault("arguments", "mastra-13826", cures=("control_tokens",))
@on_text
def arguments_end_token(text: str, sample: Sample) -> str:
    """Control tokens of the chat template, or characters without width, around the JSON."""
    forms = ["{}<|im_end|>", "{}\t<|call|>", "\u200b{}", "{}\n</tool_call>", "{}</s>\ufeff"]
    forms += ["[ARGS]{}", "{}<end_of_turn>\n", "{}[/TOOL_CALLS]", "\u2060{}<|eot_id|><|eot_id|>"]
    return sample.pick(forms).replace("{}", text) if text.strip() else text


@shape_fault("arguments", "nanobot-1294", cures=("sole_item",))
@on_text
def arguments_listed(text: str, sample: Sample) -> str:
    """The one object inside a list."""
    form = sample.pick(["[{}]", "[ {}\n]", "[{},]"])
    return form.replace("{}", text) if _is_object(text) else text


@shape_fault("arguments", "hermes-46553", cures=("empty_object_beside",))
@on_function
def arguments_empty_object_beside(function: JSON, sample: Sample) -> JSON:
    """An empty object before or after the real one, of a tool that needs arguments."""
    text, schema = function.get("arguments"), sample.about(function.get("name")).schema
    if not schema.get("required") or not isinstance(text, str) or not _is_object(text):
        return function
    form = sample.pick(["{}<>", "{}\n<>", "<>{}", "{ }{}<>"])
    return function | {"arguments": form.replace("<>", text)}


@shape_fault("arguments", "agno-6303", cures=("no_arguments",))
@on_function
def arguments_nothing(function: JSON, sample: Sample) -> JSON:
    """An empty list or text for a call of a tool without parameters."""
    schema = sample.about(function.get("name")).schema
    if function.get("arguments") != "{}" or schema.get("properties"):
        return function
    return function | {"arguments": sample.pick(["[]", '""', '"[]"', "None", '"null"'])}


def _is_object(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


@shape_fault("arguments", "D25", "D26", cures=("python_literals",))
@on_function
def arguments_python(function: JSON, _sample: Sample) -> JSON:
    """A Python literal instead of JSON; apostrophes stay what they are."""
    text = function.get("arguments")
    values = decoded(text)
    if not isinstance(text, str) or values is None or not _is_python(values):
        return function
    return function | {"arguments": repr(values)}


def _is_python(values: JSON) -> bool:
    """Whether Python spells these values unlike JSON, in escapes that both know."""
    spelt = repr(values)
    quoted = "'" in spelt or "True" in spelt or "False" in spelt or "None" in spelt
    return quoted and "\\U" not in spelt


@shape_fault("arguments", "D28", cures=("control_characters",))
@on_function
def arguments_raw_newlines(function: JSON, _sample: Sample) -> JSON:
    """Real newlines and tabs inside the strings."""
    pieces = _clean(function).split(_ESCAPED_BACKSLASH)
    raw = [piece.replace("\\n", "\n").replace("\\t", "\t") for piece in pieces]
    return function if raw == pieces else function | {"arguments": _ESCAPED_BACKSLASH.join(raw)}


@shape_fault("arguments", "D29", cures=("control_characters",))
@on_function
def arguments_backslash_newline(function: JSON, _sample: Sample) -> JSON:
    """A backslash before a real newline, as in a shell command."""
    first, *rest = _clean(function).split(_ESCAPED_BACKSLASH)
    joined = [
        "\\\n" + piece[2:] if piece.startswith("\\n") else _ESCAPED_BACKSLASH + piece
        for piece in rest
    ]
    text = first + "".join(joined)
    return function if text == _clean(function) else function | {"arguments": text}


def _clean(function: JSON) -> str:
    """Return the arguments spelt anew, or nothing if they are no longer clean."""
    text = function.get("arguments")
    values = decoded(text)
    return written(values) if isinstance(text, str) and values is not None else ""


@shape_fault("arguments", "D30", cures=("escaped_whitespace",))
@on_text
def arguments_escaped_whitespace(text: str, sample: Sample) -> str:
    """A backslash and an n, as two characters, between the values."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    blank = sample.pick(["\\n", "\\n\\t", "\\r\\n"])
    return f"{{{blank}{text[1:-1]}{blank}}}"


@shape_fault("arguments", "D31", cures=("repeated_object",))
@on_text
def arguments_repeated(text: str, sample: Sample) -> str:
    """The same object twice in one call."""
    whole = text.startswith("{") and text.endswith("}")
    return text + sample.pick(["", "\n"]) + text if whole else text


@shape_fault("arguments", "D31", outcome=_REFUSED)
@on_text
def arguments_several(text: str, _sample: Sample) -> str:
    """Two different objects in one call: which one is meant is not ours to guess."""
    return f'{text}{{"path":"another"}}'


@shape_fault("arguments", "D40", cures=("surrogates",))
@on_text
def arguments_lone_surrogate(text: str, sample: Sample) -> str:
    """Half of a character, as an escape; it can only be read as a replacement character."""
    return text.replace("\ufffd", sample.pick(["\\ud99c", "\\udc00"]))


@shape_fault("arguments", "D41")
@on_function
def arguments_unicode_escapes(function: JSON, _sample: Sample) -> JSON:
    """Characters beyond ASCII as escapes, the rare ones as a pair."""
    text = function.get("arguments")
    values = decoded(text)
    if not isinstance(text, str) or values is None or text.isascii():
        return function
    return function | {"arguments": json.dumps(values)}


@shape_fault("arguments", "D43", "D44", outcome="ARGUMENTS_TRUNCATED")
@on_choice
def reply_cut_off(choice: JSON, sample: Sample) -> JSON:
    """The reply hit its token limit; what arrived of the arguments may still parse."""
    match choice.get("message"):
        case {"tool_calls": [*_, {"function": {"arguments": str(text)}}] as calls, **rest}:
            half = calls[-1]["function"] | {"arguments": _shorter(text, sample)}
            cut = [*calls[:-1], calls[-1] | {"function": half}]
            return choice | {"finish_reason": "length", "message": rest | {"tool_calls": cut}}
        case _:
            return choice


def _shorter(text: str, sample: Sample) -> str:
    values = decoded(text) or {}
    first: JSON = dict(list(values.items())[:1])
    return str(sample.pick([written(first), text[: len(text) // 2], text]))


@shape_fault("arguments", "D45", outcome=_REFUSED)
@on_text
def arguments_value_missing(text: str, sample: Sample) -> str:
    """A key without a value: it may have been empty, null or forgotten."""
    values = decoded(text)
    if not values:
        return text
    key = sample.pick(list(values))
    rest = written({name: value for name, value in values.items() if name != key})[1:-1]
    return f"{{{json.dumps(key)}: ,{rest}}}" if rest else f"{{{json.dumps(key)}: }}"


@shape_fault("arguments", "D46", outcome=_REFUSED)
@on_text
def arguments_unreadable(_text: str, sample: Sample) -> str:
    """Text that is no object at all. It never means an empty one."""
    return str(sample.pick(["I will add the numbers.", "[1, 2]", "{a = 1}", "42", "<xml/>"]))


@shape_fault("arguments", "D47", outcome="ARGUMENTS_TOO_LARGE")
@on_text
def arguments_runaway(text: str, _sample: Sample) -> str:
    """Arguments that do not stop: the same words again and again."""
    return f'{text[:-1]}{"," if len(text) > 2 else ""}"runaway":"{"la" * (_RUNAWAY // 2)}"}}'  # noqa: PLR2004  # not {}
