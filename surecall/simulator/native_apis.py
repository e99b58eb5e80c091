"""Serve personas over the Responses and the Messages API: checks, replies, events, and faults.

    client request ─ check_native ─► violations
                   └ adapter.parse ─► chat request ─► persona ─► chat completion
    chat completion ─ native_reply ─► reply ─ native_events ─► events ─ a fault ─► sent

The adapters render the persona's replies. Malformed arguments are put back afterwards, in the form
in which a malformed native reply would have them. A reply that an adapter cannot render is sent as
a chat completion, as by a gateway that answers every path alike.
"""

import copy
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from surecall.simulator.request_checks import broken_seals, calls_of, seal_turn
from surecall.simulator.stream_events import split_text
from surecall.simulator.violations import ProviderRules, Violation
from surecall.values.nesting import decode_json
from surecall.values.types import JSON
from surecall.wire.apis.adapter import ApiAdapter, ClientRequest
from surecall.wire.apis.messages_api import MessagesApi
from surecall.wire.apis.responses_api import ResponsesApi
from surecall.wire.chat_format import raw_calls
from surecall.wire.content_parts import calls_in

_PLACEHOLDER: Final = "{}"
_UNRENDERABLE: Final = (AttributeError, KeyError, TypeError, ValueError, IndexError)


def _violation(rule: str, where: str, message: str) -> Violation:
    return Violation(rule, where, message.format(where=where))


def native_rules(rules: ProviderRules) -> ProviderRules:
    """Return the rules that also hold for requests in another API: state must come back."""
    return ProviderRules(
        rules.name,
        rules.summary,
        seals_turns=rules.seals_turns,
        requires_reasoning=rules.requires_reasoning,
        requires_signatures=rules.requires_signatures,
        messages=rules.messages,
    )


# Checks of requests. The wording is that of the two providers.

_MISSING: Final = "{where}: Field required"
_MISSING_PARAMETER: Final = "Missing required parameter: '{where}'."
_ORPHAN: Final = (
    "{where}: unexpected `tool_use_id` found in `tool_result` blocks. Each `tool_result` block "
    "must have a corresponding `tool_use` block in the previous message."
)
_UNANSWERED: Final = (
    "{where}: `tool_use` ids were found without `tool_result` blocks immediately after. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message."
)
_NO_TOOLS: Final = "Requests which include `tool_use` or `tool_result` blocks must define tools"


def check_messages_request(body: JSON) -> Iterator[Violation]:
    """Yield the violations of Anthropic's rules in a request."""
    for field in ("model", "max_tokens", "messages"):
        if not body.get(field):
            yield _violation("field_missing", field, _MISSING)
    messages = body.get("messages")
    listed = messages if isinstance(messages, list) else []
    yield from _check_roles(listed)
    waiting: set[str] = set()
    for at, message in enumerate(listed):
        blocks = _blocks_of(message)
        yield from _check_blocks(blocks, f"messages.{at}")
        yield from _check_results(blocks, waiting, f"messages.{at}")
        waiting = {str(each.get("id")) for each in blocks if each.get("type") == "tool_use"}
        if waiting and not body.get("tools"):
            yield _violation("tools_missing", "tools", _NO_TOOLS)
    if waiting:
        yield _violation("unanswered", "messages", _UNANSWERED)
    for at, tool in enumerate(body.get("tools") or ()):
        schema = tool.get("input_schema") if isinstance(tool, dict) else None
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield _violation("tool_schema", f"tools.{at}.input_schema", _MISSING)


def _check_roles(messages: list[JSON]) -> Iterator[Violation]:
    before = "assistant"
    for at, message in enumerate(messages):
        if message.get("role") == before:
            place = f"messages.{at}"
            yield _violation("roles", place, "{where}: roles must alternate and begin with user")
        before = str(message.get("role"))


def _blocks_of(message: JSON) -> list[JSON]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _check_blocks(blocks: list[JSON], where: str) -> Iterator[Violation]:
    for at, block in enumerate(blocks):
        place = f"{where}.content.{at}"
        text = block.get("text")
        if block.get("type") == "text" and not (isinstance(text, str) and text.strip()):
            yield _violation("text_blank", place, "{where}: text content blocks must be non-empty")
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
            message = "{where}.input: Input should be a valid dictionary"
            yield _violation("input_type", place, message)
    if blocks[-1:] and blocks[-1].get("type") in {"thinking", "redacted_thinking"}:
        message = "{where}: The final block in an assistant message cannot be `thinking`."
        yield _violation("thinking_last", where, message)


