"""Drifts of argument text: how the JSON is spelt, wrapped, cut and broken."""

import json

from surecall.simulator.faults.drift import (
    Scene,
    decoded,
    drift,
    on_choice,
    on_function,
    on_text,
    written,
)
from surecall.values.types import JSON

_REFUSED = "ARGUMENTS_JSON_PARSE_ERROR"
_ESCAPED_BACKSLASH = "\\\\"
_RUNAWAY = 400_000


@drift("arguments", "D17", cures=("assistant_tool_calls_arguments_json_string_if_hash",))
@on_function
def arguments_object(function: JSON, _scene: Scene) -> JSON:
    """Arguments as an object instead of JSON text."""
    text = function.get("arguments")
    values = decoded(text)
    return function if values is None or values is text else function | {"arguments": values}


@drift("arguments", "D18", cures=("assistant_tool_calls_arguments_blank_to_empty_object",))
@on_text
def arguments_blank(text: str, scene: Scene) -> str:
    """Empty text for a call without arguments."""
    blank: str = scene.pick(["", " ", "\n"])
    return blank if text == "{}" else text


@drift("arguments", "D19")
@on_function
def arguments_null(function: JSON, scene: Scene) -> JSON:
    """Null, or nothing at all, for a call without arguments."""
    if function.get("arguments") != "{}":
        return function
    rest = {key: function[key] for key in function if key != "arguments"}
    return scene.pick([rest | {"arguments": None}, rest])  # type: ignore[no-any-return]


@drift("arguments", "D20", cures=("double_encoded",))
@on_text
def arguments_encoded_twice(text: str, _scene: Scene) -> str:
    """JSON text inside a JSON string."""
    return written(text) if text.strip() and not text.startswith('"') else text


@drift("arguments", "D23", cures=("code_fence",))
@on_text
def arguments_fenced(text: str, scene: Scene) -> str:
    """A code fence around the JSON."""
    if not text.strip() or text.startswith("```"):
        return text
    return f"```{scene.pick(['json', '', 'JSON'])}\n{text}\n```"


@drift("arguments", "D24", cures=("trailing_commas",))
@on_text
def arguments_trailing_comma(text: str, scene: Scene) -> str:
    """A comma after the last value."""
    closed = text.endswith("}") and text.startswith("{") and ":" in text
    return text[:-1] + scene.pick([",", ", ", ",\n"]) + "}" if closed else text


@drift("arguments", "D24", "D42", outcome=_REFUSED)
@on_text
def arguments_cut_off(text: str, scene: Scene) -> str:
    """The JSON ends too early, whatever the finish reason says."""
    return text[: -1 - scene.seed % 3] or "{"


@drift("arguments", "D24", outcome=_REFUSED)
@on_text
def arguments_unbalanced(text: str, scene: Scene) -> str:
    """A bracket too many, or of the wrong kind."""
    return f"{text[:-1]}{scene.pick(['}}', ']}', ']'])}"


@drift("arguments", "D25", "D26", cures=("python_literals",))
@on_function
def arguments_python(function: JSON, _scene: Scene) -> JSON:
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


@drift("arguments", "D28", cures=("control_characters",))
@on_function
def arguments_raw_newlines(function: JSON, _scene: Scene) -> JSON:
    """Real newlines and tabs inside the strings."""
    pieces = _clean(function).split(_ESCAPED_BACKSLASH)
    raw = [piece.replace("\\n", "\n").replace("\\t", "\t") for piece in pieces]
    return function if raw == pieces else function | {"arguments": _ESCAPED_BACKSLASH.join(raw)}


@drift("arguments", "D29", cures=("control_characters",))
@on_function
def arguments_backslash_newline(function: JSON, _scene: Scene) -> JSON:
    """A backslash before a real newline, as in a shell command."""
    first, *rest = _clean(function).split(_ESCAPED_BACKSLASH)
    joined = [
        "\\\n" + piece[2:] if piece.startswith("\\n") else _ESCAPED_BACKSLASH + piece
        for piece in rest
    ]
    bent = first + "".join(joined)
    return function if bent == _clean(function) else function | {"arguments": bent}


