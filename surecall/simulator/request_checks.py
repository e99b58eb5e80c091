"""Check requests as strict providers do, including signatures of provider state."""

import hashlib
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from surecall.parsing.coercion import is_untyped, rewrite_schema
from surecall.parsing.names import MAX_NAME_LENGTH, is_legal_name
from surecall.simulator.violations import ProviderRules, Violation
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, object_or_empty

# Seals: provider state in every place where providers put some. It must come back unchanged.
#
# A seal contains its own checksum, so the server does not need to store the seals it issued.

_SIGNATURE_PARTS = 2
_SEALED_THOUGHT = "It has to be done step by step."


def signature(nonce: str) -> str:
    """Return a signature that can be verified without being stored."""
    return f"{nonce}.{hashlib.sha256(nonce.encode()).hexdigest()[:16]}"


def is_signature(text: Any) -> bool:
    """Return whether a value is an unchanged signature."""
    parts = text.split(".") if isinstance(text, str) else []
    return len(parts) == _SIGNATURE_PARTS and signature(parts[0]) == text


def seal_turn(message: JSON, nonce: str) -> JSON:
    """Return a turn with seals on the message, its content, its calls, and their functions."""
    seal = signature(nonce)
    thought = {"type": "thinking", "thinking": _SEALED_THOUGHT, "signature": seal}
    calls = [
        call | {"seal": {"signature": seal}, "function": call["function"] | {"signature": seal}}
        for call in message["tool_calls"]
    ]
    return message | {
        "content": [thought],
        "thinking_blocks": [thought],
        "encrypted_content": seal,
        "tool_calls": calls,
    }


def broken_seals(message: JSON) -> list[str]:
    """Return the locations in a turn with calls where a seal is missing or changed."""
    return [where for where, seal in _seal_values(message) if not is_signature(seal)]


def _seal_values(message: JSON) -> Iterator[tuple[str, Any]]:
    """Yield each location where a sealed turn has a signature, and its value."""
    yield "encrypted_content", message.get("encrypted_content")
    for key in ("content", "thinking_blocks"):
        held = message.get(key)
        first = held[0] if isinstance(held, list) and held else {}
        whole = isinstance(first, dict) and first.get("thinking") == _SEALED_THOUGHT
        yield key, first.get("signature") if whole else None
    for position, call in enumerate(message["tool_calls"]):
        outer, function = call.get("seal"), call.get("function")
        for name, holder in (("seal", outer), ("function", function)):
            where = f"tool_calls[{position}].{name}"
            yield where, holder.get("signature") if isinstance(holder, dict) else None


# The rules of the strictest real providers.
#
# Each common rule is enforced by some provider and accepted by all: every call has exactly one
# result, immediately after it; ids are unique in the conversation; names are legal even in the
# history; arguments are a JSON object in a string; no message is empty. Providers add their own.

MAX_TOOLS = 128
MISTRAL_ID_CHARS = 9
SIGNATURE_PLACEHOLDER = "skip_thought_signature_validator"
_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)
_PLAIN_ID_CHARS = _ALPHANUMERIC | frozenset("_-")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_DOCUMENTED_FIELDS: Final = {
    "assistant": frozenset({"role", "content", "name", "refusal", "audio", "tool_calls"}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
}
_TOOL_CHOICES = ("none", "auto", "required")


def check_request(request: JSON, rules: ProviderRules) -> list[Violation]:
    """Return all violations of a provider's rules in a chat request, in order of appearance."""
    messages = request.get("messages")
    listed = messages if isinstance(messages, list) else []
    found = [*_check_tools(request, rules), *_check_options(request, rules)]
    if not listed:
        found.append(rules.violation("messages_empty", "messages"))
    for position, message in enumerate(listed):
        found += _check_message(message, f"messages[{position}]", rules)
    found += _check_conversation([item for item in listed if isinstance(item, dict)], rules)
    return found


def _check_tools(request: JSON, rules: ProviderRules) -> Iterator[Violation]:
    if "tools" not in request:
        return
    tools = request["tools"]
    if not isinstance(tools, list) or not tools:
        yield rules.violation("tools_empty", "tools")
        return
    if len(tools) > MAX_TOOLS:
        yield rules.violation("tools_many", "tools", len(tools))
    for position, tool in enumerate(tools):
        yield from _check_tool(tool, f"tools[{position}].function", rules)
    names = tool_names(request)
    if len(set(names)) < len(names):
        yield rules.violation("tool_twice", "tools")


def _check_tool(tool: Any, where: str, rules: ProviderRules) -> Iterator[Violation]:
    function = object_or_empty(object_or_empty(tool).get("function"))
    name = function.get("name")
    if not isinstance(name, str) or not is_legal_name(name):
        yield rules.violation("tool_name", f"{where}.name")
    if rules.requires_parameters and not function.get("parameters"):
        yield rules.violation("tool_parameters", f"{where}.parameters")
    parameters = function.get("parameters", {"type": "object"})
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        yield rules.violation("tool_schema", f"{where}.parameters", str(name)[:MAX_NAME_LENGTH])
        return
    *below, _ = _nested_schemas(parameters)
    for schema in below:
        if rules.refuses_untyped and is_untyped(schema):
            yield rules.violation("tool_untyped", f"{where}.parameters", schema)
        if rules.refuses_type_beside_any_of and {"type", "anyOf"} <= schema.keys():
            yield rules.violation("tool_any_of", f"{where}.parameters")


def _nested_schemas(parameters: JSON) -> list[JSON]:
    """Return every nested schema, the outermost last."""
    found: list[JSON] = []

    def collect(schema: JSON) -> JSON:
        found.append(schema)
        return schema

    rewrite_schema(parameters, collect)
    return found


def tool_names(request: JSON) -> list[str]:
    """Return the names of the tools in a request."""
    tools = request.get("tools")
    functions = [
        tool.get("function")
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict)
    ]
    return [str(item.get("name")) for item in functions if isinstance(item, dict)]


