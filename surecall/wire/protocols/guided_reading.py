"""Reading a guided reply: its calls, or its answer, are put where they belong.

    {"tool": "state_get", "arguments": {…}}     one call
    {"calls": [{"tool": …}, {"tool": …}]}       several, in their order
    {"answer": "Done."}  {"cannot": "…"}        what is said

How the reply is asked for is said in `guided`. Nothing that was cut off, or that cannot be read for
sure, becomes a call that runs.
"""

from collections.abc import Sequence
from typing import Any, Final

from surecall.parsing.arguments import read_arguments
from surecall.values.types import JSON, ToolSpec, is_blank
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import recover, without_thoughts
from surecall.wire.messages import encode, raw_calls
from surecall.wire.opaque_state import GUIDED_THOUGHT
from surecall.wire.protocols.field_reader import FieldReader
from surecall.wire.protocols.fit_check import GIVES, NO
from surecall.wire.protocols.guided import (
    ABOUT,
    ANSWER,
    ARGUMENTS,
    BEFORE_A_STEP,
    CALLS,
    CANNOT,
    THOUGHT,
    TOOL,
)

# A call that was cut off must not run, however well its beginning reads.
_CUT_OFF: Final = "{"
_NO_LIMIT: Final = 1 << 62
_STEPS: Final = frozenset({CALLS, TOOL, ANSWER, CANNOT})


def hear(
    message: JSON,
    tools: Sequence[ToolSpec] = (),
    known: Sequence[ToolSpec] = (),
    *,
    typed: bool = False,
) -> JSON:
    """Return a raw message with its call, or its answer, taken out of the JSON object.

    What is neither stays as it is: the dialects may know it, or it is an answer in plain words. An
    answer that is `typed` stays JSON, and only counts if it is whole and all that was said.
    """
    if raw_calls(message):
        return message
    text = text_of(message.get("content"))
    value = read_arguments(text, _NO_LIMIT).value
    if value is None:
        return _after_thoughts(message, text, tools, known, typed=typed)
    if before := _before_the_step(value):
        message = message | {GUIDED_THOUGHT: _as_one(before)}
        value = {key: item for key, item in value.items() if key not in before}
    if heard := _heard_calls(value, text, tools, known, fits=before.get(GIVES) != NO):
        return message | heard
    match value:
        case {"answer": answer, **rest} if typed:
            return message if rest else message | {"content": encode(answer).decode()}
        case {"answer": answer} | {"cannot": answer}:
            return message | {"content": _words(answer)}
        case _:
            return message


def _before_the_step(value: JSON) -> dict[str, str]:
    """Return what was written before a step; where there is none, such fields are nothing else."""
    is_step = bool(_STEPS & value.keys())
    return {key: value[key] for key in BEFORE_A_STEP if is_step and isinstance(value.get(key), str)}


def _as_one(before: dict[str, str]) -> str:
    only_thought = before.get(THOUGHT) if len(before) == 1 else None
    return "; ".join(map(": ".join, before.items())) if only_thought is None else only_thought


def _heard_calls(
    value: JSON, text: str, tools: Sequence[ToolSpec], known: Sequence[ToolSpec], *, fits: bool
) -> JSON:
    """Return the calls of an object as the endpoint's own fields would have them, if it has any."""
    listed = _listed(value)
    calls = [one for one in listed if _is_call(one)]
    # Who says that no tool fits, and calls one, is asked again; so is who lists something else.
    if not fits or len(calls) < len(listed):
        return _called(*(_raw(one[TOOL], [one]) for one in calls))
    if calls == [value] and _in_other_words(value) and recover(text, tools, weak=True).calls:
        return {}
    return _called(*(_call(one, known) for one in calls))


def _listed(value: JSON) -> list[Any]:
    """Return what should be the calls of a reply."""
    listed = value.get(CALLS)
    return [value] if TOOL in value else listed if isinstance(listed, list) else []


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get(TOOL), str) and bool(item[TOOL])


def _in_other_words(call: JSON) -> bool:
    """Whether what a call has beside its name are no arguments; the dialects may know them."""
    return len(call) > 1 and ARGUMENTS not in call


def _call(call: JSON, known: Sequence[ToolSpec]) -> JSON:
    """Return a call as the endpoint's own fields would have it; in doubt, unreadable."""
    name = call[TOOL]
    if _in_other_words(call):
        return _raw(name, [{key: call[key] for key in call if key != TOOL}])
    return _raw(name, _without_words(call.get(ARGUMENTS), name, known))


def _without_words(arguments: Any, name: str, known: Sequence[ToolSpec]) -> Any:
    """Leave out what was written about a value before the value itself."""
    own = {
        key for tool in known if tool.name == name for key in tool.parameters.get("properties", {})
    }
    if not isinstance(arguments, dict):
        return arguments
    return {
        key: item
        for key, item in arguments.items()
        if key in own or not (key.startswith(ABOUT) and key.removeprefix(ABOUT) in own)
    }


def _words(answer: Any) -> str:
    match answer:
        case None:
            return ""
        case str():
            return answer
        case _:
            return encode(answer).decode()


def _after_thoughts(
    message: JSON, text: str, tools: Sequence[ToolSpec], known: Sequence[ToolSpec], *, typed: bool
) -> JSON:
    """Read what comes after thoughts, which are no part of the object."""
    found = without_thoughts(text)
    if found.text == text or is_blank(found.text):
        return _cut_off(message, text, typed=typed)
    bare = message | {"content": found.text}
    # Once only: thoughts inside of thoughts are not read.
    whole = read_arguments(found.text, _NO_LIMIT).value is not None
    heard = (
        hear(bare, tools, known, typed=typed) if whole else _cut_off(bare, found.text, typed=typed)
    )
    return message if heard is bare else {"reasoning_content": found.reasoning} | heard


def _cut_off(message: JSON, text: str, *, typed: bool) -> JSON:
    """Read the beginning of an object whose end is missing."""
    before = [FieldReader(name) for name in BEFORE_A_STEP]
    for reader in before:
        if reader.feed(text) and not reader.ended:
            return message | {"content": ""}
        if reader.ended:
            text = "{" + reader.rest.lstrip().removeprefix(",")
    tool, listed = FieldReader(TOOL), FieldReader(TOOL, within=CALLS)
    if (name := tool.feed(text)) and tool.ended:
        written = text.partition(f'"{ARGUMENTS}"')[2].lstrip(" :")
        is_whole = read_arguments(written, _NO_LIMIT).problem is None
        return message | _called(_raw(name, _CUT_OFF if is_whole else written))
    if (name := listed.feed(text)) and listed.ended:
        return message | _called(_raw(name, _CUT_OFF))
    if typed:
        return message
    readers = FieldReader(ANSWER), FieldReader(CANNOT)
    words = "".join(reader.feed(text) for reader in readers)
    if words or any(reader.is_waiting for reader in (*before, tool, listed, *readers)):
        return message | {"content": words}
    return message


def _raw(name: str, arguments: Any) -> JSON:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _called(*calls: JSON) -> JSON:
    return {"content": "", "tool_calls": list(calls)} if calls else {}
