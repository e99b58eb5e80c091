"""Tool results: the one envelope a model sees, and the guard over its size.

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
from surecall.wire.messages import scrub
from surecall.wire.transforms import TOOL_RESULT

MAX_DEPTH = 64
MAX_NODES = 50_000
SMALL_ITEMS = 32
PREVIEW_CHARS = 400
PREVIEW_ITEMS = 10
_REST = "…"
_ENVELOPE_KEYS = frozenset({"ok", "tool_name", "data", "warnings", "errors"})


class Measure(msgspec.Struct, frozen=True, gc=False):
    """A cheap look at a value before it is serialised. `reason` says which limit it breaks."""

    reason: str | None
    estimated_bytes: int


def success(name: str, value: Any) -> JSON:
    """Wrap what a tool returned. A mapping with an `ok` key is an envelope already.

    Keys of such a mapping that no envelope has are kept, as part of its data.
    """
    if isinstance(value, Mapping) and "ok" in value:
        return _normalised(name, value)
    return _envelope(name, ok=True, data=_data(value))


def failed(
    name: str, code: str, message: str, data: JSON | None = None, *, retry: bool = True
) -> JSON:
    """Wrap the reason why a call failed."""
    error = {"code": code, "message": message} | _verdict(retry=retry)
    return _envelope(name, ok=False, data=data or {}, errors=[error])


def refusal(name: str, problem: Problem) -> JSON:
    """Wrap the reason why a call did not run."""
    return failed(name, problem.code, problem.message, problem.data)


def _envelope(name: str, *, ok: bool, data: Any, errors: Sequence[JSON] = ()) -> JSON:
    return {"ok": ok, "tool_name": name, "data": data, "warnings": [], "errors": list(errors)}


def _normalised(name: str, value: Mapping[str, Any]) -> JSON:
    warnings = value.get("warnings")
    given = value.get("errors")
    beside = {key: item for key, item in value.items() if key not in _ENVELOPE_KEYS}
    # Only a literal true is success: "yes" or 1 is a tool that did not mean to write an envelope.
    return {
        "ok": value["ok"] is True,
        "tool_name": str(value.get("tool_name") or name),
        "data": beside | _data(value.get("data")),
        "warnings": list(warnings) if isinstance(warnings, list | tuple) else [],
        "errors": [
            _error(item) for item in (given if isinstance(given, list | tuple) else [given]) if item
        ],
    }


def _error(item: Any) -> JSON:
    if isinstance(item, Mapping):
        code, message = item.get("code") or "TOOL_FAILED", item.get("message") or ""
        final = item.get("retry") is False
        return {"code": str(code), "message": str(message)} | _verdict(retry=not final)
    return {"code": "TOOL_FAILED", "message": str(item)}


def _verdict(*, retry: bool) -> JSON:
    """Say that making a call again will not help; nothing is said where it may."""
    return {} if retry else {"retry": False}


def _data(value: Any) -> JSON:
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {"value": value}


def seal(
    call: ToolCall, envelope: JSON, config: ToolCallingConfig, *, executed: bool
) -> ToolResult:
    """Transform, measure and serialise an envelope; one that breaks a limit is replaced."""
    if call.warnings:
        envelope = envelope | {"warnings": [*call.warnings, *envelope["warnings"]]}
    content, problem = _serialised(envelope, config)
    if problem is not None:
        envelope = _replacement(call, envelope, problem, executed=executed)
        content = _fitted(envelope, config)
    return ToolResult(
        call.id,
        call.name,
        ok=envelope["ok"] is True,
        content=content,
        executed=executed,
        replaced=problem is not None,
        error_codes=tuple(scrub(error["code"]) for error in envelope["errors"]),
        retry=all(error.get("retry", True) for error in envelope["errors"]),
    )


def _serialised(envelope: JSON, config: ToolCallingConfig) -> tuple[str, Problem | None]:
    """Return the text of an envelope, or the reason why it must be replaced."""
    limit = config.max_tool_output_bytes
    shaped = TOOL_RESULT.apply(config.endpoint.tool_result_transforms, envelope, [])
    try:
        measured = _SMALL if _is_small(shaped.get("data")) else measure(shaped, limit)
        data = b"" if measured.reason else to_json(shaped)
    except BaseException as error:  # noqa: BLE001  # a tool's own classes are foreign code
        return "", unserialisable(error)
    if measured.reason is None and len(data) <= limit:
        return data.decode(), None
    size = max(len(data), measured.estimated_bytes)
    preview = _preview(envelope["data"], min(PREVIEW_CHARS, limit // 4))
    return "", _over(measured.reason or "MAX_BYTES", size, limit, preview)


_SMALL = Measure(None, 0)
_SCALARS = frozenset({str, int, float, bool, type(None)})


def _is_small(data: Any) -> bool:
    """Whether a result is a few plain values, as most are: then there is nothing to measure."""
    return (
        type(data) is dict
        and len(data) <= SMALL_ITEMS
        and all(type(value) in _SCALARS for value in data.values())
    )


def _replacement(call: ToolCall, envelope: JSON, problem: Problem, *, executed: bool) -> JSON:
    """Return what replaces an envelope: a refusal stays one, an output is described."""
    if envelope["errors"] and not (executed and envelope["data"]):
        first = envelope["errors"][0]
        message, retry = first["message"][:PREVIEW_CHARS], first.get("retry", True)
        return failed(call.name, first["code"], message, retry=retry)
    return refusal(call.name, problem) | {"warnings": list(call.warnings)}


def _fitted(envelope: JSON, config: ToolCallingConfig) -> str:
    """Keep the replacement itself within the limit: each form is shorter than the one before."""
    brief = {"executed": True} if envelope["data"] else {}
    for form in (envelope, envelope | {"data": brief, "warnings": []}):
        content, over = _serialised(form, config)
        if over is None:
            return content
    codes = [{"code": error["code"]} for error in envelope["errors"]]
    bare = to_json({"ok": False, "errors": codes})
    # Below this no envelope is possible: a limit of a few bytes is broken rather than the JSON.
    return bare.decode() if len(bare) <= config.max_tool_output_bytes else '{"ok":false}'


def unserialisable(error: BaseException) -> Problem:
    """Say that a tool ran, and that what it returned cannot be shown."""
    what = "holds NaN or an infinity" if isinstance(error, NotANumber) else "is no JSON"
    return Problem(
        ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,
        f"The tool ran, but its result {what} and cannot be shown. Do not run it again for that.",
        {"executed": True, "error_class": type(error).__name__},
    )


def _over(reason: str, size: int, limit: int, preview: str) -> Problem:
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
    try:
        return to_json(_glimpse(value)).decode()[:limit]
    except BaseException:  # noqa: BLE001  # a tool's own classes are foreign code
        return ""


def _glimpse(value: Any, depth: int = 3) -> Any:
    """Copy the beginning of a value: few items, few levels, short texts; `…` marks the rest."""
    match value:
        case str() | bytes():
            return value[:PREVIEW_CHARS]
        case Mapping() | list() | tuple() | set() | frozenset() if depth == 0:
            return _REST
        case Mapping():
            pairs = islice(value.items(), PREVIEW_ITEMS)
            shown = {_glimpse(key): _glimpse(item, depth - 1) for key, item in pairs}
            return shown | ({_REST: _REST} if len(value) > PREVIEW_ITEMS else {})
        case list() | tuple() | set() | frozenset():
            first = [_glimpse(item, depth - 1) for item in islice(value, PREVIEW_ITEMS)]
            return first + [_REST] * (len(value) > PREVIEW_ITEMS)
        case _:
            return value


class NotANumber(ValueError):
    """A tool returned NaN or an infinity, which JSON does not have."""


def to_json(value: Any) -> bytes:
    """Serialise what a tool returned: JSON, dataclasses, dates, sets, pydantic models."""
    try:
        data = msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        data = msgspec.json.encode(scrub(msgspec.to_builtins(value, enc_hook=_plain)))
    # A number that is none is written as null, without a word.
    if b"null" in data and _has_no_number(msgspec.to_builtins(value, enc_hook=_plain)):
        raise NotANumber
    return data


def _has_no_number(value: Any) -> bool:
    """Whether there is a NaN or an infinity anywhere in plain data."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        stack.extend(_taken_apart(item)[1])
    return False


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    for kind in (str, int, float):  # subclasses, such as marked-up text or a number of NumPy
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def measure(
    value: Any, max_bytes: int, *, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES
) -> Measure:
    """Walk a value without recursion and stop at the first limit that it breaks.

    The estimate counts the bytes of keys and texts only, so it never exceeds the real size.
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
        own_size, children = _taken_apart(item)
        size += own_size
        if size > max_bytes:
            return Measure("STRING_TOO_LARGE" if isinstance(item, str) else "MAX_BYTES", size)
        if len(children) > max_nodes - nodes:
            return Measure("MAX_NODES", size)
        stack.extend([(child, depth + 1) for child in children])
    return Measure(None, size)


def _taken_apart(item: Any) -> tuple[int, Collection[Any]]:
    """Return the bytes of an item's own texts, and what is inside it."""
    # Exact types first: the general tests cost more than the rest of the walk.
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
