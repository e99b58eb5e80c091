"""The next step of a faultless model, given the tools and the conversation.

no tools, or the work is done    answer, unless a call is required
a call failed                    repeat it, with values from the error message
otherwise                        make the calls that the task still needs, one at a time, or
                                 several at once if the instructions ask for it

A *complaint* is a client's response to an answer that it does not accept. Neither a complaint nor
a question about a call written as text starts a new task.
"""

from typing import Final

import msgspec

from surecall.simulator.personas.clues import (
    Clues,
    SystemInstructions,
    arguments_for,
    bare_words,
    parse_instructions,
)
from surecall.simulator.personas.injections import Injection, first_injection, without_injection
from surecall.simulator.personas.recipes import CallOutcome, next_step, recipe_for, step_arguments
from surecall.simulator.request_checks import calls_of, forced_tool, messages_of
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON
from surecall.wire.content_parts import text_of

DONE = "Done."
FAILURE_ANSWER = "I could not finish the task."
MAX_FAILURES = 4
_MAX_QUOTED_CHARS = 200
_MIN_WORD_CHARS = 4
STATE_GET, STATE_PATCH = STATE_TOOLS = ("state_get", "state_patch")
# The patch of the state task; the workspace comes from the user's text.
STATE_OP: JSON = {"op": "set", "path": "/draft/foo", "value": "bar"}
# Texts to which every text fault applies.
NOTE_TEXT = "Tom & Ada\n\tcaf\u00e9 \U0001f378 one \\\n two \ufffd"
SETTINGS_TEXT = '{"depth":1}'
_STATE: JSON = {"request_id": "r1", "note": NOTE_TEXT, "settings": SETTINGS_TEXT}
COMPLAINTS: Final = ("This is not finished", "This answer cannot be accepted")
# How clients begin a question about a call that was written as text.
CALL_QUESTION: Final = "You wrote a call"
# How clients begin a reminder of what is missing or of what was done before the answer.
REMINDERS: Final = ("Not finished yet", "This was done:")
EMPTY_REPLY_NOTES: Final = ("Your reply announced", "Your reply was empty")
_QUESTIONS: Final = (CALL_QUESTION, *EMPTY_REPLY_NOTES)


class PlannedCall(msgspec.Struct, frozen=True):
    """A call that the model will make."""

    tool: str
    arguments: JSON = {}


class Intent(msgspec.Struct, frozen=True):
    """The next step: calls or an answer.

    `had_errors` is true if a call of the current task failed. `finish` is the finish reason of an
    answer.
    """

    calls: tuple[PlannedCall, ...] = ()
    text: str = ""
    had_errors: bool = False
    instructions: SystemInstructions = SystemInstructions()
    finish: str = "stop"


class RequiredCall(msgspec.Struct, frozen=True):
    """A call that the task needs; `change` overrides fields of its patch.

    A failure with one of `accepted_codes` also satisfies it.
    """

    tool: str
    change: JSON = {}
    accepted_codes: frozenset[str] = frozenset()

    def is_satisfied_by(self, outcome: CallOutcome) -> bool:
        """Return whether the call need not be repeated after this outcome."""
        return self.tool == outcome.tool and (
            outcome.ok or bool(self.accepted_codes & outcome.codes)
        )


