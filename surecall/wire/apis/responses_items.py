"""Converts tools and output items of the Responses API.

Tools of a request become functions of a chat completion:

    function             ─► a function
    custom               ─► a function with one string, `input`
    namespace            ─► its functions, prefixed with the name of the namespace
    web_search, mcp, …   ─► dropped: only OpenAI's service can run them

The mapping is derived from each request, so calls are mapped back by name without stored state.

A chat completion becomes output items:

    reasoning   what the model thought before its text, for people to read
    message     the text and the refusal
    reasoning   provider state that the client must echo
    calls       in their order

The first reasoning item ends when the text begins, but the state is complete only at the end. The
second one is left out if the first holds all of the state.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from surecall.parsing.names import MAX_NAME_LENGTH, legalized_name
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, is_blank
from surecall.wire.apis.adapter import (
    InvalidRequest,
    ProviderState,
    call_states,
    encode_state,
    reasoning_field,
)
from surecall.wire.chat_format import tool_choice_for
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import FinishKind, finish_kind
from surecall.wire.provider_state import message_extra

INPUT: Final = "input"
# Input items that contain tools.
TOOL_LIST_ITEMS: Final = ("additional_tools", "tool_search_output")
_FUNCTION_KEYS: Final = ("description", "parameters", "strict")
# Digits of the hash that distinguishes truncated names.
_HASH_DIGITS: Final = 8


class ExposedTool(msgspec.Struct, frozen=True):
    """A tool: its name and namespace at the client, and the function that the model sees."""

    name: str
    function: JSON
    namespace: str | None = None
    is_custom: bool = False


def chat_name(name: str, namespace: Any) -> str:
    """Return the name that the model sees."""
    # A tool that is loaded later has its own name as its namespace.
    if not isinstance(namespace, str) or not namespace or namespace == name:
        return name
    whole = f"{namespace.rstrip('_')}__{name}"
    if len(whole) > MAX_NAME_LENGTH:
        mark = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:_HASH_DIGITS]
        whole = f"{whole[: MAX_NAME_LENGTH - _HASH_DIGITS - 1]}_{mark}"
    return legalized_name(whole)


def exposed_tools(request: JSON) -> dict[str, ExposedTool]:
    """Return the tools that a chat completion can call, by the name that the model sees."""
    tools_by_name: dict[str, ExposedTool] = {}
    for tool, where in _listed_tools(request):
        for exposed_tool in _exposed_tools_in(tool, where):
            tools_by_name.setdefault(exposed_tool.function["name"], exposed_tool)
    return tools_by_name


def _listed_tools(request: JSON) -> Iterator[tuple[Any, str]]:
    """Yield all tools of a request, each with its path in the request."""
    yield from _numbered_tools(request.get("tools"), "tools")
    items = request.get("input")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") in TOOL_LIST_ITEMS:
            yield from _numbered_tools(item.get("tools"), "input")


def _numbered_tools(tools: Any, where: str) -> Iterator[tuple[Any, str]]:
    """Yield the tools of a list, each with its path in the request."""
    if not isinstance(tools, list | None):
        raise InvalidRequest("`tools` must be a list.", where)
    for position, tool in enumerate(tools or ()):
        yield tool, f"{where}[{position}]"


def _exposed_tools_in(tool: Any, where: str) -> list[ExposedTool]:
    """Return the tools of a namespace, or a single tool; none that chat does not have."""
    match tool:
        case {"type": "namespace", "name": str(name), "tools": list(tools)}:
            found = [_exposed_tool(inner, where, name) for inner in tools]
        case _:
            found = [_exposed_tool(tool, where, None)]
    return [exposed_tool for exposed_tool in found if exposed_tool is not None]


def _exposed_tool(tool: Any, where: str, namespace: str | None) -> ExposedTool | None:
    match tool:
        case {"type": "function" | "custom" as kind, "name": str(name)} if name:
            function = {"name": chat_name(name, namespace)} | _function_fields(tool)
            return ExposedTool(name, function, namespace, kind == "custom")
        case {"type": "function" | "custom"}:
            raise InvalidRequest(f"{where} needs a `name`.", where)
        case {"type": str()}:
            return None
        case _:
            raise InvalidRequest(f"{where} needs a `type`.", where)


def _function_fields(tool: JSON) -> JSON:
    given = {key: tool[key] for key in _FUNCTION_KEYS if tool.get(key) is not None}
    if tool["type"] == "custom":
        given["parameters"] = _text_input_schema(tool.get("format"))
    return given


def _text_input_schema(form: Any) -> JSON:
    """Return the arguments of a custom tool as a schema: a single text."""
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


def render_tools(request: JSON, tools_by_name: dict[str, ExposedTool]) -> JSON:
    """Return the `tools`, `tool_choice`, and `parallel_tool_calls` of a chat completion."""
    names, choice = _tool_choice(request.get("tool_choice"), tools_by_name)
    if not names:
        return {}
    body: JSON = {
        "tools": [{"type": "function", "function": tools_by_name[name].function} for name in names]
    }
    if choice is not None:
        body["tool_choice"] = choice
    if isinstance(request.get("parallel_tool_calls"), bool):
        body["parallel_tool_calls"] = request["parallel_tool_calls"]
    return body


def _tool_choice(
    choice: Any, tools_by_name: dict[str, ExposedTool]
) -> tuple[Iterable[str], str | JSON | None]:
    """Return the names of the tools to expose, and the `tool_choice` of a chat completion."""
    match choice:
        case None:
            return tools_by_name, None
        case "none" | "auto":
            return tools_by_name, choice
        case "required":
            return _require_any(tools_by_name), choice
        case {"type": "function" | "custom", "name": str(name)}:
            return tools_by_name, tool_choice_for(
                _chosen_name(name, choice.get("namespace"), tools_by_name)
            )
        case {"type": "allowed_tools", "tools": list(tools), "mode": "auto" | "required" as mode}:
            return _allowed_names(tools, tools_by_name, mode), mode
        case {"type": str(kind)}:
            message = f"A chat completion cannot use the tool '{kind}'. Use a function instead."
            raise InvalidRequest(message, "tool_choice")
        case _:
            message = "`tool_choice` must be auto, none, required, or an object with a `type`."
            raise InvalidRequest(message, "tool_choice")


def _require_any(names: Iterable[str]) -> Iterable[str]:
    """Return the names; raise `InvalidRequest` if there are none."""
    if not names:
        message = "`tool_choice` requires a tool, but `tools` has none a chat completion can call."
        raise InvalidRequest(message, "tool_choice")
    return names


def _chosen_name(name: str, namespace: Any, tools_by_name: dict[str, ExposedTool]) -> str:
    """Return the name that the model sees; raise `InvalidRequest` for an unknown tool."""
    wanted = chat_name(name, namespace)
    if wanted not in tools_by_name:
        raise InvalidRequest(
            f"`tool_choice` names '{name}', which is not in `tools`.", "tool_choice"
        )
    return wanted


def _allowed_names(
    tools: list[Any], tools_by_name: dict[str, ExposedTool], mode: str
) -> Iterable[str]:
    """Return the names of the tools that `allowed_tools` lists."""
    # Few endpoints support a choice among several tools; all accept a shorter list of tools.
    wanted = [(tool.get("type"), tool.get("name")) for tool in tools if isinstance(tool, dict)]
    names = [
        name for name, exposed_tool in tools_by_name.items() if _is_selected(exposed_tool, wanted)
    ]
    return _require_any(names) if mode == "required" else names


def _is_selected(exposed_tool: ExposedTool, wanted: list[tuple[Any, Any]]) -> bool:
    kind = "custom" if exposed_tool.is_custom else "function"
    return (kind, exposed_tool.name) in wanted or ("namespace", exposed_tool.namespace) in wanted


# Fields with their own form in a response, or with none that the client could echo.
_RENDERED_FIELDS: Final = frozenset({"refusal", "annotations", "audio"})
_INCOMPLETE_REASONS: Final = {
    FinishKind.CUT_OFF: "max_output_tokens",
    FinishKind.FILTERED: "content_filter",
}
# The prefixes of the upstream's ids.
_CHAT_ID_PREFIX, _RESPONSE_ID_PREFIX = "chatcmpl-", "resp_"


class ParsedCompletion(msgspec.Struct, frozen=True):
    """The parts of a chat completion that become output items."""

    text: str
    refusal: str
    reasoning_field: str
    reasoning: str
    calls: list[JSON]
    state: ProviderState
    logprobs: list[Any]
    annotations: list[JSON]
    incomplete_reason: str | None

    @property
    def has_message(self) -> bool:
        """Whether there is a message item. A reply without calls always has one."""
        return not is_blank(self.text) or bool(self.refusal) or not self.calls


def id_suffix(head: JSON) -> str:
    """Return the suffix that all item ids of a response share."""
    return str(head.get("id") or "").removeprefix(_CHAT_ID_PREFIX).removeprefix(_RESPONSE_ID_PREFIX)


def parse_completion(body: JSON, suffix: str, field: str = "") -> ParsedCompletion:
    """Parse a chat completion; `field` is the reasoning field seen in the stream, if any."""
    choice = body["choices"][0]
    message: JSON = choice["message"]
    calls = message.get("tool_calls") or []
    field = reasoning_field(message, field)
    logprobs = choice.get("logprobs")
    return ParsedCompletion(
        text=text_of(message.get("content")),
        refusal=message.get("refusal") or "",
        reasoning_field=field,
        reasoning=message[field] if field else "",
        calls=calls,
        state=turn_state(suffix, message, calls),
        logprobs=(logprobs or {}).get("content") or [],
        annotations=_url_citations(message.get("annotations")),
        incomplete_reason=_INCOMPLETE_REASONS.get(finish_kind(choice.get("finish_reason"))),
    )


def turn_state(turn: str, message: JSON, calls: list[JSON]) -> ProviderState:
    """Return the undocumented fields of a chat message and its calls."""
    extra = message_extra(message, message)
    kept = {key: value for key, value in extra.items() if key not in _RENDERED_FIELDS}
    return ProviderState(turn, message=kept, calls=call_states(calls))


def _url_citations(annotations: Any) -> list[JSON]:
    found: list[JSON] = []
    for annotation in annotations if isinstance(annotations, list) else ():
        match annotation:
            case {"type": "url_citation", "url_citation": dict(citation)}:
                found.append({"type": "url_citation"} | citation)
            case _:
                pass
    return found


def output_items(
    completion: ParsedCompletion, suffix: str, tools_by_name: dict[str, ExposedTool]
) -> list[JSON]:
    """Return all output items of a response."""
    items = (
        [reasoning_item(suffix, completion.reasoning_field, completion.reasoning)]
        if completion.reasoning
        else []
    )
    if completion.has_message:
        items.append(message_item(suffix, message_parts(completion), completion.incomplete_reason))
    if has_unsent_state(
        completion,
        {completion.reasoning_field: completion.reasoning} if completion.reasoning else {},
    ):
        items.append(state_item(suffix, completion))
    return items + call_items(suffix, completion, tools_by_name)


def has_unsent_state(completion: ParsedCompletion, sent: JSON) -> bool:
    """Whether a turn has state besides `sent`, which its first reasoning item held."""
    return bool(completion.state.calls) or completion.state.message != sent


def reasoning_item(suffix: str, field: str, text: str) -> JSON:
    """Return the item with the reasoning before the text."""
    state = ProviderState(suffix, opens=True, message={field: text})
    return _encode_reasoning_item(f"rs_{suffix}", text, state)


def state_item(suffix: str, completion: ParsedCompletion, late_reasoning: str = "") -> JSON:
    """Return the item with the state of a turn, and with the reasoning after the text began."""
    return _encode_reasoning_item(f"rs_{suffix}_state", late_reasoning, completion.state)


def _encode_reasoning_item(item_id: str, text: str, state: ProviderState) -> JSON:
    return {
        "id": item_id,
        "type": "reasoning",
        # Clients show the summary. They hide or drop `content`, which only open models use.
        "summary": [{"type": "summary_text", "text": text}] if text else [],
        "encrypted_content": encode_state(state),
        "status": "completed",
    }


def message_parts(completion: ParsedCompletion) -> list[JSON]:
    """Return the content parts of the message item."""
    text = {
        "type": "output_text",
        "text": completion.text,
        "annotations": completion.annotations,
        "logprobs": completion.logprobs,
    }
    if not completion.refusal:
        return [text]
    refusal = {"type": "refusal", "refusal": completion.refusal}
    return [text, refusal] if completion.text else [refusal]


def message_item(suffix: str, parts: list[JSON], incomplete_reason: str | None = None) -> JSON:
    """Return the message item."""
    return {
        "id": f"msg_{suffix}",
        "type": "message",
        "role": "assistant",
        "content": parts,
        "status": "incomplete" if incomplete_reason else "completed",
    }


def call_items(
    suffix: str, completion: ParsedCompletion, tools_by_name: dict[str, ExposedTool]
) -> list[JSON]:
    """Return the call items, with the client's tool names."""
    return [
        _call_item(call, f"{suffix}_{n}", tools_by_name) for n, call in enumerate(completion.calls)
    ]


def _call_item(call: JSON, suffix: str, tools_by_name: dict[str, ExposedTool]) -> JSON:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    exposed_tool = tools_by_name.get(name) or ExposedTool(name, {})
    item = {"call_id": call["id"], "name": exposed_tool.name, "status": "completed"}
    if exposed_tool.namespace is not None:
        item["namespace"] = exposed_tool.namespace
    if exposed_tool.is_custom:
        kind = {"id": f"ctc_{suffix}", "type": "custom_tool_call"}
        return kind | item | {"input": _custom_input(arguments)}
    return {"id": f"fc_{suffix}", "type": "function_call"} | item | {"arguments": arguments}


def _custom_input(arguments: str) -> str:
    """Return the text input of a custom tool from the arguments of its call."""
    try:
        given = decode_json(arguments)
    except ValueError:
        return arguments
    text = given.get(INPUT) if isinstance(given, dict) else None
    return text if isinstance(text, str) else arguments
