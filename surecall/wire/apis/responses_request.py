"""Converts a Responses request to a chat completion request.

Content parts:

    input_text, output_text, text    ─► text
    input_image                      ─► image_url
    input_file                       ─► file
    input_audio                      ─► input_audio

A single text part becomes a plain string, which every endpoint accepts.

Input items:

    message                                   ─► a message with the same role
    function_call, custom_tool_call           ─► a call in the assistant message
    function_call_output, custom_…_output     ─► a tool message
    reasoning                                 ─► its state, if the proxy encoded it
    lists of tools, and searches without
    their results: web_search_call, …         ─► dropped
    what only OpenAI's service stores, and
    outputs of tools that chat does not have  ─► rejected
    anything else: mcp_call, unknown types    ─► a labeled user message

One assistant turn is several items but one message with text, calls, and state. The message stays
open until another role or another turn begins. Ids may be missing or wrong: `legal_places` corrects
the history later, for all APIs.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from surecall.values.types import JSON
from surecall.wire.apis.adapter import (
    InvalidRequest,
    ProviderState,
    content_from_parts,
    decode_state,
    text_part,
    with_provider_state,
)
from surecall.wire.apis.responses_items import (
    INPUT,
    TOOL_LIST_ITEMS,
    chat_name,
    exposed_tools,
    render_tools,
)
from surecall.wire.chat_format import ITEM_LABEL, encode, normalize_id
from surecall.wire.provider_state import CONTENT, FUNCTION

_DETAILS: Final = ("auto", "low", "high")
_TEXT_TYPES: Final = (None, "text", "input_text", "output_text", "summary_text")
_FILE_KEYS: Final = ("file_data", "file_id", "filename")


def chat_content(content: Any, where: str) -> str | list[JSON]:
    """Convert the content of a user, system, or tool message."""
    match content:
        case str():
            return content
        case list():
            return content_from_parts([_chat_part(part, where) for part in content])
        case _:
            raise InvalidRequest(
                f"The content of {where} must be a string or a list of parts.", where
            )


def output_content(output: Any, where: str) -> str | list[JSON]:
    """Convert the output of a tool; parts of an unknown type become JSON text."""
    match output:
        case list():
            return content_from_parts([_output_part(part, where) for part in output])
        case None | str():
            return chat_content(output, where)
        case _:
            return encode(output).decode()


def labeled_item(item: JSON, kind: str) -> str | list[JSON]:
    """Return the content of a labeled message, for an item type that chat does not have."""
    label = f"{ITEM_LABEL}{encode(kind).decode()} in this conversation:"
    match item:
        case {"type": "image_generation_call", "result": str(data)} if data:
            url = data if data.startswith("data:") else f"data:image/png;base64,{data}"
            rest = {key: item[key] for key in item if key != "result"}
            text = f"{label}\n{encode(rest).decode()}"
            return [text_part(text), {"type": "image_url", "image_url": {"url": url}}]
        case _:
            return f"{label}\n{encode(item).decode()}"


def _output_part(part: Any, where: str) -> JSON:
    try:
        return _chat_part(part, where)
    except InvalidRequest:
        return text_part(encode(part).decode())


def assistant_text(content: Any, where: str) -> str:
    """Return the text of an assistant message, including refusals."""
    match content:
        case str():
            return content
        case list():
            return "".join(_assistant_part_text(part, where) for part in content)
        case _:
            raise InvalidRequest(
                f"The content of {where} must be a string or a list of parts.", where
            )


def _assistant_part_text(part: Any, where: str) -> str:
    match part:
        case str(text) | {"text": str(text)} | {"refusal": str(text)}:
            return text
        case _:
            raise _unknown_part_error(part, where)


def _chat_part(part: Any, where: str) -> JSON:
    match part:
        case str(text):
            return text_part(text)
        case {"type": "input_image"}:
            return _image_part(part, where)
        case {"type": "input_file"}:
            return _file_part(part, where)
        case {"type": "input_audio", "input_audio": dict(audio)}:
            return {"type": "input_audio", "input_audio": audio}
        case {"text": str(text)} if part.get("type") in _TEXT_TYPES:
            return text_part(text) | _cache_control_field(part)
        case {"refusal": str(text)}:
            return text_part(text)
        case {"text": str()}:  # chat does not have this type: keep all of it
            return text_part(encode(part).decode())
        case _:
            raise _unknown_part_error(part, where)


def _image_part(part: JSON, where: str) -> JSON:
    match part.get("image_url"):
        case str(url) | {"url": str(url)}:
            image = {"url": url}
        case _:
            message = f"An image in {where} has no `image_url`. Send the image as a data URL."
            raise InvalidRequest(message, where)
    if part.get("detail") in _DETAILS:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image} | _cache_control_field(part)


def _file_part(part: JSON, where: str) -> JSON:
    file = {key: part[key] for key in _FILE_KEYS if isinstance(part.get(key), str)}
    if "file_data" not in file and "file_id" not in file:
        message = f"A file in {where} has no `file_data`. Send its content as a data URL."
        raise InvalidRequest(message, where)
    return {"type": "file", "file": file} | _cache_control_field(part)


def _cache_control_field(part: JSON) -> JSON:
    mark = part.get("cache_control")
    return {"cache_control": mark} if isinstance(mark, dict) else {}


def _unknown_part_error(part: Any, where: str) -> InvalidRequest:
    kind = part.get("type") if isinstance(part, dict) else None
    named = f"of type '{kind}'" if isinstance(kind, str) else "without a known type"
    return InvalidRequest(
        f"{where} has a part {named}, which a chat completion cannot hold.", where
    )


_ROLES: Final = ("user", "system", "developer")
_SEND_WHOLE_INPUT = (
    "Send all items instead of references; many clients do so with `store` set to false."
)
_UNSUPPORTED_ITEMS: Final = {
    "item_reference": f"The proxy stores no items, so it cannot resolve an id. {_SEND_WHOLE_INPUT}",
    "compaction": f"Only the service that compacted this history can read it. {_SEND_WHOLE_INPUT}",
    "compaction_trigger": "A chat completion cannot compact a history. Shorten the input instead.",
    "mcp_approval_response": "A chat completion cannot call MCP servers. Use functions instead.",
}
_OUTPUT_SUFFIX: Final = "_output"
# Items without text or results. Their `tools` are sent as functions; a call names its search.
_DROPPED_ITEMS: Final = frozenset(
    {*TOOL_LIST_ITEMS, "mcp_list_tools", "tool_search_call", "web_search_call"}
)


class _AssistantTurn(msgspec.Struct):
    """The assistant turn under construction."""

    text: str = ""
    calls: list[JSON] = []
    state: ProviderState = ProviderState()


def chat_messages(items: list[Any]) -> list[JSON]:
    """Convert input items to chat messages."""
    transcript = ChatHistoryBuilder()
    for position, item in enumerate(items):
        transcript.add(item, f"input[{position}]")
    return transcript.finish()


class ChatHistoryBuilder:
    """Builds chat messages from input items."""

    def __init__(self) -> None:
        self._messages: list[JSON] = []
        self._turn: _AssistantTurn | None = None
        self._call_state: dict[str, JSON] = {}
        self._handlers: dict[str, Callable[[JSON, str], None]] = {
            "message": self._add_message,
            "function_call": self._add_function_call,
            "custom_tool_call": self._add_custom_call,
            "function_call_output": self._add_output,
            "custom_tool_call_output": self._add_output,
            "reasoning": self._add_reasoning,
        }

    def add(self, item: Any, where: str) -> None:
        """Add one item; raise `InvalidRequest` if a chat completion cannot express it."""
        kind = _item_type(item, where)
        if kind in self._handlers:
            self._handlers[kind](item, where)
        elif kind in _UNSUPPORTED_ITEMS:
            raise InvalidRequest(_UNSUPPORTED_ITEMS[kind], where)
        elif kind in _DROPPED_ITEMS:
            return
        elif kind.endswith(_OUTPUT_SUFFIX):
            message = (
                f"A chat completion cannot hold an item of type '{kind}'. Use a function instead."
            )
            raise InvalidRequest(message, where)
        else:
            self._append_message({"role": "user", CONTENT: labeled_item(item, kind)})

    def finish(self) -> list[JSON]:
        """End the last assistant turn and return all messages."""
        self._end_turn()
        return self._messages

    def _add_message(self, item: JSON, where: str) -> None:
        role = item.get("role")
        if role == "assistant":
            self._add_text(assistant_text(item.get(CONTENT), where))
        elif role in _ROLES:
            self._append_message({"role": role, CONTENT: chat_content(item.get(CONTENT), where)})
        else:
            raise InvalidRequest(
                f"The role of {where} must be user, system, developer, or assistant.", where
            )

    def _add_text(self, text: str) -> None:
        turn = self._turn
        if turn is not None and turn.text and turn.calls:
            # Nothing may stand between calls and their outputs, so the text goes before the calls.
            turn.text += "\n" + text
            return
        if turn is not None and turn.text:
            self._end_turn()
        self._open_turn().text = text

    def _add_function_call(self, item: JSON, where: str) -> None:
        match item:
            case {"name": str(), "arguments": str(arguments)}:
                self._add_call(item, arguments)
            case _:
                raise InvalidRequest(f"{where} needs `name` and `arguments`, both strings.", where)

    def _add_custom_call(self, item: JSON, where: str) -> None:
        match item:
            case {"name": str(), "input": str(given)}:
                self._add_call(item, encode({INPUT: given}).decode())
            case _:
                raise InvalidRequest(f"{where} needs `name` and `input`, both strings.", where)

    def _add_call(self, item: JSON, arguments: str) -> None:
        function = {"name": chat_name(item["name"], item.get("namespace")), "arguments": arguments}
        call = {"id": normalize_id(item.get("call_id")), "type": FUNCTION, FUNCTION: function}
        self._open_turn().calls.append(call)

    def _add_output(self, item: JSON, where: str) -> None:
        content = output_content(item.get("output"), where)
        message: JSON = {"role": "tool", "tool_call_id": normalize_id(item.get("call_id"))}
        name = item.get("name")
        if isinstance(name, str) and name:
            message["name"] = chat_name(name, item.get("namespace"))
        self._append_message(message | {CONTENT: content})

    def _add_reasoning(self, item: JSON, _: str) -> None:
        state = decode_state(item.get("encrypted_content"))
        if state is None:
            return
        self._call_state |= state.calls
        known = self._turn.state.turn if self._turn is not None else ""
        # This state belongs to a new turn.
        if state.opens or known not in {"", state.turn}:
            self._end_turn()
        self._open_turn().state = state

    def _open_turn(self) -> _AssistantTurn:
        if self._turn is None:
            self._turn = _AssistantTurn(calls=[])
        return self._turn

    def _append_message(self, message: JSON) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None or not (turn.text or turn.calls):
            return
        # With calls, missing text is null, as OpenAI writes it: some endpoints reject "".
        content = turn.text or None if turn.calls else turn.text
        message: JSON = {"role": "assistant", CONTENT: content}
        if turn.calls:
            message["tool_calls"] = turn.calls
        state = ProviderState(message=turn.state.message, calls=self._call_state)
        self._messages.append(with_provider_state(message, state))


def _item_type(item: Any, where: str) -> str:
    match item:
        case {"type": str(kind)}:
            return kind
        case {"role": _}:
            return "message"
        case {"id": _}:
            return "item_reference"
        case _:
            raise InvalidRequest(f"{where} is not an item: it has no `type`.", where)


# Options that a chat completion does not have are dropped: `store`, `include`, `truncation`,
# `max_tool_calls`, `context_management`, and all others not named below. An option that would
# change the meaning of the request is rejected.

_RESEND = "Send the whole conversation as `input` in every request."
_UNSUPPORTED_OPTIONS: Final = {
    "previous_response_id": (
        f"The proxy stores no responses, so `previous_response_id` is unknown. {_RESEND}"
    ),
    "conversation": f"The proxy stores no conversations. {_RESEND}",
    "prompt": (
        "The proxy stores no prompt templates. Send `instructions` and `input` instead of `prompt`."
    ),
    "background": "The proxy cannot create responses in the background. Leave out `background`.",
}
# Same name and meaning in both APIs.
_SHARED_FIELDS: Final = (
    *("model", "temperature", "top_p", "metadata", "user", "safety_identifier"),
    *("prompt_cache_key", "service_tier"),
)
# Not in the Responses API: an application that sends these means the upstream.
_CHAT_ONLY_FIELDS: Final = (
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "seed", "stop"),
    *("top_k", "min_p", "chat_template_kwargs", "provider"),
)
_LOGPROBS_INCLUDE: Final = "message.output_text.logprobs"


def chat_request(request: JSON) -> JSON:
    """Convert a request; raise `InvalidRequest` if a chat completion cannot express it."""
    for key, message in _UNSUPPORTED_OPTIONS.items():
        if request.get(key):
            raise InvalidRequest(message, key)
    body = {
        key: request[key]
        for key in (*_SHARED_FIELDS, *_CHAT_ONLY_FIELDS)
        if request.get(key) not in (None, {})
    }
    body["messages"] = _request_messages(request)
    return (
        body
        | render_tools(request, exposed_tools(request))
        | _limit_fields(request)
        | _logprob_fields(request)
        | _reasoning_fields(request.get("reasoning"))
        | _text_fields(request.get("text"))
        | _stream_fields(request)
    )


def _request_messages(request: JSON) -> list[JSON]:
    text = request.get("instructions")
    if not isinstance(text, str | None):
        raise InvalidRequest("`instructions` must be a string.", "instructions")
    messages: list[JSON] = [{"role": "system", "content": text}] if text else []
    match request.get("input"):
        case str(text):
            messages.append({"role": "user", "content": text})
        case list(items):
            messages += chat_messages(items)
        case _:
            raise InvalidRequest("`input` must be a string or a list of items.", "input")
    if not messages:
        raise InvalidRequest("`input` has no item that a chat completion can answer.", "input")
    return messages


def _limit_fields(request: JSON) -> JSON:
    # Most endpoints except OpenAI's reject or ignore `max_completion_tokens`. OpenAI models that
    # reject `max_tokens` support the Responses API directly.
    limit = request.get("max_output_tokens")
    return {} if limit is None else {"max_tokens": limit}


def _logprob_fields(request: JSON) -> JSON:
    most, include = request.get("top_logprobs"), request.get("include")
    if most:
        return {"logprobs": True, "top_logprobs": most}
    asked = isinstance(include, list) and _LOGPROBS_INCLUDE in include
    return {"logprobs": True} if asked else {}


def _reasoning_fields(reasoning: Any) -> JSON:
    match reasoning:
        case {"effort": str(effort)}:
            return {"reasoning_effort": effort}
        case _:
            return {}


def _text_fields(text: Any) -> JSON:
    if not isinstance(text, dict):
        return {}
    body = {"verbosity": text["verbosity"]} if text.get("verbosity") is not None else {}
    match text.get("format"):
        case None | {"type": "text"}:
            return body
        case {"type": "json_object"}:
            return body | {"response_format": {"type": "json_object"}}
        case {"type": "json_schema", **form}:
            named = {key: value for key, value in form.items() if value is not None}
            return body | {"response_format": {"type": "json_schema", "json_schema": named}}
        case _:
            message = "`text.format` must be text, json_object, or json_schema."
            raise InvalidRequest(message, "text.format")


def _stream_fields(request: JSON) -> JSON:
    if request.get("stream") is not True:
        return {}
    return {"stream": True, "stream_options": {"include_usage": True}}
