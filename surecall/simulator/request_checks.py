"""What the strictest real providers refuse in a request.

`check` reads one decoded chat request by the rules of a provider and returns every violation. The
common rules are those that some provider enforces and none objects to: each call answered exactly
once and immediately, ids unique in the conversation, legal names also in the history, arguments a
JSON object in a string, no empty messages. A provider adds its own.
"""

import string
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from surecall.parsing.names import MAX_LENGTH, is_legal
from surecall.parsing.schema_walk import is_untyped, rewritten
from surecall.simulator.seals import broken_seals, is_signature
from surecall.simulator.violations import ProviderRules, Violation
from surecall.values.nesting import decode_json
from surecall.values.types import JSON

MAX_TOOLS = 128
NINE = 9
SIGNATURE_PLACEHOLDER = "skip_thought_signature_validator"
_ALNUM = frozenset(string.ascii_letters + string.digits)
_PLAIN = _ALNUM | frozenset("_-")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_DOCUMENTED: Final = {
    "assistant": frozenset({"role", "content", "name", "refusal", "audio", "tool_calls"}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
}
_CHOICES = ("none", "auto", "required")


def check(request: JSON, rules: ProviderRules) -> list[Violation]:
    """Return everything that a provider would refuse in a request, in order of appearance."""
    messages = request.get("messages")
    listed = messages if isinstance(messages, list) else []
    found = [*_tool_rules(request, rules), *_option_rules(request, rules)]
    if not listed:
        found.append(rules.violation("messages_empty", "messages"))
    for position, message in enumerate(listed):
        found += _message_rules(message, f"messages[{position}]", rules)
    found += _conversation_rules([item for item in listed if isinstance(item, dict)], rules)
    return found


def _tool_rules(request: JSON, rules: ProviderRules) -> Iterator[Violation]:
    if "tools" not in request:
        return
    tools = request["tools"]
    if not isinstance(tools, list) or not tools:
        yield rules.violation("tools_empty", "tools")
        return
    if len(tools) > MAX_TOOLS:
        yield rules.violation("tools_many", "tools", len(tools))
    for position, tool in enumerate(tools):
        yield from _one_tool(tool, f"tools[{position}].function", rules)
    names = tool_names(request)
    if len(set(names)) < len(names):
        yield rules.violation("tool_twice", "tools")


def _one_tool(tool: Any, where: str, rules: ProviderRules) -> Iterator[Violation]:
    function = tool.get("function") if isinstance(tool, dict) else None
    function = function if isinstance(function, dict) else {}
    name = function.get("name")
    if not isinstance(name, str) or not is_legal(name):
        yield rules.violation("tool_name", f"{where}.name")
    if rules.wants_parameters and not function.get("parameters"):
        yield rules.violation("tool_parameters", f"{where}.parameters")
    parameters = function.get("parameters", {"type": "object"})
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        yield rules.violation("tool_schema", f"{where}.parameters", str(name)[:MAX_LENGTH])
        return
    *below, _ = _schemas(parameters)
    for schema in below:
        if rules.refuses_untyped and is_untyped(schema):
            yield rules.violation("tool_untyped", f"{where}.parameters", schema)
        if rules.refuses_type_beside_any_of and {"type", "anyOf"} <= schema.keys():
            yield rules.violation("tool_any_of", f"{where}.parameters")


def _schemas(parameters: JSON) -> list[JSON]:
    """Return every schema within, the whole of it last."""
    found: list[JSON] = []

    def look(schema: JSON) -> JSON:
        found.append(schema)
        return schema

    rewritten(parameters, look)
    return found


def tool_names(request: JSON) -> list[str]:
    """Return the names of the tools that a request offers."""
    tools = request.get("tools")
    functions = [
        tool.get("function")
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict)
    ]
    return [str(item.get("name")) for item in functions if isinstance(item, dict)]


def _option_rules(request: JSON, rules: ProviderRules) -> Iterator[Violation]:
    for option in rules.refused_options:
        if option in request:
            yield rules.violation("option_refused", option, option)
    wanted = request.get("response_format")
    if not _is_format(wanted):
        yield rules.violation("format_unknown", "response_format")
    elif rules.wants_format_word and wanted and "json" not in str(request["messages"]).lower():
        yield rules.violation("format_word", "response_format", wanted["type"])
    if "tools" in request:
        yield from _choice_rules(request, rules)
        return
    if request.get("tool_choice") not in (None, "none"):
        yield rules.violation("choice_without_tools", "tool_choice")
    if "parallel_tool_calls" in request:
        yield rules.violation("parallel_without_tools", "parallel_tool_calls")


def _is_format(wanted: Any) -> bool:
    match wanted:
        case None | {"type": "text" | "json_object"}:
            return True
        case {"type": "json_schema", "json_schema": {"name": str(name), "schema": dict()}}:
            return is_legal(name)
        case _:
            return False


def _choice_rules(request: JSON, rules: ProviderRules) -> Iterator[Violation]:
    choice = request.get("tool_choice")
    named = forced_tool(request)
    if choice is None:
        return
    if choice not in _CHOICES and (named is None or named not in tool_names(request)):
        yield rules.violation("choice_unknown", "tool_choice", str(choice)[:MAX_LENGTH])
    kind = "named" if named is not None else choice
    if kind in rules.refused_choices:
        yield rules.violation("choice_refused", "tool_choice", kind)


def forced_tool(request: JSON) -> str | None:
    """Return the tool that `tool_choice` names, if it names one."""
    match request.get("tool_choice"):
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case _:
            return None


