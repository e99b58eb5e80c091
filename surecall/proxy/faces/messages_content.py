"""Content blocks of the Messages API, as parts of a chat message.

    text, search_result, document with text    a text part, its text unchanged
    image                                      an `image_url` part, with a data URL where it is one
    document with a PDF                        a `file` part

A `cache_control` mark stays on the part that its block becomes. Whoever does not want the marks
takes them from the request first, with `unmarked`.
"""

from typing import Any, Final

from surecall.proxy.faces.face import Refused
from surecall.values.types import JSON
from surecall.wire.messages import encode

MARK: Final = "cache_control"
_FILES = (
    "The file that `file_id` names is kept by Anthropic. A chat completion cannot read it: "
    "send its content instead."
)
_PDF = "application/pdf"
_HOLDERS = frozenset({"system", "messages", "tools", "content", "source"})


def unmarked(value: Any) -> Any:
    """Copy blocks, or what holds them, without `cache_control`; the inputs of calls stay."""
    match value:
        case list():
            return [unmarked(item) for item in value]
        case dict():
            return {key: _unmarked_member(key, value[key]) for key in value if key != MARK}
        case _:
            return value


def _unmarked_member(key: str, value: Any) -> Any:
    return unmarked(value) if key in _HOLDERS else value


def blocks_of(content: Any, where: str) -> list[JSON]:
    """Return content as a list of blocks; raise `Refused` if it is neither a text nor that."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Refused(f"{where}: content must be a text or a list of blocks.", where)
    for at, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            place = f"{where}.{at}"
            raise Refused(f"{place}: a content block must be an object with a `type`.", place)
    return content


def text_part(text: str) -> JSON:
    """Write a part that is a text."""
    return {"type": "text", "text": text}


def is_text(part: JSON) -> bool:
    """Whether a part is a text."""
    return part.get("type") == "text"


def parts_of(block: JSON, where: str) -> list[JSON]:
    """Return the parts that a block becomes; raise `Refused` for what no chat message can hold."""
    match block:
        case {"type": "text", "text": str(text)}:
            parts = [text_part(text)] if text else []
        case {"type": "image", "source": dict(source)}:
            parts = [_image(source, where)]
        case {"type": "document", "source": dict(source)}:
            parts = _document(block, source, where)
        case {"type": "search_result"}:
            parts = _search_result(block, where)
        case _:
            raise Refused(f"{where}: a {block['type']} block cannot be sent on.", where)
    return marked(parts, block)


def result_parts(block: JSON, where: str) -> list[JSON]:
    """Return the parts that a block of a tool's result becomes."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name)}:
            return marked([text_part(f"The tool {name} is available.")], block)
        case {"type": "text" | "image" | "document" | "search_result"}:
            return parts_of(block, where)
        case _:
            # What a tool returned is for the model to read, also where nobody knows its form.
            return [text_part(encode(block).decode())]


def marked(parts: list[JSON], block: JSON) -> list[JSON]:
    """Return parts, the last of which has the mark of their block, if it has one."""
    if not parts or not isinstance(block.get(MARK), dict):
        return parts
    return [*parts[:-1], parts[-1] | {MARK: block[MARK]}]


def _image(source: JSON, where: str) -> JSON:
    match source:
        case {"type": "base64", "media_type": str(media), "data": str(data)}:
            url = f"data:{media};base64,{data}"
        case {"type": "url", "url": str(url)}:
            pass
        case {"type": "file"}:
            raise Refused(f"{where}: {_FILES}", where)
        case _:
            raise Refused(f"{where}: the source of an image must be base64 or a URL.", where)
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: JSON, source: JSON, where: str) -> list[JSON]:
    match source:
        case {"type": "text", "data": str(data)}:
            return [text_part(_headed(block, data))]
        case {"type": "base64", "data": str(data)}:
            media = source.get("media_type") or _PDF
            name = block.get("title") or "document.pdf"
            file = {"filename": name, "file_data": f"data:{media};base64,{data}"}
            return [*_heading(block.get("context")), {"type": "file", "file": file}]
        case {"type": "content", "content": content}:
            parts = [part for each in blocks_of(content, where) for part in parts_of(each, where)]
            return [*_heading(block.get("title"), block.get("context")), *parts]
        case {"type": "file"}:
            raise Refused(f"{where}: {_FILES}", where)
        case _:
            raise Refused(
                f"{where}: a document must hold its text or its PDF; a chat completion takes none "
                "by its URL.",
                where,
            )


def _headed(block: JSON, text: str) -> str:
    return "\n".join([*_heads(block.get("title"), block.get("context")), text])


def _heads(*given: Any) -> list[str]:
    return [head for head in given if head and isinstance(head, str)]


def _heading(*given: Any) -> list[JSON]:
    heads = _heads(*given)
    return [text_part("\n".join(heads))] if heads else []


def _search_result(block: JSON, where: str) -> list[JSON]:
    parts = [
        part for each in blocks_of(block.get("content"), where) for part in parts_of(each, where)
    ]
    texts = [part["text"] for part in parts if is_text(part)]
    heads = _heads(block.get("title"), block.get("source"))
    others = [part for part in parts if not is_text(part)]
    return [text_part("\n".join([*heads, *texts])), *others]
