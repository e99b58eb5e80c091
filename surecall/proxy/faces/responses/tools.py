"""Tools: those of a Responses request as functions of a chat completion, and back by name.

    function             ─► a function
    custom               ─► a function with one text, `input`
    namespace            ─► its functions, named after it and themselves
    web_search, mcp, …   ─► left out: the service that runs them is not behind a chat completion

Everything is derived from the request, so an answer finds the way back without any memory.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from surecall.parsing.names import MAX_LENGTH, legal
from surecall.proxy.faces.face import Refused
from surecall.values.types import JSON
from surecall.wire.messages import named_choice

INPUT: Final = "input"
# Items of the input that bring tools with them.
BRINGING_TOOLS: Final = ("additional_tools", "tool_search_output")
_KEPT: Final = ("description", "parameters", "strict")
# So many digits tell long names apart that begin alike.
_MARK: Final = 8


class Offer(msgspec.Struct, frozen=True):
    """A tool as the client knows it, and as the model sees it."""

    name: str
    function: JSON
    namespace: str | None = None
    custom: bool = False


def chat_name(name: str, namespace: Any) -> str:
    """Return the name that the model sees."""
    # A tool that is loaded late has its own name for a namespace.
    if not isinstance(namespace, str) or not namespace or namespace == name:
        return name
    whole = f"{namespace.rstrip('_')}__{name}"
    if len(whole) > MAX_LENGTH:
        mark = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:_MARK]
        whole = f"{whole[: MAX_LENGTH - _MARK - 1]}_{mark}"
    return legal(whole)


def offered(given: JSON) -> dict[str, Offer]:
    """Return the tools that a chat completion can have, by the name that the model sees."""
    offers: dict[str, Offer] = {}
    for tool, where in _tools(given):
        for offer in _offers(tool, where):
            offers.setdefault(offer.function["name"], offer)
    return offers


def _tools(given: JSON) -> Iterator[tuple[Any, str]]:
    yield from _listed(given.get("tools"), "tools")
    items = given.get("input")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") in BRINGING_TOOLS:
            yield from _listed(item.get("tools"), "input")


def _listed(tools: Any, where: str) -> Iterator[tuple[Any, str]]:
    if not isinstance(tools, list | None):
        raise Refused("`tools` must be a list.", where)
    for position, tool in enumerate(tools or ()):
        yield tool, f"{where}[{position}]"


def _offers(tool: Any, where: str) -> list[Offer]:
    match tool:
        case {"type": "namespace", "name": str(name), "tools": list(tools)}:
            found = [_offer(inner, where, name) for inner in tools]
        case _:
            found = [_offer(tool, where, None)]
    return [offer for offer in found if offer is not None]


def _offer(tool: Any, where: str, namespace: str | None) -> Offer | None:
    match tool:
        case {"type": "function" | "custom" as kind, "name": str(name)} if name:
            function = {"name": chat_name(name, namespace)} | _description(tool)
            return Offer(name, function, namespace, kind == "custom")
        case {"type": "function" | "custom"}:
            raise Refused(f"{where} needs a `name`.", where)
        case {"type": str()}:
            return None
        case _:
            raise Refused(f"{where} needs a `type`.", where)


def _description(tool: JSON) -> JSON:
    given = {key: tool[key] for key in _KEPT if tool.get(key) is not None}
    if tool["type"] == "custom":
        given["parameters"] = _one_text(tool.get("format"))
    return given


def _one_text(form: Any) -> JSON:
    words = "The whole input of the tool, as plain text."
    match form:
        case {"type": "grammar", "definition": str(definition)}:
            words = f"{words} It follows this {form.get('syntax')} grammar:\n{definition}"
        case _:
            pass
    return {
        "type": "object",
        "properties": {INPUT: {"type": "string", "description": words}},
        "required": [INPUT],
        "additionalProperties": False,
    }


def render_tools(given: JSON, offers: dict[str, Offer]) -> JSON:
    """Write the tools of a chat completion, and which of them it must or may call."""
    names, choice = _choice(given.get("tool_choice"), offers)
    if not names:
        return {}
    body: JSON = {
        "tools": [{"type": "function", "function": offers[name].function} for name in names]
    }
    if choice is not None:
        body["tool_choice"] = choice
    if isinstance(given.get("parallel_tool_calls"), bool):
        body["parallel_tool_calls"] = given["parallel_tool_calls"]
    return body


def _choice(choice: Any, offers: dict[str, Offer]) -> tuple[Iterable[str], str | JSON | None]:
    match choice:
        case None:
            return offers, None
        case "none" | "auto":
            return offers, choice
        case "required":
            return _some(offers), choice
        case {"type": "function" | "custom", "name": str(name)}:
            return offers, named_choice(_wanted(name, choice.get("namespace"), offers))
        case {"type": "allowed_tools", "tools": list(tools), "mode": "auto" | "required" as mode}:
            return _allowed(tools, offers, mode), mode
        case {"type": str(kind)}:
            message = f"No chat completion can be made to use the tool '{kind}'. Offer a function."
            raise Refused(message, "tool_choice")
        case _:
            raise Refused("This `tool_choice` is not known.", "tool_choice")


def _some(names: Iterable[str]) -> Iterable[str]:
    if not names:
        message = "A tool must be called, but none is offered that a chat completion can call."
        raise Refused(message, "tool_choice")
    return names


def _wanted(name: str, namespace: Any, offers: dict[str, Offer]) -> str:
    wanted = chat_name(name, namespace)
    if wanted not in offers:
        raise Refused(f"`tool_choice` names '{name}', which is not in `tools`.", "tool_choice")
    return wanted


def _allowed(tools: list[Any], offers: dict[str, Offer], mode: str) -> Iterable[str]:
    # Few endpoints know a choice of several tools; all know fewer tools.
    wanted = [(tool.get("type"), tool.get("name")) for tool in tools if isinstance(tool, dict)]
    names = [name for name, offer in offers.items() if _is_in(offer, wanted)]
    return _some(names) if mode == "required" else names


def _is_in(offer: Offer, wanted: list[tuple[Any, Any]]) -> bool:
    kind = "custom" if offer.custom else "function"
    return (kind, offer.name) in wanted or ("namespace", offer.namespace) in wanted