def _check_options(request: JSON, rules: ProviderRules) -> Iterator[Violation]:
    for option in rules.refused_options:
        if option in request:
            yield rules.violation("option_refused", option, option)
    wanted = request.get("response_format")
    if not _is_response_format(wanted):
        yield rules.violation("format_unknown", "response_format")
    elif rules.requires_json_word and wanted and "json" not in str(request["messages"]).lower():
        yield rules.violation("format_word", "response_format", wanted["type"])
    if "tools" in request:
        yield from _check_tool_choice(request, rules)
        return
    if request.get("tool_choice") not in (None, "none"):
        yield rules.violation("choice_without_tools", "tool_choice")
    if "parallel_tool_calls" in request:
        yield rules.violation("parallel_without_tools", "parallel_tool_calls")


def _is_response_format(value: Any) -> bool:
    match value:
        case None | {"type": "text" | "json_object"}:
            return True
        case {"type": "json_schema", "json_schema": {"name": str(name), "schema": dict()}}:
            return is_legal_name(name)
        case _:
            return False


def _check_tool_choice(request: JSON, rules: ProviderRules) -> Iterator[Violation]:
    choice = request.get("tool_choice")
    named = forced_tool(request)
    if choice is None:
        return
    if choice not in _TOOL_CHOICES and (named is None or named not in tool_names(request)):
        yield rules.violation("choice_unknown", "tool_choice", str(choice)[:MAX_NAME_LENGTH])
    kind = "named" if named is not None else choice
    if kind in rules.refused_choices:
        yield rules.violation("choice_refused", "tool_choice", kind)


def forced_tool(request: JSON) -> str | None:
    """Return the tool that `tool_choice` names, or None."""
    match request.get("tool_choice"):
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case _:
            return None


def _check_message(message: Any, where: str, rules: ProviderRules) -> Iterator[Violation]:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in _ROLES.difference(rules.refused_roles):
        yield rules.violation("role_unknown", where, str(role)[:MAX_NAME_LENGTH])
        return
    known = _DOCUMENTED_FIELDS.get(role)
    refused = set(rules.refused_fields)
    if rules.strict_fields and known is not None:
        refused |= message.keys() - known.union(rules.known_fields)
    for field in sorted(refused & message.keys()):
        yield rules.violation("field_unknown", where, field)
    yield from _check_content(message, where, rules)
    if role == "assistant":
        yield from _check_assistant(message, where, rules)
    if role == "tool" and rules.requires_result_names and not message.get("name"):
        yield rules.violation("result_name", where)


