"""Faults of argument text: JSON that is misspelled, wrapped, truncated, or broken."""

import json

from surecall.simulator.faults.shape_fault import (
    Sample,
    decode_arguments,
    encode_json,
    on_choice,
    on_function,
    on_text,
    shape_fault,
)
from surecall.values.types import JSON

_PARSE_ERROR = "ARGUMENTS_JSON_PARSE_ERROR"
_ESCAPED_BACKSLASH = "\\\\"
_RUNAWAY_CHARS = 400_000


@shape_fault(
    on_function, "arguments", "D17", repairs=("assistant_tool_calls_arguments_json_string_if_hash",)
)
def arguments_object(function: JSON, _sample: Sample) -> JSON:
    """The arguments are an object instead of a JSON string."""
    text = function.get("arguments")
    values = decode_arguments(text)
    return function if values is None or values is text else function | {"arguments": values}


@shape_fault(
    on_text, "arguments", "D18", repairs=("assistant_tool_calls_arguments_blank_to_empty_object",)
)
def arguments_blank(text: str, sample: Sample) -> str:
    """A call without arguments has an empty string."""
    blank: str = sample.pick(["", " ", "\n"])
    return blank if text == "{}" else text


@shape_fault(on_function, "arguments", "D19")
def arguments_null(function: JSON, sample: Sample) -> JSON:
    """A call without arguments has null, or no `arguments` field."""
    if function.get("arguments") != "{}":
        return function
    rest = {key: function[key] for key in function if key != "arguments"}
    return sample.pick([rest | {"arguments": None}, rest])  # type: ignore[no-any-return]


@shape_fault(on_text, "arguments", "D20", repairs=("double_encoded",))
def arguments_encoded_twice(text: str, _sample: Sample) -> str:
    """The arguments are JSON-encoded twice."""
    return encode_json(text) if text.strip() and not text.startswith('"') else text


@shape_fault(on_text, "arguments", "D23", repairs=("code_fence",))
def arguments_fenced(text: str, sample: Sample) -> str:
    """The JSON is inside a code fence."""
    if not text.strip() or text.startswith("```"):
        return text
    return f"```{sample.pick(['json', '', 'JSON'])}\n{text}\n```"


@shape_fault(on_text, "arguments", "D24", repairs=("trailing_commas",))
def arguments_trailing_comma(text: str, sample: Sample) -> str:
    """The JSON has a trailing comma."""
    closed = _is_in_braces(text) and ":" in text
    return text[:-1] + sample.pick([",", ", ", ",\n"]) + "}" if closed else text


@shape_fault(on_text, "arguments", "D24", "D42", outcome=_PARSE_ERROR)
def arguments_cut_off(text: str, sample: Sample) -> str:
    """The JSON is truncated, whatever the finish reason."""
    return text[: -1 - sample.seed % 3] or "{"


@shape_fault(on_text, "arguments", "D24", outcome=_PARSE_ERROR)
def arguments_unbalanced(text: str, sample: Sample) -> str:
    """A closing bracket has the wrong type, alone or next to the right one."""
    return f"{text[:-1]}{sample.pick([']}', ']'])}"


@shape_fault(on_text, "arguments", "vllm-53638", repairs=("closers_too_many",))
def arguments_closer_too_many(text: str, sample: Sample) -> str:
    """The object is followed by an extra closing bracket."""
    return text + sample.pick(["}", "\n}", "]", "}}"]) if _is_in_braces(text) else text


@shape_fault(on_text, "arguments", "tinyagents-68", repairs=("doubled_braces",))
def arguments_braces_doubled(text: str, sample: Sample) -> str:
    """The object has a second pair of braces."""
    return sample.pick(["{<>}", "{ <>\n}"]).replace("<>", text) if _is_in_braces(text) else text


@shape_fault(on_function, "arguments", "tinyagents-68", repairs=("bare_keys",))
def arguments_bare_keys(function: JSON, _sample: Sample) -> JSON:
    """The keys are unquoted, as in JavaScript."""
    values = decode_arguments(function.get("arguments"))
    if not isinstance(values, dict) or not values or not all(map(_is_bare_key, values)):
        return function
    pairs = ", ".join(f"{key}: {encode_json(value)}" for key, value in values.items())
    return function | {"arguments": f"{{{pairs}}}"}