def _clean(function: JSON) -> str:
    """Return the arguments spelt anew, or nothing if they are bent already."""
    text = function.get("arguments")
    values = decoded(text)
    return written(values) if isinstance(text, str) and values is not None else ""


@drift("arguments", "D30", cures=("escaped_whitespace",))
@on_text
def arguments_escaped_whitespace(text: str, scene: Scene) -> str:
    """A backslash and an n, as two characters, between the values."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    blank = scene.pick(["\\n", "\\n\\t", "\\r\\n"])
    return f"{{{blank}{text[1:-1]}{blank}}}"


@drift("arguments", "D31", cures=("repeated_object",))
@on_text
def arguments_repeated(text: str, scene: Scene) -> str:
    """The same object twice in one call."""
    whole = text.startswith("{") and text.endswith("}")
    return text + scene.pick(["", "\n"]) + text if whole else text


@drift("arguments", "D31", outcome=_REFUSED)
@on_text
def arguments_several(text: str, _scene: Scene) -> str:
    """Two different objects in one call: which one is meant is not ours to guess."""
    return f'{text}{{"path":"another"}}'


@drift("arguments", "D40", cures=("surrogates",))
@on_text
def arguments_lone_surrogate(text: str, scene: Scene) -> str:
    """Half of a character, as an escape; it can only be read as a replacement character."""
    return text.replace("\ufffd", scene.pick(["\\ud99c", "\\udc00"]))


@drift("arguments", "D41")
@on_function
def arguments_unicode_escapes(function: JSON, _scene: Scene) -> JSON:
    """Characters beyond ASCII as escapes, the rare ones as a pair."""
    text = function.get("arguments")
    values = decoded(text)
    if not isinstance(text, str) or values is None or text.isascii():
        return function
    return function | {"arguments": json.dumps(values)}


@drift("arguments", "D43", "D44", outcome="ARGUMENTS_TRUNCATED")
@on_choice
def reply_cut_off(choice: JSON, scene: Scene) -> JSON:
    """The reply hit its token limit; what arrived of the arguments may still parse."""
    match choice.get("message"):
        case {"tool_calls": [*_, {"function": {"arguments": str(text)}}] as calls, **rest}:
            half = calls[-1]["function"] | {"arguments": _shorter(text, scene)}
            cut = [*calls[:-1], calls[-1] | {"function": half}]
            return choice | {"finish_reason": "length", "message": rest | {"tool_calls": cut}}
        case _:
            return choice


def _shorter(text: str, scene: Scene) -> str:
    values = decoded(text) or {}
    first: JSON = dict(list(values.items())[:1])
    return str(scene.pick([written(first), text[: len(text) // 2], text]))


@drift("arguments", "D45", outcome=_REFUSED)
@on_text
def arguments_value_missing(text: str, scene: Scene) -> str:
    """A key without a value: it may have been empty, null or forgotten."""
    values = decoded(text)
    if not values:
        return text
    key = scene.pick(list(values))
    rest = written({name: value for name, value in values.items() if name != key})[1:-1]
    return f"{{{json.dumps(key)}: ,{rest}}}" if rest else f"{{{json.dumps(key)}: }}"


@drift("arguments", "D46", outcome=_REFUSED)
@on_text
def arguments_unreadable(_text: str, scene: Scene) -> str:
    """Text that is no object at all. It never stands for an empty one."""
    return str(scene.pick(["I will add the numbers.", "[1, 2]", "{a: 1}", "42", "<xml/>"]))


@drift("arguments", "D47", outcome="ARGUMENTS_TOO_LARGE")
@on_text
def arguments_runaway(text: str, _scene: Scene) -> str:
    """Arguments that do not stop: the same words again and again."""
    return f'{text[:-1]}{"," if len(text) > 2 else ""}"runaway":"{"la" * (_RUNAWAY // 2)}"}}'  # noqa: PLR2004  # not {}
