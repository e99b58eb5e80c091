"""Body transforms: find the completion in an answer that was put into another envelope."""

from typing import Any

from surecall.values.family import Family
from surecall.values.types import JSON

BODY: Family[JSON] = Family("body transform")

_WRAPPERS = ("data", "result", "response")


@BODY.register
def response_body_unwrapped(body: JSON) -> JSON:
    """Take a completion out of `{"data": …}`, in which some gateways wrap it."""
    if "choices" in body or body.get("error"):
        return body
    for key in _WRAPPERS:
        inner = body.get(key)
        if isinstance(inner, dict) and isinstance(inner.get("choices"), list):
            return inner
    return body


@BODY.register
def failed_generation_to_message(body: JSON) -> JSON:
    """Read what the model wrote out of Groq's error about it: the generation failed, not we."""
    generation = failed_generation(body)
    if generation is None:
        return body
    message = {"role": "assistant", "content": _header_closed(generation)}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def _header_closed(text: str) -> str:
    # Llama on Groq writes `<function=f{…}</function>`: the tag of the dialect, but for its `>`.
    head, brace, rest = text.partition("{")
    is_open = head.lstrip().startswith("<function=") and ">" not in head
    return f"{head}>{brace}{rest}" if brace and is_open else text


def failed_generation(body: Any) -> str | None:
    """Return the text that a provider could not read as a call, if an error carries one."""
    error = body.get("error") if isinstance(body, dict) else None
    text = error.get("failed_generation") if isinstance(error, dict) else None
    return text if isinstance(text, str) and text.strip() else None