def _is_bare_key(key: str) -> bool:
    return key.isascii() and key.isidentifier() and key not in {"True", "False", "None"}


@shape_fault(on_text, "arguments", "mastra-13826", repairs=("control_tokens",))
def arguments_end_token(text: str, sample: Sample) -> str:
    """Chat template tokens or zero-width characters surround the JSON."""
    forms = ["{}<|im_end|>", "{}\t<|call|>", "\u200b{}", "{}\n</tool_call>", "{}</s>\ufeff"]
    forms += ["[ARGS]{}", "{}<end_of_turn>\n", "{}[/TOOL_CALLS]", "\u2060{}<|eot_id|><|eot_id|>"]
    return sample.pick(forms).replace("{}", text) if text.strip() else text


@shape_fault(on_text, "arguments", "nanobot-1294", repairs=("sole_item",))
def arguments_listed(text: str, sample: Sample) -> str:
    """The object is inside a list of one."""
    form = sample.pick(["[{}]", "[ {}\n]", "[{},]"])
    return form.replace("{}", text) if _is_in_braces(text) else text


@shape_fault(on_function, "arguments", "hermes-46553", repairs=("empty_object_beside",))
def arguments_empty_object_beside(function: JSON, sample: Sample) -> JSON:
    """An empty object precedes or follows the arguments of a tool that requires some."""
    text, schema = function.get("arguments"), sample.for_tool(function.get("name")).schema
    if not schema.get("required") or not isinstance(text, str) or not _is_in_braces(text):
        return function
    form = sample.pick(["{}<>", "{}\n<>", "<>{}", "{ }{}<>"])
    return function | {"arguments": form.replace("<>", text)}


@shape_fault(on_function, "arguments", "agno-6303", repairs=("no_arguments",))
def arguments_nothing(function: JSON, sample: Sample) -> JSON:
    """A call of a tool without parameters has an empty list or a word for nothing."""
    schema = sample.for_tool(function.get("name")).schema
    if function.get("arguments") != "{}" or schema.get("properties"):
        return function
    return function | {"arguments": sample.pick(["[]", '""', '"[]"', "None", '"null"'])}


