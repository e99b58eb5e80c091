"""Tool results: the envelope that the model sees, and the limits on its size.

{"ok": bool, "tool_name": str, "data": {…}, "warnings": […], "errors": [{"code", "message"}]}
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from surecall.settings.config import ToolCallingConfig
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Problem, ToolCall, ToolResult
from surecall.wire.chat_format import replace_surrogates
from surecall.wire.transforms import TOOL_RESULT

MAX_DEPTH = 64
MAX_NODES = 50_000
MAX_SMALL_ITEMS = 32
PREVIEW_CHARS = 400
PREVIEW_ITEMS = 10
_ELLIPSIS = "…"
_ENVELOPE_KEYS = frozenset({"ok", "tool_name", "data", "warnings", "errors"})


class Measure(msgspec.Struct, frozen=True, gc=False):
    """The estimated size of a value before serialization. `reason` names the exceeded limit."""

    reason: str | None
    estimated_bytes: int


def success_envelope(name: str, value: Any) -> JSON:
    """Return the envelope of a tool's return value.

    A mapping with an `ok` key is already an envelope; its unknown keys become part of the data.
    """
    if isinstance(value, Mapping) and "ok" in value:
        return _normalize_envelope(name, value)
    return _envelope(name, ok=True, data=_as_data(value))


def failure_envelope(
    name: str, code: str, message: str, data: JSON | None = None, *, retry: bool = True
) -> JSON:
    """Return the envelope of a failed call."""
    error = {"code": code, "message": message} | _retry_field(retry=retry)
    return _envelope(name, ok=False, data=data or {}, errors=[error])


def refusal_envelope(name: str, problem: Problem) -> JSON:
    """Return the envelope of a call that did not run."""
    return failure_envelope(name, problem.code, problem.message, problem.data)


def _envelope(name: str, *, ok: bool, data: Any, errors: Sequence[JSON] = ()) -> JSON:
    return {"ok": ok, "tool_name": name, "data": data, "warnings": [], "errors": list(errors)}


def _normalize_envelope(name: str, value: Mapping[str, Any]) -> JSON:
    warnings = value.get("warnings")
    given = value.get("errors")
    beside = {key: item for key, item in value.items() if key not in _ENVELOPE_KEYS}
    # Only a literal true is success: a tool that returns "yes" or 1 did not mean an envelope.
    return {
        "ok": value["ok"] is True,
        "tool_name": str(value.get("tool_name") or name),
        "data": beside | _as_data(value.get("data")),
        "warnings": list(warnings) if isinstance(warnings, list | tuple) else [],
        "errors": [
            _normalize_error(item)
            for item in (given if isinstance(given, list | tuple) else [given])
            if item
        ],
    }


def _normalize_error(item: Any) -> JSON:
    """Return an error of a tool with a code and a message."""
    if isinstance(item, Mapping):
        code, message = item.get("code") or "TOOL_FAILED", item.get("message") or ""
        final = item.get("retry") is False
        return {"code": str(code), "message": str(message)} | _retry_field(retry=not final)
    return {"code": "TOOL_FAILED", "message": str(item)}


def _retry_field(*, retry: bool) -> JSON:
    """Return `retry: false` for a permanent error; nothing otherwise."""
    return {} if retry else {"retry": False}


def _as_data(value: Any) -> JSON:
    """Return a value as the data of an envelope, which is an object."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {"value": value}


def build_result(
    call: ToolCall, envelope: JSON, config: ToolCallingConfig, *, executed: bool
) -> ToolResult:
    """Transform, measure, and serialize an envelope; replace one that exceeds a limit."""
    if call.warnings:
        envelope = envelope | {"warnings": [*call.warnings, *envelope["warnings"]]}
    content, problem = _serialize(envelope, config)
    if problem is not None:
        envelope = _replacement(call, envelope, problem, executed=executed)
        content = _fit_replacement(envelope, config)
    return ToolResult(
        call.id,
        call.name,
        ok=envelope["ok"] is True,
        content=content,
        executed=executed,
        replaced=problem is not None,
        error_codes=tuple(replace_surrogates(error["code"]) for error in envelope["errors"]),
        retry=all(error.get("retry", True) for error in envelope["errors"]),
    )


