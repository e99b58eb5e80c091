"""Converts content blocks of the Messages API to parts of a chat message.

    text, search_result, document with text    a text part, its text unchanged
    image                                      an `image_url` part; a data URL for base64
    document with a PDF                        a `file` part

`cache_control` moves from a block to its part. `without_cache_control` removes it from a request.
"""

from typing import Any, Final

from surecall.values.types import JSON
from surecall.wire.apis.adapter import (
    InvalidRequest,
    ProviderState,
    call_states,
    reasoning_field,
    text_part,
)
from surecall.wire.chat_format import encode, raw_calls
from surecall.wire.content_parts import reasoning_in
from surecall.wire.provider_state import CONTENT, message_extra

CACHE_CONTROL: Final = "cache_control"
_FILE_ID_UNSUPPORTED = (
    "a chat completion cannot read files that are stored at Anthropic. Send the file's content "
    "instead of `file_id`."
)
_PDF = "application/pdf"
_NESTED_FIELDS = frozenset({"system", "messages", "tools", "content", "source"})


def without_cache_control(value: Any) -> Any:
    """Return a copy without `cache_control`; inputs of calls stay unchanged."""
    match value:
        case list():
            return [without_cache_control(item) for item in value]
        case dict():
            return {
                key: without_cache_control(item) if key in _NESTED_FIELDS else item
                for key, item in value.items()
                if key != CACHE_CONTROL
            }
        case _:
            return value


def content_blocks(content: Any, where: str) -> list[JSON]:
    """Return content as a list of blocks; raise `InvalidRequest` if it has another type."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InvalidRequest(f"{where}: content must be a string or a list of blocks.", where)
    for at, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            place = f"{where}.{at}"
            raise InvalidRequest(
                f"{place}: a content block must be an object with a `type`.", place
            )
    return content


def is_text_part(part: JSON) -> bool:
    """Whether a part is a text part."""
    return part.get("type") == "text"


def block_parts(block: JSON, where: str) -> list[JSON]:
    """Convert a block to parts; raise `InvalidRequest` if a chat message cannot hold it."""
    match block:
        case {"type": "text", "text": str(text)}:
            parts = [text_part(text)] if text else []
        case {"type": "image", "source": dict(source)}:
            parts = [_image_part(source, where)]
        case {"type": "document", "source": dict(source)}:
            parts = _document_parts(block, source, where)
        case {"type": "search_result"}:
            parts = _search_result_parts(block, where)
        case _:
            raise InvalidRequest(
                f"{where}: a chat completion cannot hold a {block['type']} block. Remove it.", where
            )
    return with_cache_control(parts, block)


def result_parts(block: JSON, where: str) -> list[JSON]:
    """Convert a block of a tool result to parts."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name)}:
            return with_cache_control([text_part(f"The tool {name} is available.")], block)
        case {"type": "text" | "image" | "document" | "search_result"}:
            return block_parts(block, where)
        case _:
            # A tool result is for the model to read, so an unknown type goes out as JSON.
            return [text_part(encode(block).decode())]


def with_cache_control(parts: list[JSON], block: JSON) -> list[JSON]:
    """Return parts with the block's `cache_control`, if it has any, on the last one."""
    if not parts or not isinstance(block.get(CACHE_CONTROL), dict):
        return parts
    return [*parts[:-1], parts[-1] | {CACHE_CONTROL: block[CACHE_CONTROL]}]


def _image_part(source: JSON, where: str) -> JSON:
    match source:
        case {"type": "base64", "media_type": str(media), "data": str(data)}:
            url = f"data:{media};base64,{data}"
        case {"type": "url", "url": str(url)}:
            pass
        case {"type": "file"}:
            raise InvalidRequest(f"{where}: {_FILE_ID_UNSUPPORTED}", where)
        case _:
            raise InvalidRequest(f"{where}: an image source must be base64 or url.", where)
    return {"type": "image_url", "image_url": {"url": url}}


def _document_parts(block: JSON, source: JSON, where: str) -> list[JSON]:
    match source:
        case {"type": "text", "data": str(data)}:
            heads = _heading_lines(block.get("title"), block.get("context"))
            return [text_part("\n".join([*heads, data]))]
        case {"type": "base64", "data": str(data)}:
            media = source.get("media_type") or _PDF
            name = block.get("title") or "document.pdf"
            file = {"filename": name, "file_data": f"data:{media};base64,{data}"}
            return [*_heading_parts(block.get("context")), {"type": "file", "file": file}]
        case {"type": "content", "content": content}:
            parts = [
                part for each in content_blocks(content, where) for part in block_parts(each, where)
            ]
            return [*_heading_parts(block.get("title"), block.get("context")), *parts]
        case {"type": "file"}:
            raise InvalidRequest(f"{where}: {_FILE_ID_UNSUPPORTED}", where)
        case _:
            raise InvalidRequest(
                f"{where}: a chat completion cannot fetch a document from a URL. Send the "
                "document's text or PDF data.",
                where,
            )


def _heading_lines(*headings: Any) -> list[str]:
    """Return the headings that have text."""
    return [head for head in headings if head and isinstance(head, str)]


def _heading_parts(*headings: Any) -> list[JSON]:
    """Return the headings as one text part; no part without headings."""
    heads = _heading_lines(*headings)
    return [text_part("\n".join(heads))] if heads else []


def _search_result_parts(block: JSON, where: str) -> list[JSON]:
    parts = [
        part
        for each in content_blocks(block.get("content"), where)
        for part in block_parts(each, where)
    ]
    texts = [part["text"] for part in parts if is_text_part(part)]
    heads = _heading_lines(block.get("title"), block.get("source"))
    others = [part for part in parts if not is_text_part(part)]
    return [text_part("\n".join([*heads, *texts])), *others]


def provider_state(message: JSON) -> ProviderState:
    """Return the provider state of a chat message, without empty fields."""
    extra = message_extra(message, message)
    kept = {key: value for key, value in extra.items() if value not in ([], {})}
    return ProviderState(message=kept, calls=call_states(raw_calls(message)))


def reasoning_text(message: JSON) -> str:
    """Return the reasoning of a message as text."""
    if field := reasoning_field(message):
        return str(message[field])
    content = message.get(CONTENT)
    return reasoning_in(content) if isinstance(content, list) else ""