def _is_in_braces(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


@shape_fault(on_function, "arguments", "D25", "D26", repairs=("python_literals",))
def arguments_python(function: JSON, _sample: Sample) -> JSON:
    """The arguments are a Python literal instead of JSON."""
    text = function.get("arguments")
    values = decode_arguments(text)
    if not isinstance(text, str) or values is None or not _differs_in_python(values):
        return function
    return function | {"arguments": repr(values)}


def _differs_in_python(values: JSON) -> bool:
    """Return whether Python spells these values unlike JSON, with escapes valid in both."""
    spelt = repr(values)
    quoted = "'" in spelt or "True" in spelt or "False" in spelt or "None" in spelt
    return quoted and "\\U" not in spelt


@shape_fault(on_function, "arguments", "D28", repairs=("control_characters",))
def arguments_raw_newlines(function: JSON, _sample: Sample) -> JSON:
    """The strings contain unescaped newlines and tabs."""
    pieces = _canonical_arguments(function).split(_ESCAPED_BACKSLASH)
    raw = [piece.replace("\\n", "\n").replace("\\t", "\t") for piece in pieces]
    return function if raw == pieces else function | {"arguments": _ESCAPED_BACKSLASH.join(raw)}


@shape_fault(on_function, "arguments", "D29", repairs=("control_characters",))
def arguments_backslash_newline(function: JSON, _sample: Sample) -> JSON:
    """The strings contain a backslash before an unescaped newline, as in a shell command."""
    first, *rest = _canonical_arguments(function).split(_ESCAPED_BACKSLASH)
    joined = [
        "\\\n" + piece[2:] if piece.startswith("\\n") else _ESCAPED_BACKSLASH + piece
        for piece in rest
    ]
    text = first + "".join(joined)
    return function if text == _canonical_arguments(function) else function | {"arguments": text}


def _canonical_arguments(function: JSON) -> str:
    """Return the arguments re-encoded; empty if another fault already changed them."""
    text = function.get("arguments")
    values = decode_arguments(text)
    return encode_json(values) if isinstance(text, str) and values is not None else ""


@shape_fault(on_text, "arguments", "D30", repairs=("escaped_whitespace",))
def arguments_escaped_whitespace(text: str, sample: Sample) -> str:
    """Escaped whitespace, a backslash and a letter, separates the values."""
    if not _is_in_braces(text):
        return text
    blank = sample.pick(["\\n", "\\n\\t", "\\r\\n"])
    return f"{{{blank}{text[1:-1]}{blank}}}"


@shape_fault(on_text, "arguments", "D31", repairs=("repeated_object",))
def arguments_repeated(text: str, sample: Sample) -> str:
    """One call contains the same object twice."""
    return text + sample.pick(["", "\n"]) + text if _is_in_braces(text) else text


@shape_fault(on_text, "arguments", "D31", outcome=_PARSE_ERROR)
def arguments_several(text: str, _sample: Sample) -> str:
    """One call contains two different objects, so its meaning is ambiguous."""
    return f'{text}{{"path":"another"}}'


@shape_fault(on_text, "arguments", "D40", repairs=("surrogates",))
def arguments_lone_surrogate(text: str, sample: Sample) -> str:
    """A lone surrogate escape stands for a character; it decodes to U+FFFD."""
    return text.replace("\ufffd", sample.pick(["\\ud99c", "\\udc00"]))


@shape_fault(on_function, "arguments", "D41")
def arguments_unicode_escapes(function: JSON, _sample: Sample) -> JSON:
    """Non-ASCII characters are escaped, those outside the BMP as surrogate pairs."""
    text = function.get("arguments")
    values = decode_arguments(text)
    if not isinstance(text, str) or values is None or text.isascii():
        return function
    return function | {"arguments": json.dumps(values)}


@shape_fault(on_choice, "arguments", "D43", "D44", outcome="ARGUMENTS_TRUNCATED")
def reply_cut_off(choice: JSON, sample: Sample) -> JSON:
    """The reply hit its token limit; its truncated arguments may still parse."""
    match choice.get("message"):
        case {"tool_calls": [*_, {"function": {"arguments": str(text)}}] as calls, **rest}:
            half = calls[-1]["function"] | {"arguments": _shorten_arguments(text, sample)}
            cut = [*calls[:-1], calls[-1] | {"function": half}]
            return choice | {"finish_reason": "length", "message": rest | {"tool_calls": cut}}
        case _:
            return choice


def _shorten_arguments(text: str, sample: Sample) -> str:
    """Return arguments with the first value only, a half of them, or all."""
    values = decode_arguments(text) or {}
    first: JSON = dict(list(values.items())[:1])
    return str(sample.pick([encode_json(first), text[: len(text) // 2], text]))


@shape_fault(on_text, "arguments", "D45", outcome=_PARSE_ERROR)
def arguments_value_missing(text: str, sample: Sample) -> str:
    """A key has no value."""
    values = decode_arguments(text)
    if not values:
        return text
    key = sample.pick(list(values))
    rest = encode_json({name: value for name, value in values.items() if name != key})[1:-1]
    return f"{{{json.dumps(key)}: ,{rest}}}" if rest else f"{{{json.dumps(key)}: }}"


@shape_fault(on_text, "arguments", "D46", outcome=_PARSE_ERROR)
def arguments_unreadable(_text: str, sample: Sample) -> str:
    """The arguments are not an object; they never mean an empty one."""
    return str(sample.pick(["I will add the numbers.", "[1, 2]", "{a = 1}", "42", "<xml/>"]))


@shape_fault(on_text, "arguments", "D47", outcome="ARGUMENTS_TOO_LARGE")
def arguments_runaway(text: str, _sample: Sample) -> str:
    """The arguments repeat the same words until they exceed the size limit."""
    return f'{text[:-1]}{"," if len(text) > 2 else ""}"runaway":"{"la" * (_RUNAWAY_CHARS // 2)}"}}'  # noqa: PLR2004  # not {}
