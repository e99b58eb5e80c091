"""Tool results: the one envelope a model sees, and the guard over its size.

{"ok": bool, "tool_name": str, "data": {…}, "warnings": […], "errors": [{"code", "message"}]}
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from surecall.config import ToolCallingConfig
from surecall.errors import ErrorCode
from surecall.transforms import TOOL_RESULT
from surecall.types import JSON, Problem, ToolCall, ToolResult
from surecall.wire import scrub

MAX_DEPTH = 64
MAX_NODES = 50_000
PREVIEW_CHARS = 400


class Measure(msgspec.Struct, frozen=True):
    """A cheap look at a value before it is serialised. `reason` says which limit it breaks."""

    reason: str | None
    estimated_bytes: int


def success(name: str, value: Any) -> JSON:
    """Wrap what a tool returned. A mapping with an `ok` key is an envelope already."""
    if isinstance(value, Mapping) and "ok" in value:
        return _normalised(name, value)
    return _envelope(name, ok=True, data=_data(value))


def failed(name: str, code: str, message: str, data: JSON | None = None) -> JSON:
    """Wrap the reason why a call failed."""
    error = {"code": code, "message": message}
    return _envelope(name, ok=False, data=data or {}, errors=[error])


def refusal(name: str, problem: Problem) -> JSON:
    """Wrap the reason why a call did not run."""
    return failed(name, problem.code, problem.message, problem.data)


def _envelope(name: str, *, ok: bool, data: Any, errors: Sequence[JSON] = ()) -> JSON:
    return {"ok": ok, "tool_name": name, "data": data, "warnings": [], "errors": list(errors)}


def _normalised(name: str, value: Mapping[str, Any]) -> JSON:
    warnings = value.get("warnings")
    given = value.get("errors")
    # Only a literal true is success: "yes" or 1 is a tool that did not mean to write an envelope.
    return {
        "ok": value["ok"] is True,
        "tool_name": str(value.get("tool_name") or name),
        "data": _data(value.get("data")),
        "warnings": list(warnings) if isinstance(warnings, list | tuple) else [],
        "errors": [
            _error(item) for item in (given if isinstance(given, list | tuple) else [given]) if item
        ],
    }


def _error(item: Any) -> JSON:
    if isinstance(item, Mapping):
        code, message = item.get("code") or "TOOL_FAILED", item.get("message") or ""
        return {"code": str(code), "message": str(message)}
    return {"code": "TOOL_FAILED", "message": str(item)}


def _data(value: Any) -> Any:
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
        envelope = refusal(envelope["tool_name"], problem)
        content, _ = _serialised(envelope, config.but(max_tool_output_bytes=_UNBOUNDED))
        content = _fitted(content, envelope, problem, config)
    return ToolResult(
        call.id,
        call.name,
        ok=envelope["ok"] is True,
        content=content,
        executed=executed,
        replaced=problem is not None,
        error_codes=tuple(str(error["code"]) for error in envelope["errors"]),
    )


_UNBOUNDED = 1 << 62


def _serialised(envelope: JSON, config: ToolCallingConfig) -> tuple[str, Problem | None]:
    """Return the text of an envelope, or the reason why it must be replaced."""
    limit = config.max_tool_output_bytes
    shaped = TOOL_RESULT.apply(config.tool_result_transforms, envelope, [])
    measured = measure(shaped, limit)
    if measured.reason is not None:
        return "", _over(measured.reason, measured.estimated_bytes, limit, "")
    try:
        data = to_json(shaped)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return "", _unserialisable(error)
    if len(data) > limit:
        return "", _over(
            "MAX_BYTES", len(data), limit, data[:PREVIEW_CHARS].decode("utf-8", "ignore")
        )
    return data.decode(), None


def _unserialisable(error: Exception) -> Problem:
    return Problem(
        ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,
        "The tool ran, but its result cannot be written as JSON. Do not run it again for that.",
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


def _fitted(content: str, envelope: JSON, problem: Problem, config: ToolCallingConfig) -> str:
    """Keep the replacement itself within the limit: first without preview, then bare."""
    limit = config.max_tool_output_bytes
    if len(content.encode()) <= limit:
        return content
    brief = Problem(problem.code, problem.message, {"executed": True})
    text, over = _serialised(refusal(envelope["tool_name"], brief), config)
    if over is None:
        return text
    return to_json({"ok": False, "errors": [{"code": problem.code}]}).decode()


def to_json(value: Any) -> bytes:
    """Serialise what a tool returned: JSON, dataclasses, dates, sets, pydantic models."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        return msgspec.json.encode(scrub(msgspec.to_builtins(value, enc_hook=_plain)))


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
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
        size += _own_size(item)
        if size > max_bytes:
            return Measure("STRING_TOO_LARGE" if isinstance(item, str) else "MAX_BYTES", size)
        if isinstance(item, Mapping):
            stack.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            stack.extend((child, depth + 1) for child in item)
    return Measure(None, size)


def _own_size(item: Any) -> int:
    if isinstance(item, str):
        return len(item)
    if isinstance(item, Mapping):
        return sum(len(key) for key in item if isinstance(key, str))
    return 0