def _serialize(envelope: JSON, config: ToolCallingConfig) -> tuple[str, Problem | None]:
    """Return the text of an envelope, or the reason why it must be replaced."""
    limit = config.max_tool_output_bytes
    shaped = TOOL_RESULT.apply(config.endpoint.tool_result_transforms, envelope, [])
    try:
        measured = _SMALL if _is_small(shaped.get("data")) else measure(shaped, limit)
        data = b"" if measured.reason else to_json(shaped)
    except BaseException as error:  # noqa: BLE001  # a tool's own classes are third-party code
        return "", unserializable_problem(error)
    if measured.reason is None and len(data) <= limit:
        return data.decode(), None
    size = max(len(data), measured.estimated_bytes)
    preview = _preview(envelope["data"], min(PREVIEW_CHARS, limit // 4))
    return "", _limit_problem(measured.reason or "MAX_BYTES", size, limit, preview)


_SMALL = Measure(None, 0)
_SCALARS = frozenset({str, int, float, bool, type(None)})


def _is_small(data: Any) -> bool:
    """Whether a result is a small mapping of scalars, as most are, which needs no measuring."""
    return (
        type(data) is dict
        and len(data) <= MAX_SMALL_ITEMS
        and all(type(value) in _SCALARS for value in data.values())
    )


def _replacement(call: ToolCall, envelope: JSON, problem: Problem, *, executed: bool) -> JSON:
    """Return a smaller envelope: a refusal without its data, or a description of an output."""
    if envelope["errors"] and not (executed and envelope["data"]):
        first = envelope["errors"][0]
        message, retry = first["message"][:PREVIEW_CHARS], first.get("retry", True)
        return failure_envelope(call.name, first["code"], message, retry=retry)
    return refusal_envelope(call.name, problem) | {"warnings": list(call.warnings)}


def _fit_replacement(envelope: JSON, config: ToolCallingConfig) -> str:
    """Serialize a replacement within the limit, in ever shorter forms."""
    brief = {"executed": True} if envelope["data"] else {}
    for form in (envelope, envelope | {"data": brief, "warnings": []}):
        content, over = _serialize(form, config)
        if over is None:
            return content
    codes = [{"code": error["code"]} for error in envelope["errors"]]
    bare = to_json({"ok": False, "errors": codes})
    # No shorter envelope is possible: exceed a limit of a few bytes rather than break the JSON.
    return bare.decode() if len(bare) <= config.max_tool_output_bytes else '{"ok":false}'


def unserializable_problem(error: BaseException) -> Problem:
    """Return the problem of a tool that ran but returned something other than JSON."""
    what = "contains NaN or infinity" if isinstance(error, NotANumber) else "is not JSON"
    return Problem(
        ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,
        f"The tool ran, but its result {what} and cannot be shown. Do not run it again for that.",
        {"executed": True, "error_class": type(error).__name__},
    )


def _limit_problem(reason: str, size: int, limit: int, preview: str) -> Problem:
    """Return the problem of a result that exceeds a limit."""
    data: JSON = {"executed": True, "bytes": size, "max_bytes": limit, "reason": reason}
    if preview:
        data["preview"] = preview
    if reason == "MAX_DEPTH":
        return Problem(
            ErrorCode.TOOL_OUTPUT_TOO_DEEP,
            "The tool ran, but its result is nested too deeply to be shown.",
            data,
        )
    return Problem(
        ErrorCode.TOOL_OUTPUT_TOO_LARGE,
        "The tool ran, but its result is too large to be shown. Ask for less of it.",
        data,
    )


def _preview(value: Any, limit: int) -> str:
    """Return the beginning of a value as JSON; blank if it cannot be serialized."""
    try:
        return to_json(_abridge(value)).decode()[:limit]
    except BaseException:  # noqa: BLE001  # a tool's own classes are third-party code
        return ""


def _abridge(value: Any, depth: int = 3) -> Any:
    """Copy the beginning of a value: few items, few levels, short texts; `…` marks omissions."""
    match value:
        case str() | bytes():
            return value[:PREVIEW_CHARS]
        case Mapping() | list() | tuple() | set() | frozenset() if depth == 0:
            return _ELLIPSIS
        case Mapping():
            pairs = islice(value.items(), PREVIEW_ITEMS)
            shown = {_abridge(key): _abridge(item, depth - 1) for key, item in pairs}
            return shown | ({_ELLIPSIS: _ELLIPSIS} if len(value) > PREVIEW_ITEMS else {})
        case list() | tuple() | set() | frozenset():
            first = [_abridge(item, depth - 1) for item in islice(value, PREVIEW_ITEMS)]
            return first + [_ELLIPSIS] * (len(value) > PREVIEW_ITEMS)
        case _:
            return value


class NotANumber(ValueError):
    """A tool returned NaN or infinity, which JSON cannot represent."""


def to_json(value: Any) -> bytes:
    """Serialize a tool's return value: JSON, dataclasses, dates, sets, pydantic models."""
    try:
        data = msgspec.json.encode(value, enc_hook=_to_plain)
    except UnicodeEncodeError:
        data = msgspec.json.encode(
            replace_surrogates(msgspec.to_builtins(value, enc_hook=_to_plain))
        )
    # msgspec silently encodes NaN and infinity as null.
    if b"null" in data and _has_non_finite(msgspec.to_builtins(value, enc_hook=_to_plain)):
        raise NotANumber
    return data


def _has_non_finite(value: Any) -> bool:
    """Whether plain data contains NaN or infinity."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        stack.extend(_size_and_children(item)[1])
    return False


def _to_plain(value: Any) -> Any:
    """Convert a value that is not JSON; raise `TypeError` if that is impossible."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    for kind in (str, int, float):  # subclasses, such as markup strings or NumPy numbers
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} cannot be serialized as JSON")


def measure(
    value: Any, max_bytes: int, *, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES
) -> Measure:
    """Walk a value without recursion and stop at the first limit that it exceeds.

    The estimate counts only the characters of keys and texts, so it never exceeds the real size.
    """
    size = nodes = 0
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if depth > max_depth:
            return Measure("MAX_DEPTH", size)
        if nodes > max_nodes:
            return Measure("MAX_NODES", size)
        own_size, children = _size_and_children(item)
        size += own_size
        if size > max_bytes:
            return Measure("STRING_TOO_LARGE" if isinstance(item, str) else "MAX_BYTES", size)
        if len(children) > max_nodes - nodes:
            return Measure("MAX_NODES", size)
        stack.extend([(child, depth + 1) for child in children])
    return Measure(None, size)


def _size_and_children(item: Any) -> tuple[int, Collection[Any]]:
    """Return the size of an item's own texts, and its children."""
    # Exact types first: `isinstance` costs more than the rest of the walk.
    kind = type(item)
    if kind is str:
        return len(item), ()
    if kind is int or kind is bool or kind is float or item is None:
        return 0, ()
    if isinstance(item, str | bytes | bytearray):
        return len(item), ()
    if isinstance(item, Mapping):
        return sum(len(key) for key in item if isinstance(key, str)), item.values()
    return 0, item if isinstance(item, list | tuple | set | frozenset) else ()
