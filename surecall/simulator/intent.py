"""What a good model would do next: read the tools and the conversation, then call or answer.

no tools, or the work is done    answer
a call failed                    make it again, with what the error told
otherwise                        call the first tool that the request still needs
"""

from typing import Any

import msgspec

from surecall.simulator.clues import Clues, arguments_for
from surecall.simulator.strict import calls_of, forced_tool
from surecall.types import JSON
from surecall.wire import text_of

DONE = "Done."
GIVEN_UP = "I could not finish the task."
MAX_FAILURES = 4
_QUOTED = 200
_SHORTEST_WORD = 4
STATE_TOOLS = ("state_get", "state_patch")
# What the small state task is about; the workspace comes from the user's text.
_OP: JSON = {"op": "set", "path": "/draft/foo", "value": "bar"}
# Texts that every fault of a text finds something to bend in.
NOTE = "Tom & Ada\n\tcaf\u00e9 \U0001f378 one \\\n two \ufffd"
SETTINGS = '{"depth":1}'
_STATE: JSON = {"request_id": "r1", "note": NOTE, "settings": SETTINGS, **_OP}
_RETRY_REQUEST = "fix the errors and try again"


class Intent(msgspec.Struct, frozen=True):
    """The next clean move: a call when `tool` is set, else an answer."""

    tool: str | None = None
    arguments: JSON = {}
    text: str = ""
    told: bool = False  # whether an error was reported since the task was given


class Outcome(msgspec.Struct, frozen=True):
    """A call of the conversation with the answer it got."""

    tool: str
    content: str

    @property
    def ok(self) -> bool:
        """Whether the answer does not report a failure."""
        try:
            value = msgspec.json.decode(self.content)
        except (ValueError, RecursionError):
            lowered = self.content.lstrip().lower()
            return not lowered.startswith("error") and _RETRY_REQUEST not in lowered
        match value:
            case {"ok": False} | {"isError": True} | {"error": _}:
                return False
            case _:
                return True


def next_intent(request: JSON) -> Intent:
    """Return what a model without faults would do."""
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    start = _task_start(messages)
    done = _outcomes(messages[start:])
    failed = [item for item in done if not item.ok]
    tools = _offered(request)
    told = bool(failed)
    if not tools:
        unfinished = bool(done) and not done[-1].ok
        return Intent(text=GIVEN_UP if unfinished else DONE, told=told)
    if len(failed) >= MAX_FAILURES:
        return Intent(text=f"{GIVEN_UP} {failed[-1].content[:_QUOTED]}", told=told)
    text = text_of(messages[start].get("content")) if start < len(messages) else ""
    steps = _steps(tools, text, request)
    finished = {item.tool for item in done if item.ok}
    todo = [name for name in steps if name not in finished]
    if not todo:
        return Intent(text=_answer(done), told=told)
    errors = " ".join(item.content for item in failed)
    return Intent(todo[0], _arguments(tools, todo[0], text, errors), told=told)


def _task_start(messages: list[JSON]) -> int:
    """Find the user's request. A user message that follows no answer of ours is only a note."""
    start, answered = len(messages), True
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "user" and answered:
            start, answered = position, False
        elif role == "assistant" and not calls_of(message):
            answered = text_of(message.get("content")).startswith((DONE, GIVEN_UP))
    return start


def _outcomes(messages: list[JSON]) -> list[Outcome]:
    names: dict[str, str] = {}
    found: list[Outcome] = []
    for message in messages:
        for call in calls_of(message):
            function = call.get("function")
            name = function.get("name") if isinstance(function, dict) else ""
            names[str(call.get("id"))] = str(name)
        if message.get("role") == "tool":
            name = names.get(str(message.get("tool_call_id")), "")
            found.append(Outcome(name, text_of(message.get("content"))))
    return found


def _offered(request: JSON) -> dict[str, JSON]:
    """Return the functions that may be called, by name."""
    tools = request.get("tools")
    if request.get("tool_choice") == "none" or not isinstance(tools, list):
        return {}
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    return {
        str(function["name"]): function
        for function in functions
        if isinstance(function, dict) and function.get("name")
    }


def _steps(tools: dict[str, JSON], text: str, request: JSON) -> list[str]:
    """List the tools that the request needs, in order."""
    forced = forced_tool(request)
    if forced in tools:
        return [forced]
    if all(name in tools for name in STATE_TOOLS):
        return list(STATE_TOOLS)
    words = _words(text)
    scores = {name: len(words & _topics(name, tool)) for name, tool in tools.items()}
    best = max(scores, key=lambda name: scores[name])
    needed = scores[best] > 0 or request.get("tool_choice") == "required"
    return [best] if needed else []


def _words(text: str) -> set[str]:
    letters = "".join(char.lower() if char.isalnum() else " " for char in text)
    return {word for word in letters.split() if len(word) >= _SHORTEST_WORD or word.isdecimal()}


def _topics(name: str, tool: JSON) -> set[str]:
    parameters = tool.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    keys = " ".join(properties) if isinstance(properties, dict) else ""
    return _words(f"{name} {tool.get('description') or ''} {keys}")


def _arguments(tools: dict[str, JSON], name: str, text: str, errors: str) -> JSON:
    known: dict[str, Any] = _STATE | {"ops": [dict(_OP)]} if name in STATE_TOOLS else {}
    return arguments_for(tools[name].get("parameters"), Clues(text, known, errors))


def _answer(done: list[Outcome]) -> str:
    """Say that it is done, and quote the result of a tool that is not about the state."""
    last = next((item for item in reversed(done) if item.ok), None)
    if last is None or last.tool in STATE_TOOLS:
        return DONE
    return f"{DONE} {last.tool} said: {last.content[:_QUOTED]}"
