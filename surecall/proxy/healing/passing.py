"""Which requests pass through unread: those in which there is nothing to heal, or no way to."""

from typing import Any

from surecall.values.types import JSON


def passes(body: JSON) -> bool:
    """Whether a chat completion is none of our business.

    It has no tools, or forbids them, or says of them what nobody knows; it asks for several
    answers, for probabilities, for sound, or for an answer in a form of its own; or it has tools
    that are called in another way.
    """
    messages, tools = body.get("messages"), body.get("tools")
    return (
        not isinstance(body.get("model"), str)
        or not (isinstance(messages, list) and messages)
        or not all(isinstance(message, dict) for message in messages)
        or not (isinstance(tools, list) and tools)
        or any(_is_custom(tool) for tool in tools)
        or not _is_choice(body.get("tool_choice"))
        or body.get("n", 1) not in (None, 1)
        or bool(body.get("logprobs"))
        or bool(body.get("audio"))
        or _has_form(body.get("response_format"))
    )


def _is_choice(wanted: Any) -> bool:
    return wanted is None or (isinstance(wanted, str | dict) and wanted != "none")


def _is_custom(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "custom"


def _has_form(wanted: Any) -> bool:
    return wanted is not None and wanted != {"type": "text"}