def _check_results(blocks: list[JSON], waiting: set[str], where: str) -> Iterator[Violation]:
    kinds = [block.get("type") for block in blocks]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if "tool_result" in kinds[len(results) :]:
        yield _violation("results_first", where, "{where}: `tool_result` blocks must come first")
    found = [str(block.get("tool_use_id")) for block in results]
    if set(found) - waiting or len(set(found)) < len(found):
        yield _violation("orphan", where, _ORPHAN)
    if waiting - set(found):
        yield _violation("unanswered", where, _UNANSWERED)


def check_responses_request(body: JSON) -> Iterator[Violation]:
    """Yield the violations of OpenAI's rules in a request."""
    missing = [field for field in ("model", "input") if not body.get(field)]
    yield from (_violation("field_missing", field, _MISSING_PARAMETER) for field in missing)
    items = body.get("input")
    listed = items if isinstance(items, list) else []
    waiting: dict[str, str] = {}
    for at, item in enumerate(listed):
        where, kind = f"input[{at}]", item.get("type", "message")
        yield from _check_item(item, kind, where)
        if kind == "function_call":
            waiting[str(item.get("call_id"))] = where
        elif kind == "function_call_output":
            yield from _check_output(item, waiting, where)
    yield from _check_reasoning(listed)
    for call_id in waiting:
        yield _violation("unanswered", call_id, "No tool output found for function call {where}.")
    for at, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") == "function" and not isinstance(tool.get("parameters"), dict):
            yield _violation("tool_schema", f"tools[{at}].parameters", _MISSING_PARAMETER)


def _check_reasoning(items: list[JSON]) -> Iterator[Violation]:
    """Check that each reasoning item is followed by an item that the model wrote."""
    for one, two in pairwise([*items, {"role": "user"}]):
        written = two.get("type") in {"reasoning", "function_call"}
        if one.get("type") == "reasoning" and not written and two.get("role") != "assistant":
            message = "Item '{where}' of type 'reasoning' was provided without its required item."
            yield _violation("reasoning_alone", str(one.get("id")), message)


def _check_item(item: JSON, kind: str, where: str) -> Iterator[Violation]:
    needed = {
        "function_call": ("call_id", "name", "arguments"),
        "function_call_output": ("call_id",),
        "reasoning": ("id", "encrypted_content"),
    }
    for field in needed.get(kind, ()):
        if not isinstance(item.get(field), str):
            yield _violation("field_missing", f"{where}.{field}", _MISSING_PARAMETER)


def _check_output(item: JSON, waiting: dict[str, str], where: str) -> Iterator[Violation]:
    if waiting.pop(str(item.get("call_id")), None) is None:
        message = "No tool call found for function call output with call_id {where}."
        yield _violation("orphan", str(item.get("call_id")), message)
    if not isinstance(item.get("output"), str | list):
        yield _violation("field_missing", f"{where}.output", "Missing parameter: '{where}'.")


# Replies: rendered by an adapter, with malformed arguments put back.


def native_reply(api: ApiAdapter, asked: ClientRequest, body: Any) -> Any:
    """Return a persona's reply in another API; a chat completion if it cannot be rendered."""
    try:
        shown = copy.deepcopy(body)
        [choice] = shown["choices"]
        message = choice["message"]
        if not _is_renderable(message):
            return body
        calls = raw_calls(message)
        given = [call["function"].get("arguments") for call in calls]
        for call in calls:
            call["function"]["arguments"] = _PLACEHOLDER
        reply = api.render(asked, shown)
    except _UNRENDERABLE:
        return body
    items = reply.get("content" if api.name == "messages" else "output")
    kinds = {"tool_use": "input", "function_call": "arguments"}
    holders = [item for item in items or () if item["type"] in kinds]
    for item, arguments in zip(holders, given, strict=True):
        item[kinds[item["type"]]] = arguments if api.name == "responses" else _as_input(arguments)
    return reply


def _is_renderable(message: JSON) -> bool:
    """Whether all calls of a message are where an adapter expects them."""
    calls = message.get("tool_calls")
    is_list = calls is None or isinstance(calls, list)
    return is_list and not message.get("function_call") and not calls_in(message.get("content"))


def _as_input(arguments: Any) -> Any:
    try:
        value = decode_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def seal_reply(body: JSON, nonce: str) -> JSON:
    """Return a chat completion whose turn with calls has provider state."""
    choice = body["choices"][0]
    if not calls_of(choice["message"]):
        return body
    # A seal may not contain a dot.
    mark = f"{zlib.crc32(nonce.encode()):08x}"
    return body | {"choices": [choice | {"message": seal_turn(choice["message"], mark)}]}


