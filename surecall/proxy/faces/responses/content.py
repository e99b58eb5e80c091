"""Content parts: those of the Responses API, as parts of a chat message.

    input_text, output_text, text    ─► text
    input_image                      ─► image_url
    input_file                       ─► file
    input_audio                      ─► input_audio

A single part of text becomes a plain string, which every endpoint takes.
"""

from typing import Any, Final

from surecall.proxy.faces.face import Refused, content_of
from surecall.values.types import JSON
from surecall.wire.messages import ITEM_LABEL, encode

_DETAILS: Final = ("auto", "low", "high")
_TEXT_TYPES: Final = (None, "text", "input_text", "output_text", "summary_text")
_FILE_KEYS: Final = ("file_data", "file_id", "filename")


def chat_content(content: Any, where: str) -> str | list[JSON]:
    """Return the content of a user's, a system's or a tool's message."""
    match content:
        case str():
            return content
        case list():
            return content_of([_chat_part(part, where) for part in content])
        case _:
            raise Refused(f"The content of {where} must be a text or a list of parts.", where)


def output_content(output: Any, where: str) -> str | list[JSON]:
    """Return the content of a tool's message; what has no known form is kept as JSON."""
    match output:
        case list():
            return content_of([_output_part(part, where) for part in output])
        case None | str():
            return chat_content(output, where)
        case _:
            return encode(output).decode()


def labeled_item(item: JSON, kind: str) -> str | list[JSON]:
    """Return the content of a message that holds an item of a type that chat does not have."""
    label = f"{ITEM_LABEL}{encode(kind).decode()} in this conversation:"
    match item:
        case {"type": "image_generation_call", "result": str(data)} if data:
            url = data if data.startswith("data:") else f"data:image/png;base64,{data}"
            rest = {key: item[key] for key in item if key != "result"}
            text = {"type": "text", "text": f"{label}\n{encode(rest).decode()}"}
            return [text, {"type": "image_url", "image_url": {"url": url}}]
        case _:
            return f"{label}\n{encode(item).decode()}"


def _output_part(part: Any, where: str) -> JSON:
    try:
        return _chat_part(part, where)
    except Refused:
        return {"type": "text", "text": encode(part).decode()}


def said_text(content: Any, where: str) -> str:
    """Return the text of an assistant's message; a refusal is what it said."""
    match content:
        case str():
            return content
        case list():
            return "".join(_said_part(part, where) for part in content)
        case _:
            raise Refused(f"The content of {where} must be a text or a list of parts.", where)


def _said_part(part: Any, where: str) -> str:
    match part:
        case str(text) | {"text": str(text)} | {"refusal": str(text)}:
            return text
        case _:
            raise _unknown(part, where)


def _chat_part(part: Any, where: str) -> JSON:
    match part:
        case str(text):
            return {"type": "text", "text": text}
        case {"type": "input_image"}:
            return _image(part, where)
        case {"type": "input_file"}:
            return _file(part, where)
        case {"type": "input_audio", "input_audio": dict(audio)}:
            return {"type": "input_audio", "input_audio": audio}
        case {"text": str(text)} if part.get("type") in _TEXT_TYPES:
            return {"type": "text", "text": text} | _cache_mark(part)
        case {"refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"text": str()}:  # of a type that chat does not have: nothing of it is dropped
            return {"type": "text", "text": encode(part).decode()}
        case _:
            raise _unknown(part, where)


def _image(part: JSON, where: str) -> JSON:
    match part.get("image_url"):
        case str(url) | {"url": str(url)}:
            image = {"url": url}
        case _:
            message = f"An image in {where} has no `image_url`. Send the image as a data URL."
            raise Refused(message, where)
    if part.get("detail") in _DETAILS:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image} | _cache_mark(part)


def _file(part: JSON, where: str) -> JSON:
    file = {key: part[key] for key in _FILE_KEYS if isinstance(part.get(key), str)}
    if "file_data" not in file and "file_id" not in file:
        message = f"A file in {where} has no `file_data`. Send its content as a data URL."
        raise Refused(message, where)
    return {"type": "file", "file": file} | _cache_mark(part)


def _cache_mark(part: JSON) -> JSON:
    mark = part.get("cache_control")
    return {"cache_control": mark} if isinstance(mark, dict) else {}


def _unknown(part: Any, where: str) -> Refused:
    kind = part.get("type") if isinstance(part, dict) else None
    named = f"of type '{kind}'" if isinstance(kind, str) else "without a known type"
    return Refused(f"{where} has a part {named}, which a chat completion cannot hold.", where)
