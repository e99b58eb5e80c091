"""The `guided` protocol: `response_format` constrains every reply to a call or an answer.

Every reply is one JSON object: a call that is allowed now, the answer, or giving up.

    {"tool": "state_get", "arguments": {"select": ["/draft"]}}
    {"answer": "Done."}
    {"cannot": "charge: The gateway is offline."}

With `parallel_tool_calls`, several calls are in a list:

    {"for each of": "Rome; Bern", "calls": [{"tool": "get_weather", "arguments": …}, …]}

A small model chooses better after a thought about the results, and after describing the thing whose
id it writes. Both are recorded and never sent back:

    {"thought": "The lamp is broken.", "tool": "refund",
     "arguments": {"about item_id": "name 'lamp', i-1", "item_id": "i-1"}}

The thought precedes calls and answers alike, so that it does not commit the model to a call.

A small model that may call or answer decides with its first word, and decides badly. With the fit
check, its first reply states what is requested and copies the description of the closest tool
before it decides. The order matters: models that began with the tool wrongly found that it did not
fit in a quarter of the cases.

    {"asked for": "year in which a city was founded",
     "closest tool": "city_population: Get the number of people who live in a city.",
     "gives exactly that": "no", "answer": "…"}

The schema is built for each turn. While a final answer would be refused, it has no place for one;
when no tool is exposed, it has no place for a call. After a permanent failure the model may give
up, for a reason that the tools have reported.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from surecall.core.prompted import PromptFormat, allows_several_calls, tool_lines
from surecall.parsing.coercion import ALL_TYPES, is_untyped, rewrite_schema
from surecall.tools.schema import rebase_references
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, Plan, ToolCall, ToolResult, ToolSpec, User
from surecall.wire.chat_format import chosen_tool_name, encode

# Length limits for the texts of a schema.
#
# A model constrained by a grammar may repeat a character forever, because nothing makes it stop.
# Only plain strings get a limit; those with other constraints stay unchanged.

# The largest repetition that servers support in grammars.
MAX_REPEATS: Final = 2_000
_LIMITING_KEYWORDS: Final = frozenset({"maxLength", "enum", "const", "format", "pattern"})


def limit_texts(schema: JSON, max_chars: int) -> JSON:
    """Return a schema whose plain strings have a maximum length."""

    def limit(part: JSON) -> JSON:
        if is_untyped(part):
            part = part | {"type": list(ALL_TYPES)}
        if not _allows_text(part.get("type")) or _LIMITING_KEYWORDS & part.keys():
            return part
        return part | {"maxLength": max(max_chars, part.get("minLength", 0))}

    return rewrite_schema(schema, limit)


def _allows_text(kinds: Any) -> bool:
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)


ASKED: Final = "asked for"
CLOSEST: Final = "closest tool"
GIVES: Final = "gives exactly that"
YES: Final = "yes"
NO: Final = "no"
CHECKED: Final = (ASKED, CLOSEST, GIVES)
_MAX_ASKED_CHARS: Final = 80
_MAX_SUMMARY_CHARS: Final = 120


def fit_check_prompt(each: str = "") -> str:
    """Return the instructions for the fit check; `each` is the first key of a list of calls."""
    return "\n".join((_RULE, *(_example_line(*example, each) for example in _EXAMPLES)))


def _example_line(question: str, asked: str, tool: str, things: str, each: str) -> str:
    """Return an example of the fit check: a question, and the beginning of the reply to it."""
    words = zip(CHECKED, (asked, tool, YES if things else NO), strict=True)
    said = "".join(f'"{name}": "{word}", ' for name, word in words)
    if not things:
        said += '"answer": '
    elif each:
        said += f'"{each}": "{things}", '
    return f"{question} -> {{{said}...}}"


_PEOPLE = "city_population: Get the number of people who live in a city."
_LETTER = "send_letter: Send a letter to an address."
_YEAR = "book_year: Get the year in which a book came out."
_RULE = (
    "Begin with what is asked for and the closest tool, and say whether that tool gives exactly "
    "that. If it does not, do not call it: answer. Examples, with other tools:"
)
# A question, what it asks for, the closest tool, and the things to call it for, if it fits.
_EXAMPLES: Final = (
    ("How many live in Oslo and in Bern?", "number of people in two cities", _PEOPLE, "Oslo; Bern"),
    ("When was Oslo founded?", "year in which a city was founded", _PEOPLE, ""),
    ("How do I write a good letter?", "advice on how to write", _LETTER, ""),
    ("Tell Ann at 4 Mill Lane I am late.", "a letter that is sent", _LETTER, "Ann"),
    ("How fast does Oslo grow?", "growth rate of a city", _PEOPLE, ""),
    ("Who wrote Emma?", "author of a book", _YEAR, ""),
    ("When did Emma and Ulysses come out?", "years of two books", _YEAR, "Emma; Ulysses"),
)


def with_fit_checks(steps: Sequence[JSON], tools: Sequence[ToolSpec]) -> list[JSON]:
    """Return steps with the fit check before each; the last step is the answer."""
    *calls, answer = steps
    return [
        *(_with_fit_check(step, tools, YES) for step in calls),
        _with_fit_check(answer, tools, NO),
    ]


def _with_fit_check(step: JSON, tools: Sequence[ToolSpec], verdict: str) -> JSON:
    """Return a step with the fit check first: the order of keys is the order of decisions."""
    before: JSON = {
        ASKED: {"type": "string", "maxLength": _MAX_ASKED_CHARS},
        CLOSEST: {"enum": list(dict.fromkeys(map(_tool_summary, tools)))},
        GIVES: {"const": verdict},
    }
    return step | {
        "properties": before | step["properties"],
        "required": [*before, *step["required"]],
    }


def _tool_summary(tool: ToolSpec) -> str:
    """Return the name of a tool and the first sentence of its description."""
    sentence, stop, _ = " ".join(tool.description.split()).partition(". ")
    return f"{tool.name}: {sentence}{stop.rstrip()}"[:_MAX_SUMMARY_CHARS]


# Lists what the calls are for: a model that has listed them all forgets none.
EACH: Final = "for each of"
CALLS: Final = "calls"
TOOL: Final = "tool"
ARGUMENTS: Final = "arguments"
ANSWER: Final = "answer"
THOUGHT: Final = "thought"
CANNOT: Final = "cannot"
# Prefix of a field that describes the value of a parameter. It is not an argument.
ABOUT: Final = "about "
# Without a limit, a small model may never stop.
MAX_CALLS_AT_ONCE: Final = 16
_HOW_TO_THINK = (
    f'Once there are results, begin with "{THOUGHT}": what was asked for, and what of it is found, '
    "in one short sentence."
)
BEFORE_A_STEP: Final = (THOUGHT, *CHECKED, EACH)
_COUNTED: Final[JSON] = {"type": "string", "maxLength": 240}
_A_CALL = f'{{"{TOOL}": "name", "{ARGUMENTS}": {{...}}}}'
_HOW_TO_CALL_SEVERAL = (
    f'To call tools: {{"{EACH}": "Rome; Bern; Graz", "{CALLS}": [{_A_CALL}, ...]}}, in which there '
    "is a call for each thing that is asked for."
)
_ANSWER: JSON = {
    "type": "object",
    "properties": {ANSWER: {"type": "string"}},
    "required": [ANSWER],
    "additionalProperties": False,
}


class GuidedOptions(NamedTuple):
    """Options of the guided protocol: limits of arguments and thoughts, and the fit check."""

    max_args_bytes: int
    thought_chars: int = 0
    checks_fit: bool = False


def _instructions(
    tools: tuple[ToolSpec, ...],
    output: JSON | None,
    several: bool,  # noqa: FBT001  # signature of `PromptFormat`
    options: GuidedOptions,
) -> str:
    lines = [
        "Reply with one JSON object and nothing else.",
        _HOW_TO_CALL_SEVERAL if several else f"To call a tool: {_A_CALL}",
        f'To give the final answer: {{"{ANSWER}": {_answer_placeholder(output)}',
        *([_HOW_TO_THINK] if options.thought_chars else []),
        *([fit_check_prompt(EACH if several else "")] if options.checks_fit else []),
        *tool_lines(tools),
    ]
    return "\n".join(lines)


def _answer_placeholder(output: JSON | None) -> str:
    """Return what stands for the answer in the instructions, with the schema of a typed one."""
    if output is None:
        return '"text"}'
    return f"...}}, in which ... is JSON of this schema: {encode(output).decode()}"


def _encode_calls(calls: tuple[ToolCall, ...], several: bool) -> str:  # noqa: FBT001  # signature of `PromptFormat`
    each: list[JSON] = [{TOOL: call.name, ARGUMENTS: call.arguments} for call in calls]
    return "\n".join(encode(one).decode() for one in ([{CALLS: each}] if several else each))


def _encode_result(result: ToolResult) -> str:
    return f"Result of {result.name}: {result.content}"


def _encode_answer(text: str, typed: bool) -> str:  # noqa: FBT001  # signature of `PromptFormat`
    return encode({ANSWER: _json_or_text(text) if typed else text}).decode()


def _json_or_text(text: str) -> Any:
    """Return an answer as JSON, unchanged, or as text if it is not JSON."""
    try:
        decode_json(text)
    except ValueError:
        return text
    return msgspec.Raw(text.strip().encode())


def _response_format(plan: Plan, options: GuidedOptions) -> JSON:
    """Return the `response_format` of what the loop would accept now."""
    definitions: JSON = {}
    tools = _allowed_tools(plan)
    calls = [_call_step(tool, definitions, options.max_args_bytes) for tool in tools]
    steps = [_several_calls_step(calls)] if calls and allows_several_calls(plan) else [*calls]
    if plan.give_up_reasons:
        steps.append(_give_up_step(plan.give_up_reasons))
    elif (plan.may_answer and plan.tool_choice != "required") or not steps:
        steps.append(_answer_step(plan.output, definitions))
        if options.checks_fit and calls and isinstance(plan.messages[-1], User):
            steps = with_fit_checks(steps, tools)
    if (
        options.thought_chars
        and calls
        and any(isinstance(item, ToolResult) for item in plan.messages)
    ):
        steps = [_with_thought(step, options.thought_chars) for step in steps]
    schema = _any_of(steps)
    if definitions:
        schema = schema | {"$defs": definitions}
    return {"type": "json_schema", "json_schema": {"name": "next_step", "schema": schema}}


def _any_of(steps: Sequence[JSON]) -> JSON:
    return steps[0] if len(steps) == 1 else {"anyOf": list(steps)}


def _several_calls_step(calls: Sequence[JSON]) -> JSON:
    """Return a step with one call or more."""
    listed = {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_CALLS_AT_ONCE,
        "items": _any_of(calls),
    }
    return _ANSWER | {"properties": {EACH: _COUNTED, CALLS: listed}, "required": [EACH, CALLS]}


def _answer_step(output: JSON | None, definitions: JSON) -> JSON:
    """Return the schema of an answer, of the type `output` if there is one."""
    if output is None:
        return _ANSWER
    return _ANSWER | {"properties": {ANSWER: _relocatable(output, ANSWER, definitions)}}


def _give_up_step(reasons: Sequence[str]) -> JSON:
    """Return the schema of a reply that gives up for one of the reasons."""
    return _ANSWER | {"properties": {CANNOT: {"enum": list(reasons)}}, "required": [CANNOT]}


def _allowed_tools(plan: Plan) -> tuple[ToolSpec, ...]:
    """Return the tools that `tool_choice` allows."""
    if plan.tool_choice == "none":
        return ()
    name = chosen_tool_name(plan.tool_choice)
    return tuple(tool for tool in plan.tools if name is None or tool.name == name)


def _call_step(tool: ToolSpec, definitions: JSON, max_chars: int) -> JSON:
    """Return the schema of a call of a tool, with its texts limited."""
    arguments = (
        limit_texts(tool.parameters, max_chars) if max_chars <= MAX_REPEATS else tool.parameters
    )
    placed = _relocatable(arguments, tool.name, definitions)
    return {
        "type": "object",
        "properties": {TOOL: {"const": tool.name}, ARGUMENTS: placed},
        "required": [TOOL, ARGUMENTS],
        "additionalProperties": False,
    }


def _relocatable(schema: JSON, name: str, definitions: JSON) -> JSON:
    """Return a schema that may be nested anywhere.

    References start at the root, so a schema that has any is moved to `$defs`.
    """
    if not _has_reference(schema):
        return schema
    place = f"{name}_{len(definitions)}" if name in definitions else name
    definitions[place] = rebase_references(schema, f"#/$defs/{place}")
    return {"$ref": f"#/$defs/{place}"}


def _with_thought(step: JSON, max_chars: int) -> JSON:
    """Return a step with a thought first: the order of keys is the order of decisions."""
    thought = {THOUGHT: {"type": "string", "maxLength": max_chars}}
    return step | {
        "properties": thought | step["properties"],
        "required": [THOUGHT, *step["required"]],
    }


def _has_reference(schema: Any) -> bool:
    match schema:
        case dict():
            return "$ref" in schema or any(map(_has_reference, schema.values()))
        case list():
            return any(map(_has_reference, schema))
        case _:
            return False


def guided_format(
    max_args_bytes: int, thought_chars: int = 0, *, checks_fit: bool = False
) -> PromptFormat:
    """Return the format of the guided protocol."""
    options = GuidedOptions(max_args_bytes, thought_chars, checks_fit)
    opening, form = (
        partial(_instructions, options=options),
        partial(_response_format, options=options),
    )
    return PromptFormat(opening, _encode_calls, _encode_result, _encode_answer, form)