def missing_seals(body: JSON) -> Iterator[Violation]:
    """Yield a violation for each turn whose state did not come back unchanged."""
    for at, message in enumerate(body["messages"]):
        if message.get("role") == "assistant" and calls_of(message):
            for place in broken_seals(message):
                text = "The encrypted content for item {where} could not be verified."
                yield _violation("seal_broken", f"rs_{at}.{place}", text)


# Events of a reply.


def messages_events(reply: JSON, seed: int) -> list[JSON]:
    """Return the events of a message."""
    usage = reply.get("usage", {})
    start = reply | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 0}}
    events: list[JSON] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(reply["content"]):
        opening, deltas = _block_deltas(block, seed)
        events.append(
            {"type": "content_block_start", "index": index, "content_block": block | opening}
        )
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    ending = {key: reply[key] for key in ("stop_reason", "stop_sequence")}
    spent = {"output_tokens": usage.get("output_tokens", 0)}
    events.append({"type": "message_delta", "delta": ending, "usage": spent})
    return [*events, {"type": "message_stop"}]


def _block_deltas(block: JSON, seed: int) -> tuple[JSON, list[JSON]]:
    """Return the emptied fields of a block, and the deltas that fill them."""
    match block:
        case {"type": "text" | "thinking" as kind}:
            pieces = split_text(block[kind], seed) if block[kind] else []
            deltas: list[JSON] = [{"type": f"{kind}_delta", kind: piece} for piece in pieces]
            if "signature" in block:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {kind: ""} | ({"signature": ""} if "signature" in block else {}), deltas
        case {"type": "tool_use", "input": given}:
            text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            pieces = ["", *split_text(text, seed)]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            return {"input": {}}, deltas
        case _:
            return {}, []


def responses_events(reply: JSON, seed: int) -> list[JSON]:
    """Return the events of a response."""
    begun = reply | {"status": "in_progress", "output": [], "usage": None}
    events: list[JSON] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(reply["output"]):
        place = {"output_index": index, "item_id": item.get("id")}
        emptied = _EMPTY_ITEMS.get(item["type"], {})
        opening = item | emptied | {"status": "in_progress"}
        events.append(
            {"type": "response.output_item.added", "output_index": index, "item": opening}
        )
        events += [event | place for event in _item_events(item, seed)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{reply.get('status', 'completed')}", "response": reply})
    return [
        {"type": event["type"], "sequence_number": at} | event for at, event in enumerate(events)
    ]


_EMPTY_ITEMS: Final[dict[str, JSON]] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
}
_PART_KINDS: Final = {
    "output_text": ("output_text", "text", "content_part", "content_index"),
    "refusal": ("refusal", "refusal", "content_part", "content_index"),
    "summary_text": (
        *("reasoning_summary_text", "text"),
        *("reasoning_summary_part", "summary_index"),
    ),
}


def _item_events(item: JSON, seed: int) -> Iterator[JSON]:
    if item["type"] == "function_call":
        name, given = "response.function_call_arguments", item["arguments"]
        for piece in split_text(given, seed) if isinstance(given, str) and given else ():
            yield {"type": f"{name}.delta", "delta": piece}
        yield {"type": f"{name}.done", "name": item["name"], "arguments": given}
        return
    parts = item.get("content") or item.get("summary") or ()
    for at, part in enumerate(parts):
        name, key, holder, index = _PART_KINDS[part["type"]]
        place = {index: at}
        extra: JSON = {"logprobs": []} if name == "output_text" else {}
        yield {"type": f"response.{holder}.added", "part": part | {key: ""}} | place
        for piece in split_text(part[key], seed) if part[key] else ():
            yield {"type": f"response.{name}.delta", "delta": piece} | place | extra
        yield {"type": f"response.{name}.done", key: part[key]} | place | extra
        yield {"type": f"response.{holder}.done", "part": part} | place


# Faults that only these APIs have. Each changes a reply, or the events of a streamed one.

ChangeReply = Callable[[JSON], JSON]
ChangeEvents = Callable[[list[JSON]], list[JSON]]


class NativeFault(NamedTuple):
    """A fault: its summary, what it changes, and whether a retry is needed."""

    summary: str
    reply: ChangeReply | None = None
    events: ChangeEvents | None = None
    is_retried: bool = False


_OPTIONAL: Final = frozenset(
    {"id", "usage", "status", "created_at", "index", "output_index", "item_id", "sequence_number"}
)