def next_intent(request: JSON, *, follow_instructions: bool = True) -> Intent:
    """Return the next step of a faultless model, or of one that ignores the instructions."""
    messages = messages_of(request)
    orders = parse_instructions(messages)
    followed = orders if follow_instructions else SystemInstructions()
    start = _task_start(messages)
    done = call_outcomes(messages[start:])
    failed = [item for item in done if not item.ok]
    move = Intent(had_errors=bool(failed), instructions=orders)
    tools = callable_tools(request)
    text = text_of(messages[start].get("content")) if start < len(messages) else ""
    if (known := _recipe_intent(text, tools, done, request)) is not None:
        return Intent(known.calls, known.text, had_errors=move.had_errors, instructions=orders)
    if not tools:
        unfinished = bool(done) and not done[-1].ok
        return msgspec.structs.replace(
            move, text=FAILURE_ANSWER if unfinished else _final_text(done)
        )
    if len(failed) >= MAX_FAILURES and not demands_call(request):
        failure = f"{FAILURE_ANSWER} {failed[-1].content[:_MAX_QUOTED_CHARS]}"
        return msgspec.structs.replace(move, text=failure)
    acts = _required_calls(tools, text, request, followed)
    due = _due_calls(
        acts, done, batch_size=_batch_size(request, followed)
    ) or _call_named_by_complaint(tools, messages[-1:])
    if not due and demands_call(request):
        due = acts[-1:]
    if not due:
        return msgspec.structs.replace(move, text=_final_text(done))
    errors = " ".join(item.content for item in failed)
    calls: list[PlannedCall] = []
    for act in due:
        clues = Clues(text, _state_task_values(act), errors, followed.omitted)
        calls.append(PlannedCall(act.tool, arguments_for(tools[act.tool].get("parameters"), clues)))
    return msgspec.structs.replace(move, calls=tuple(calls))


def _recipe_intent(
    text: str, tools: dict[str, JSON], outcomes: list[CallOutcome], request: JSON
) -> Intent | None:
    """Return the next step of a task with a recipe; None for other tasks."""
    recipe = recipe_for(text)
    if recipe is None:
        return None
    step = next_step(recipe, outcomes)
    if step is None and demands_call(request):
        step = next((each for each in reversed(recipe.steps) if each.tool in tools), None)
    if step is None or step.tool not in tools:
        return Intent(text=recipe.answer)
    return Intent(calls=(PlannedCall(step.tool, step_arguments(step, outcomes)),))


def demands_call(request: JSON) -> bool:
    """Return whether a request requires a call."""
    return request.get("tool_choice") == "required" or forced_tool(request) is not None


def count_complaints(messages: list[JSON]) -> int:
    """Count the complaints since the last tool result."""
    count = 0
    for message in messages:
        count = 0 if message.get("role") == "tool" else count + _starts_with(message, COMPLAINTS)
    return count


def _starts_with(message: JSON, words: tuple[str, ...]) -> bool:
    """Return whether this is a user message that starts with one of these texts."""
    return message.get("role") == "user" and text_of(message.get("content")).startswith(words)


def is_asked_about_call(request: JSON) -> bool:
    """Return whether the client's last message asks about a call or an empty reply."""
    return any(_starts_with(message, _QUESTIONS) for message in messages_of(request)[-1:])


def _call_named_by_complaint(
    tools: dict[str, JSON], last_messages: list[JSON]
) -> list[RequiredCall]:
    """Return the call that the last message names, if it is a complaint."""
    complaints_now = [message for message in last_messages if _starts_with(message, COMPLAINTS)]
    words = [word for each in complaints_now for word in bare_words(text_of(each.get("content")))]
    return [RequiredCall(word) for word in words if word in tools][:1]


def _task_start(messages: list[JSON]) -> int:
    """Return the position of the task: the last user message after an answer, except follow-ups."""
    start, answered = len(messages), True
    for position, message in enumerate(messages):
        role = message.get("role")
        is_note = _starts_with(message, (*COMPLAINTS, *_QUESTIONS, *REMINDERS))
        if role == "user" and not is_note and answered:
            start, answered = position, False
        elif role == "assistant" and not calls_of(message):
            answered = text_of(message.get("content")).startswith((DONE, FAILURE_ANSWER))
    return start


def call_outcomes(messages: list[JSON]) -> list[CallOutcome]:
    """Return the calls of a conversation that have results."""
    names: dict[str, str] = {}
    found: list[CallOutcome] = []
    for message in messages:
        for call in calls_of(message):
            function = call.get("function")
            name = function.get("name") if isinstance(function, dict) else ""
            names[str(call.get("id"))] = str(name)
        if message.get("role") == "tool":
            name = names.get(str(message.get("tool_call_id")), "")
            found.append(CallOutcome(name, text_of(message.get("content"))))
    return found