def _check_content(message: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
    content, role = message.get("content"), message["role"]
    beside_calls = role == "assistant" and bool(message.get("tool_calls"))
    if beside_calls:
        if content is None and rules.refuses_null:
            yield rules.violation("content_null", where)
        if isinstance(content, str) and not content.strip() and rules.refuses_blank:
            yield rules.violation("content_blank", where)
        return
    if isinstance(content, list) and rules.refuses_parts:
        yield rules.violation("content_parts", where)
    if not isinstance(content, str | list):
        kind = "null" if content is None else type(content).__name__
        yield rules.violation("content_type", where, kind)
        return
    # Only tool results may be empty.
    blank = not content.strip() if isinstance(content, str) else not content
    if blank and role != "tool":
        yield rules.violation("content_empty", where)


def _check_assistant(message: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
    if message.get("function_call") and message.get("tool_calls"):
        yield rules.violation("both_call_forms", where)
    if "tool_calls" not in message:
        return
    calls = calls_of(message)
    if not calls or len(calls) != len(message["tool_calls"]):
        yield rules.violation("calls_empty", f"{where}.tool_calls")
        return
    for position, call in enumerate(calls):
        yield from _check_call(call, f"{where}.tool_calls[{position}]", rules)
    yield from _check_provider_state(message, calls, where, rules)


def _check_provider_state(
    message: JSON, calls: list[JSON], where: str, rules: ProviderRules
) -> Iterator[Violation]:
    """Check that reasoning, signatures, and seals of a turn came back."""
    reasoning = message.get("reasoning_content")
    missing = not isinstance(reasoning, str) or (
        rules.requires_nonblank_reasoning and not reasoning
    )
    if rules.requires_reasoning and missing:
        yield rules.violation("reasoning_missing", where)
    if rules.requires_signatures:
        yield from _check_signature(calls[0], where, rules)
    if rules.seals_turns:
        for place in broken_seals(message):
            yield rules.violation("seal_broken", f"{where}.{place}")


def messages_of(request: JSON) -> list[JSON]:
    """Return the messages of a request that are objects."""
    return [item for item in request.get("messages", ()) if isinstance(item, dict)]


def calls_of(message: JSON) -> list[JSON]:
    """Return the call objects of an assistant message in a request."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _check_call(call: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
    function = object_or_empty(call.get("function"))
    name = function.get("name")
    if call.get("type") != "function":
        yield rules.violation("call_type", where)
    if not isinstance(name, str) or not is_legal_name(name):
        yield rules.violation("name_illegal", where)
    yield from _check_arguments(function.get("arguments"), where, rules)
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id.strip():
        yield rules.violation("id_missing", where)
    elif not _is_accepted_id(call_id, str(name), rules.ids):
        yield rules.violation("id_form", where, call_id[:MAX_NAME_LENGTH])
    elif rules.max_id_chars is not None and len(call_id) > rules.max_id_chars:
        lengths = f"{rules.max_id_chars}, but got a string with length {len(call_id)}"
        yield rules.violation("id_long", where, lengths)


def _check_arguments(arguments: Any, where: str, rules: ProviderRules) -> Iterator[Violation]:
    if not isinstance(arguments, str):
        kind = "null" if arguments is None else f"a {type(arguments).__name__}"
        yield rules.violation("arguments_type", where, kind)
        return
    try:
        value = decode_json(arguments)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        yield rules.violation("arguments_object", where)


def _is_accepted_id(call_id: str, name: str, form: str) -> bool:
    """Whether the id of a call has the form that a provider requires; `name` is the tool's."""
    match form:
        case "nine":
            return len(call_id) == MISTRAL_ID_CHARS and _ALPHANUMERIC.issuperset(call_id)
        case "kimi":
            head, _, index = call_id.rpartition(":")
            return head == f"functions.{name}" and index.isdecimal()
        case "plain":
            return _PLAIN_ID_CHARS.issuperset(call_id)
        case _:
            return True


def _check_signature(call: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
    found: Any = call
    for key in ("extra_content", "google", "thought_signature"):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, str) or not found:
        yield rules.violation("signature_missing", where)
    elif not is_signature(found) and found != SIGNATURE_PLACEHOLDER:
        yield rules.violation("signature_corrupt", where)


def _check_conversation(messages: Sequence[JSON], rules: ProviderRules) -> Iterator[Violation]:
    seen: set[str] = set()
    waiting: Counter[str] = Counter()
    if rules.requires_user and all(message.get("role") != "user" for message in messages):
        yield rules.violation("user_missing", "messages")
    for position, message in enumerate(messages):
        where = f"messages[{position}]"
        role = message.get("role")
        if role == "tool":
            yield from _check_result(message, waiting, where, rules)
            continue
        yield from _check_unanswered(waiting, where, rules)
        after_tool = position > 0 and messages[position - 1].get("role") == "tool"
        if rules.refuses_user_after_tool and role == "user" and after_tool:
            yield rules.violation("user_after_tool", where)
        ids = [str(call.get("id")) for call in calls_of(message)] if role == "assistant" else []
        for call_id in ids:
            if call_id in seen:
                yield rules.violation("id_twice", where, call_id[:MAX_NAME_LENGTH])
            seen.add(call_id)
        waiting = Counter(ids)
    yield from _check_unanswered(waiting, "messages", rules)


def _check_result(
    message: JSON, waiting: Counter[str], where: str, rules: ProviderRules
) -> Iterator[Violation]:
    call_id = str(message.get("tool_call_id"))
    if call_id not in waiting:
        yield rules.violation("orphan", where)
    elif waiting[call_id] == 0:
        yield rules.violation("answered_twice", where, call_id[:MAX_NAME_LENGTH])
    else:
        waiting[call_id] -= 1


def _check_unanswered(
    waiting: Counter[str], where: str, rules: ProviderRules
) -> Iterator[Violation]:
    missing = sorted(waiting.elements())
    if missing:
        yield rules.violation("unanswered", where, ", ".join(missing)[:MAX_NAME_LENGTH])