def _drop_optional(value: Any, depth: int = 0) -> Any:
    """Drop every field that a client can do without; a call keeps its id."""
    if isinstance(value, list):
        return [_drop_optional(each, depth) for each in value]
    if not isinstance(value, dict):
        return value
    keeps = value.get("type") == "tool_use" or value.get("encrypted_content") is not None
    return {
        key: _drop_optional(each, depth + 1) if key in _NESTED else each
        for key, each in value.items()
        if keeps or key not in _OPTIONAL
    }


_NESTED: Final = frozenset({"content", "output", "message", "response", "item", "content_block"})


def _swap_events(events: list[JSON]) -> list[JSON]:
    """Swap each delta with the event before it, unless both are text of one block."""
    swapped = list(events)
    for at in range(len(swapped) - 2, 1, -1):
        one, two = swapped[at - 1], swapped[at]
        if _is_delta(two) and (not _is_delta(one) or "sequence_number" in two):
            swapped[at - 1], swapped[at] = two, one
    return swapped


def _is_delta(event: JSON) -> bool:
    return str(event["type"]).endswith("delta") and event["type"] != "message_delta"


def _retype_arguments(reply: JSON) -> JSON:
    """Send arguments as an object where text is right, and as text where an object is right."""
    for item in [*(reply.get("output") or ()), *(reply.get("content") or ())]:
        if item.get("type") == "function_call":
            item["arguments"] = _as_input(item["arguments"])
        elif item.get("type") == "tool_use" and isinstance(item["input"], dict):
            item["input"] = msgspec.json.encode(item["input"]).decode()
    return reply


_UNKNOWN_ITEM: Final[JSON] = {"type": "oracle_call", "id": "oc_1", "riddle": {"depth": 1.5}}


def _add_unknown_items(reply: JSON) -> JSON:
    for key in ("output", "content"):
        if isinstance(reply.get(key), list):
            reply[key] = [dict(_UNKNOWN_ITEM), *reply[key]]
    return reply


def _add_unknown_events(events: list[JSON]) -> list[JSON]:
    unknown = {"type": "response.oracle.delta", "delta": "the answer is 41"}
    return [each for event in events for each in (event, dict(unknown))]


_ENDINGS: Final = frozenset(
    {"message_delta", "message_stop", "response.completed", "response.incomplete"}
)


def _drop_ending(events: list[JSON]) -> list[JSON]:
    return [event for event in events if event["type"] not in _ENDINGS]


def _break_with_error(events: list[JSON]) -> list[JSON]:
    error = {"type": "overloaded_error", "code": "server_error", "message": "Overloaded"}
    half = events[: len(events) // 2]
    is_flat = "sequence_number" in half[0]
    return [*half, {**error, "type": "error"} if is_flat else {"type": "error", "error": error}]


NATIVE_FAULTS: Final[dict[str, NativeFault]] = {
    "missing-fields": NativeFault(
        "leaves out ids, indexes, usage, and status",
        _drop_optional,
        lambda events: [_drop_optional(event) for event in events],
    ),
    "swapped-events": NativeFault("sends events in the wrong order", None, _swap_events),
    "retyped-arguments": NativeFault(
        "sends arguments as an object, and `input` as text", _retype_arguments
    ),
    "unknown-items": NativeFault(
        "sends items and events of unknown types", _add_unknown_items, _add_unknown_events
    ),
    "no-ending": NativeFault(
        "ends a stream without its last event", None, _drop_ending, is_retried=True
    ),
    "error-event": NativeFault(
        "reports an error in the middle of a stream", None, _break_with_error, is_retried=True
    ),
}


class ServedApi(NamedTuple):
    """One API: its adapter, the check of a request, and the events of a reply."""

    adapter: ApiAdapter
    check: Callable[[JSON], Iterator[Violation]]
    events: Callable[[JSON, int], list[JSON]]

    def encode_events(self, reply: JSON, fault: str, seed: int) -> list[bytes]:
        """Return the frames of a streamed reply, with a fault."""
        change = NATIVE_FAULTS[fault].events if fault else None
        events = self.events(reply, seed)
        return [_encode_frame(event) for event in (change(events) if change else events)]


def _encode_frame(event: JSON) -> bytes:
    name = str(event["type"]).encode()
    return b"event: " + name + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


def faulty_reply(reply: JSON, fault: str) -> JSON:
    """Return a reply with a fault."""
    change = NATIVE_FAULTS[fault].reply if fault else None
    return change(copy.deepcopy(reply)) if change else reply


SERVED_APIS: Final[dict[str, ServedApi]] = {
    "/v1/messages": ServedApi(
        MessagesApi(keeps_cache_control=True), check_messages_request, messages_events
    ),
    "/v1/responses": ServedApi(ResponsesApi(), check_responses_request, responses_events),
}
