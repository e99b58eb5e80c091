"""What a server answers to a call, as the value of a tool or as its failure.

Structured content is preferred to text that says the same. Nothing in base64 gets to the model:
images, sounds and files are described in a few words.
"""

from typing import Any

from surecall.tools.validation import clipped
from surecall.values.errors import ToolError
from surecall.values.types import JSON

FAILED = "TOOL_FAILED"
_MAX_WORDS = 500
_MAX_LABEL = 200
_SILENT = "The tool failed, and its server does not say why."


def value_of(result: JSON) -> Any:
    """Return the value of a result; one that is marked as an error is a `ToolError`."""
    blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
    if result.get("isError"):
        raise ToolError(bounded("\n".join(map(_words, blocks))) or _SILENT, code=FAILED)
    structured = result.get("structuredContent")
    if structured is None:
        return "\n".join(map(_words, blocks)) if blocks else None
    beside = [_words(block) for block in blocks if block.get("type") != "text"]
    if beside:
        return {"value": structured, "beside": beside}
    # A mapping with this key would be taken for an envelope of ours.
    is_envelope = isinstance(structured, dict) and "ok" in structured
    return {"value": structured} if is_envelope else structured


def bounded(text: str) -> str:
    """Cut what a server says about a failure."""
    text = text.strip()
    return text if len(text) <= _MAX_WORDS else f"{text[: _MAX_WORDS - 2]} …"


def _words(block: JSON) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return f"[{kind}, {_kind(block)}, {_size(data)} bytes, not shown]"
        case {"type": "resource", "resource": {"text": str(text)} as resource}:
            return f"[{_label(resource.get('uri'))}]\n{text}"
        case {"type": "resource", "resource": {"blob": str(data)} as resource}:
            about = f"{_label(resource.get('uri'))}, {_kind(resource)}, {_size(data)} bytes"
            return f"[file {about}, not shown]"
        case {"type": "resource_link"}:
            title = block.get("title") or block.get("name") or "a resource"
            return f"[link to {_label(title)}: {_label(block.get('uri'))}]"
        case _:
            return f"[{_label(block.get('type') or 'something')}, not shown]"


def _kind(block: JSON) -> str:
    return _label(block.get("mimeType") or "unknown kind")


def _label(text: Any) -> str:
    return clipped(str(text), _MAX_LABEL)


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4
