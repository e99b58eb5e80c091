"""A request of the Messages API, as the request of a chat completion.

goes on        model, messages, system, tools, tool_choice, max_tokens, temperature, top_p,
               stop_sequences, stream, metadata.user_id, the format of output_config
is left out    what only Anthropic's servers understand: top_k, thinking, effort, service_tier,
               context_management and the like, and tools that the request gives no schema for
is refused     what the answer would be wrong without: mcp_servers, container
"""

from typing import Any

from surecall.proxy.faces.face import Refused
from surecall.proxy.faces.messages_content import MARK
from surecall.proxy.faces.messages_history import chat_messages
from surecall.values.types import JSON
from surecall.wire.messages import named_choice, plain_id

_SAME = ("max_tokens", "temperature", "top_p", MARK)
_SERVER_SIDE = {
    "mcp_servers": "MCP servers are called by Anthropic's API, not by a chat completion. Connect "
    "to them in the client and offer their tools.",
    "container": "Containers and skills run on Anthropic's servers, not behind a chat completion.",
}
# OpenAI takes no longer one, and Claude Code's has more than twice as many characters.
_LONGEST_USER = 64
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_request(request: JSON) -> JSON:
    """Return the body of a chat completion's request; raise `Refused` if there is none."""
    if not isinstance(request.get("model"), str):
        raise Refused("model: a text is required.", "model")
    for field, reason in _SERVER_SIDE.items():
        if request.get(field):
            raise Refused(f"{field}: {reason}", field)
    body: JSON = {"model": request["model"], "messages": chat_messages(request)}
    body |= {key: request[key] for key in _SAME if request.get(key) is not None}
    body |= _offer(request) | _options(request)
    if request.get("stream") is True:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _options(request: JSON) -> JSON:
    options: JSON = {}
    if request.get("stop_sequences"):
        options["stop"] = request["stop_sequences"]
    match request.get("metadata"):
        case {"user_id": str(user)} if user:
            options["user"] = user if len(user) <= _LONGEST_USER else plain_id(user, "user_")
    schema = _output_schema(request)
    if schema is not None:
        # Not `strict`: OpenAI refuses many a schema then that Anthropic takes.
        form = {"name": "output", "schema": schema}
        options["response_format"] = {"type": "json_schema", "json_schema": form}
    return options


def _output_schema(request: JSON) -> JSON | None:
    match request:
        case {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}}:
            return schema
        case {"output_format": {"type": "json_schema", "schema": dict(schema)}}:
            return schema
        case _:
            return None


def _offer(request: JSON) -> JSON:
    tools = _tools(request.get("tools"))
    choice = request.get("tool_choice")
    wanted = _wanted(choice, [tool["function"]["name"] for tool in tools])
    if not tools:
        return {}
    offer: JSON = {"tools": tools}
    if wanted is not None:
        offer["tool_choice"] = wanted
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True:
        offer["parallel_tool_calls"] = False
    return offer


def _tools(given: Any) -> list[JSON]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise Refused("tools: a list is required.", "tools")
    read = [_tool(tool, f"tools.{at}") for at, tool in enumerate(given)]
    return [tool for tool in read if tool is not None]


def _tool(tool: Any, where: str) -> JSON | None:
    match tool:
        case {"name": str(name), "input_schema": dict(schema)}:
            described = {"description": tool["description"]} if tool.get("description") else {}
            function = {"name": name} | described | {"parameters": schema}
            mark = {MARK: tool[MARK]} if isinstance(tool.get(MARK), dict) else {}
            return {"type": "function", "function": function} | mark
        case {"type": str(kind)} if kind != "custom":
            return None
        case _:
            raise Refused(f"{where}: a tool must have a `name` and an `input_schema`.", where)


def _wanted(choice: Any, names: list[str]) -> str | JSON | None:
    match choice:
        case None:
            return None
        case {"type": "any"} if not names:
            raise Refused(
                "tool_choice: a tool must be called, but none of the tools can be offered to a "
                "chat completion.",
                "tool_choice",
            )
        case {"type": "auto" | "any" | "none" as kind}:
            return _CHOICES[kind]
        case {"type": "tool", "name": str(name)} if name in names:
            return named_choice(name)
        case {"type": "tool", "name": str(name)}:
            raise Refused(
                f"tool_choice: {name} is none of the tools that can be offered to a chat "
                "completion.",
                "tool_choice",
            )
        case _:
            raise Refused("tool_choice: the type must be auto, any, tool or none.", "tool_choice")