def find_injection(request: JSON) -> Injection | None:
    """Return the first injected call in the tool results, or None."""
    return first_injection(item.content for item in call_outcomes(messages_of(request)) if item.ok)


def callable_tools(request: JSON) -> dict[str, JSON]:
    """Return the functions that the model is allowed to call, by name."""
    tools = request.get("tools")
    if request.get("tool_choice") == "none" or not isinstance(tools, list):
        return {}
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    return {
        str(function["name"]): function
        for function in functions
        if isinstance(function, dict) and function.get("name")
    }


def _required_calls(
    tools: dict[str, JSON], text: str, request: JSON, instructions: SystemInstructions
) -> list[RequiredCall]:
    """Return the calls that the task needs, in order; only the forced tool, if there is one."""
    demanded, forced = demands_call(request), forced_tool(request)
    if forced in tools:
        tools = {forced: tools[forced]}
    if tools.keys() >= {*STATE_TOOLS} or (demanded and tools.keys() <= {*STATE_TOOLS}):
        return [act for act in _state_task_calls(instructions) if act.tool in tools]
    words = _keywords(text)
    scores = {name: len(words & _tool_keywords(name, tool)) for name, tool in tools.items()}
    best = max(scores, key=lambda name: scores[name])
    needed = scores[best] > 0 or demanded
    return [RequiredCall(best)] if needed else []


def _state_task_calls(instructions: SystemInstructions) -> list[RequiredCall]:
    """Return a read and a patch, with the calls that the instructions want rejected in between."""
    acts = [RequiredCall(STATE_GET, accepted_codes=frozenset({ErrorCode.TOOL_OUTPUT_TOO_LARGE}))]
    if instructions.wrong_path:
        wrong = {"path": instructions.wrong_path}
        acts.append(RequiredCall(STATE_PATCH, wrong, frozenset({ErrorCode.ARGUMENT_ERROR})))
    if instructions.min_length:
        long = {"value": "x" * instructions.min_length}
        acts.append(RequiredCall(STATE_PATCH, long, frozenset({ErrorCode.ARGUMENTS_TOO_LARGE})))
    return [*acts, RequiredCall(STATE_PATCH)]


def _batch_size(request: JSON, instructions: SystemInstructions) -> int:
    """Return the number of calls in the first reply."""
    return 2 if instructions.at_once and request.get("parallel_tool_calls") is not False else 1


def _due_calls(
    required: list[RequiredCall], outcomes: list[CallOutcome], *, batch_size: int
) -> list[RequiredCall]:
    """Return the calls to make now: those left of the first batch, then one at a time."""
    open_acts = list(required)
    for outcome in outcomes:
        settled = next((act for act in open_acts if act.is_satisfied_by(outcome)), None)
        if settled is not None:
            open_acts.remove(settled)
    first = [act for act in required[:batch_size] if act in open_acts]
    return first or open_acts[:1]


def _keywords(text: str) -> set[str]:
    """Return the words of a text that are long enough to tell tools apart."""
    letters = "".join(char.lower() if char.isalnum() else " " for char in text)
    return {word for word in letters.split() if len(word) >= _MIN_WORD_CHARS or word.isdecimal()}


def _tool_keywords(name: str, tool: JSON) -> set[str]:
    parameters = tool.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    keys = " ".join(properties) if isinstance(properties, dict) else ""
    return _keywords(f"{name} {tool.get('description') or ''} {keys}")


def _state_task_values(required: RequiredCall) -> JSON:
    """Return the arguments of a call of the state tools; empty for other tools."""
    op = STATE_OP | required.change
    return _STATE | op | {"ops": [op]} if required.tool in STATE_TOOLS else {}


def _final_text(outcomes: list[CallOutcome]) -> str:
    """Return the final answer. It quotes the last result, unless a state tool returned it.

    Injected calls are not quoted.
    """
    last = next((item for item in reversed(outcomes) if item.ok), None)
    if last is None or last.tool in STATE_TOOLS:
        return DONE
    return f"{DONE} {last.tool} said: {without_injection(last.content)[:_MAX_QUOTED_CHARS]}"