def _message_rules(message: Any, where: str, rules: ProviderRules) -> Iterator[Violation]:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in _ROLES.difference(rules.refused_roles):
        yield rules.violation("role_unknown", where, str(role)[:MAX_LENGTH])
        return
    known = _DOCUMENTED.get(role)
    refused = set(rules.refused_fields)
    if rules.strict_fields and known is not None:
        refused |= message.keys() - known.union(rules.known_fields)
    for field in sorted(refused & message.keys()):
        yield rules.violation("field_unknown", where, field)
    yield from _content_rules(message, where, rules)
    if role == "assistant":
        yield from _assistant_rules(message, where, rules)
    if role == "tool" and rules.wants_result_names and not message.get("name"):
        yield rules.violation("result_name", where)


def _content_rules(message: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
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
    # Only a tool may have nothing to say.
    blank = not content.strip() if isinstance(content, str) else not content
    if blank and role != "tool":
        yield rules.violation("content_empty", where)


def _assistant_rules(message: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
    if message.get("function_call") and message.get("tool_calls"):
        yield rules.violation("both_call_forms", where)
    if "tool_calls" not in message:
        return
    calls = calls_of(message)
    if not calls or len(calls) != len(message["tool_calls"]):
        yield rules.violation("calls_empty", f"{where}.tool_calls")
        return
    for position, call in enumerate(calls):
        yield from _call_rules(call, f"{where}.tool_calls[{position}]", rules)
    yield from _state_rules(message, calls, where, rules)


def _state_rules(
    message: JSON, calls: list[JSON], where: str, rules: ProviderRules
) -> Iterator[Violation]:
    """Look for what came with a turn and is wanted back: thoughts, signatures, seals."""
    reasoning = message.get("reasoning_content")
    missing = not isinstance(reasoning, str) or (rules.wants_some_reasoning and not reasoning)
    if rules.wants_reasoning and missing:
        yield rules.violation("reasoning_missing", where)
    if rules.wants_signatures:
        yield from _signature_rules(calls[0], where, rules)
    if rules.seals_turns:
        for place in broken_seals(message):
            yield rules.violation("seal_broken", f"{where}.{place}")


def calls_of(message: JSON) -> list[JSON]:
    """Return the call objects of an assistant message in a request."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _call_rules(call: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    name = function.get("name")
    if call.get("type") != "function":
        yield rules.violation("call_type", where)
    if not isinstance(name, str) or not is_legal(name):
        yield rules.violation("name_illegal", where)
    yield from _argument_rules(function.get("arguments"), where, rules)
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id.strip():
        yield rules.violation("id_missing", where)
    elif not _id_fits(call_id, str(name), rules.ids):
        yield rules.violation("id_form", where, call_id[:MAX_LENGTH])
    elif rules.longest_id is not None and len(call_id) > rules.longest_id:
        lengths = f"{rules.longest_id}, but got a string with length {len(call_id)}"
        yield rules.violation("id_long", where, lengths)


def _argument_rules(arguments: Any, where: str, rules: ProviderRules) -> Iterator[Violation]:
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


def _id_fits(call_id: str, name: str, form: str) -> bool:
    match form:
        case "nine":
            return len(call_id) == NINE and _ALNUM.issuperset(call_id)
        case "kimi":
            head, _, index = call_id.rpartition(":")
            return head == f"functions.{name}" and index.isdecimal()
        case "plain":
            return _PLAIN.issuperset(call_id)
        case _:
            return True


def _signature_rules(call: JSON, where: str, rules: ProviderRules) -> Iterator[Violation]:
    found: Any = call
    for key in ("extra_content", "google", "thought_signature"):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, str) or not found:
        yield rules.violation("signature_missing", where)
    elif not is_signature(found) and found != SIGNATURE_PLACEHOLDER:
        yield rules.violation("signature_corrupt", where)


def _conversation_rules(messages: Sequence[JSON], rules: ProviderRules) -> Iterator[Violation]:
    seen: set[str] = set()
    waiting: Counter[str] = Counter()
    if rules.wants_user and all(message.get("role") != "user" for message in messages):
        yield rules.violation("user_missing", "messages")
    for position, message in enumerate(messages):
        where = f"messages[{position}]"
        role = message.get("role")
        if role == "tool":
            yield from _answer(message, waiting, where, rules)
            continue
        yield from _unanswered(waiting, where, rules)
        after_tool = position > 0 and messages[position - 1].get("role") == "tool"
        if rules.refuses_user_after_tool and role == "user" and after_tool:
            yield rules.violation("user_after_tool", where)
        ids = [str(call.get("id")) for call in calls_of(message)] if role == "assistant" else []
        for call_id in ids:
            if call_id in seen:
                yield rules.violation("id_twice", where, call_id[:MAX_LENGTH])
            seen.add(call_id)
        waiting = Counter(ids)
    yield from _unanswered(waiting, "messages", rules)


def _answer(
    message: JSON, waiting: Counter[str], where: str, rules: ProviderRules
) -> Iterator[Violation]:
    call_id = str(message.get("tool_call_id"))
    if call_id not in waiting:
        yield rules.violation("orphan", where)
    elif waiting[call_id] == 0:
        yield rules.violation("answered_twice", where, call_id[:MAX_LENGTH])
    else:
        waiting[call_id] -= 1


def _unanswered(waiting: Counter[str], where: str, rules: ProviderRules) -> Iterator[Violation]:
    missing = sorted(waiting.elements())
    if missing:
        yield rules.violation("unanswered", where, ", ".join(missing)[:MAX_LENGTH])
