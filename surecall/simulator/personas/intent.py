"""What a good model would do next: read the tools and the conversation, then call or answer.

no tools, or the work is done    answer, unless a call is demanded
a call failed                    make it again, with what the error told
otherwise                        make the calls that the request still needs, one after the other,
                                 or several together where the instructions want it

A *complaint* is what a client says to an answer that it does not accept. It is no new task, and
neither is the question whether a call that was written as text is meant.
"""

from typing import Any, Final

import msgspec

from surecall.simulator.personas.clues import Clues, Orders, arguments_for, bare, orders_of
from surecall.simulator.personas.injections import Injection, first_injection, without_injection
from surecall.simulator.personas.recipes import arguments_of, next_step, recipe_for
from surecall.simulator.request_checks import calls_of, forced_tool
from surecall.values.errors import ErrorCode
from surecall.values.nesting import decode_json
from surecall.values.types import JSON
from surecall.wire.content_parts import text_of

DONE = "Done."
GIVEN_UP = "I could not finish the task."
MAX_FAILURES = 4
_QUOTED = 200
_SHORTEST_WORD = 4
GET, PATCH = STATE_TOOLS = ("state_get", "state_patch")
# What the small state task is about; the workspace comes from the user's text.
OP: JSON = {"op": "set", "path": "/draft/foo", "value": "bar"}
# Texts in which every fault of a text finds something to change.
NOTE = "Tom & Ada\n\tcaf\u00e9 \U0001f378 one \\\n two \ufffd"
SETTINGS = '{"depth":1}'
_STATE: JSON = {"request_id": "r1", "note": NOTE, "settings": SETTINGS}
COMPLAINTS: Final = ("This is not finished", "This answer cannot be accepted")
# With these words a client asks about a call that was written as text, or that did not come.
ASKED_BACK: Final = "You wrote a call"
# With these a client reminds of what is missing, or of what was done before the answer.
REMINDERS: Final = ("Not finished yet", "This was done:")
NOTHING_CAME: Final = ("Your reply announced", "Your reply was empty")
_RETRY_REQUEST = "fix the errors and try again"


class Wanted(msgspec.Struct, frozen=True):
    """A call that is to be made."""

    tool: str
    arguments: JSON = {}


class Intent(msgspec.Struct, frozen=True):
    """The next clean move: calls, else an answer.

    `told` says whether an error was reported since the task was given, `orders` what the
    instructions ask for, and `finish` which finish reason goes with an answer.
    """

    calls: tuple[Wanted, ...] = ()
    text: str = ""
    told: bool = False
    orders: Orders = Orders()
    finish: str = "stop"


class Outcome(msgspec.Struct, frozen=True):
    """A call of the conversation with the answer it got."""

    tool: str
    content: str

    @property
    def value(self) -> Any:
        """The answer as data, None when it is plain text."""
        try:
            return decode_json(self.content)
        except ValueError:
            return None

    @property
    def ok(self) -> bool:
        """Whether the answer does not report a failure."""
        match self.value:
            case {"ok": False} | {"isError": True} | {"error": _}:
                return False
            case None:
                lowered = self.content.lstrip().lower()
                return not lowered.startswith("error") and _RETRY_REQUEST not in lowered
            case _:
                return True

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the errors that the answer reports."""
        match self.value:
            case {"errors": list(errors)}:
                return frozenset(str(one.get("code")) for one in errors if isinstance(one, dict))
            case _:
                return frozenset()


class Act(msgspec.Struct, frozen=True):
    """A call that the task needs; `change` says how its patch differs from the usual one.

    A failure with a code that is `enough` settles it, too.
    """

    tool: str
    change: JSON = {}
    enough: frozenset[str] = frozenset()

    def settled_by(self, outcome: Outcome) -> bool:
        """Whether a call need not be made again after this."""
        return self.tool == outcome.tool and (outcome.ok or bool(self.enough & outcome.codes))


def next_intent(request: JSON, *, heeds: bool = True) -> Intent:
    """Return what a model without faults would do; one that `heeds` no orders reads none."""
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    orders = orders_of(messages)
    followed = orders if heeds else Orders()
    start = _task_start(messages)
    done = outcomes(messages[start:])
    failed = [item for item in done if not item.ok]
    move = Intent(told=bool(failed), orders=orders)
    tools = offered(request)
    text = text_of(messages[start].get("content")) if start < len(messages) else ""
    if (known := _by_recipe(text, tools, done, request)) is not None:
        return msgspec.structs.replace(known, told=move.told, orders=orders)
    if not tools:
        unfinished = bool(done) and not done[-1].ok
        return _saying(move, GIVEN_UP if unfinished else _answer(done))
    if len(failed) >= MAX_FAILURES and not demands_call(request):
        return _saying(move, f"{GIVEN_UP} {failed[-1].content[:_QUOTED]}")
    acts = _acts(tools, text, request, followed)
    due = _due(acts, done, together=_together(request, followed)) or _named(tools, messages[-1:])
    if not due and demands_call(request):
        due = acts[-1:]
    if not due:
        return _saying(move, _answer(done))
    errors = " ".join(item.content for item in failed)
    calls: list[Wanted] = []
    for act in due:
        clues = Clues(text, _known(act), errors, followed.omitted)
        calls.append(Wanted(act.tool, arguments_for(tools[act.tool].get("parameters"), clues)))
    return msgspec.structs.replace(move, calls=tuple(calls))


def _by_recipe(
    text: str, tools: dict[str, JSON], done: list[Outcome], request: JSON
) -> Intent | None:
    """Return the next move in a task that is known; None if it is not."""
    recipe = recipe_for(text)
    if recipe is None:
        return None
    step = next_step(recipe, done)
    if step is None and demands_call(request):
        step = next((each for each in reversed(recipe.steps) if each.tool in tools), None)
    if step is None or step.tool not in tools:
        return Intent(text=recipe.answer)
    return Intent(calls=(Wanted(step.tool, arguments_of(step, done)),))


def _saying(move: Intent, text: str) -> Intent:
    return msgspec.structs.replace(move, text=text)


def demands_call(request: JSON) -> bool:
    """Whether a request leaves no choice but to call a tool."""
    return request.get("tool_choice") == "required" or forced_tool(request) is not None


def complaints(messages: list[JSON]) -> int:
    """Count the complaints since the last call was answered."""
    count = 0
    for message in messages:
        count = 0 if message.get("role") == "tool" else count + _complains(message)
    return count


def _complains(message: JSON) -> bool:
    text = text_of(message.get("content"))
    return message.get("role") == "user" and text.startswith(COMPLAINTS)


def is_asked_back(request: JSON) -> bool:
    """Whether a client has just asked about a call: one as text, or one that did not come."""
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    return any(map(_asks_back, messages[-1:]))


def _asks_back(message: JSON) -> bool:
    text = text_of(message.get("content"))
    return message.get("role") == "user" and text.startswith((ASKED_BACK, *NOTHING_CAME))


def _reminds(message: JSON) -> bool:
    return text_of(message.get("content")).startswith(REMINDERS)


def _named(tools: dict[str, JSON], last: list[JSON]) -> list[Act]:
    """Return the call that a complaint names, if nothing else is left to do."""
    words = bare(text_of(last[0].get("content"))) if any(map(_complains, last)) else []
    return [Act(word) for word in words if word in tools][:1]


def _task_start(messages: list[JSON]) -> int:
    """Find the user's request. A user message that follows no answer of ours is only a note."""
    start, answered = len(messages), True
    for position, message in enumerate(messages):
        role = message.get("role")
        is_note = _complains(message) or _asks_back(message) or _reminds(message)
        is_task = role == "user" and not is_note
        if is_task and answered:
            start, answered = position, False
        elif role == "assistant" and not calls_of(message):
            answered = text_of(message.get("content")).startswith((DONE, GIVEN_UP))
    return start


def outcomes(messages: list[JSON]) -> list[Outcome]:
    """List the calls of a conversation with their answers."""
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


def injection_in(request: JSON) -> Injection | None:
    """Find a call that somebody wrote into what a tool has returned."""
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    return first_injection(item.content for item in outcomes(messages) if item.ok)


def offered(request: JSON) -> dict[str, JSON]:
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


def _acts(tools: dict[str, JSON], text: str, request: JSON, orders: Orders) -> list[Act]:
    """List the calls that the request needs, in order; only the tool that it names, if it does."""
    demanded, forced = demands_call(request), forced_tool(request)
    if forced in tools:
        tools = {forced: tools[forced]}
    if tools.keys() >= {*STATE_TOOLS} or (demanded and tools.keys() <= {*STATE_TOOLS}):
        return [act for act in _state_task(orders) if act.tool in tools]
    words = _words(text)
    scores = {name: len(words & _topics(name, tool)) for name, tool in tools.items()}
    best = max(scores, key=lambda name: scores[name])
    needed = scores[best] > 0 or demanded
    return [Act(best)] if needed else []


def _state_task(orders: Orders) -> list[Act]:
    """Read, then patch; in between, whatever the instructions want to see refused."""
    acts = [Act(GET, enough=frozenset({ErrorCode.TOOL_OUTPUT_TOO_LARGE}))]
    if orders.wrong_path:
        wrong = {"path": orders.wrong_path}
        acts.append(Act(PATCH, wrong, frozenset({ErrorCode.ARGUMENT_ERROR})))
    if orders.length:
        long = {"value": "x" * orders.length}
        acts.append(Act(PATCH, long, frozenset({ErrorCode.ARGUMENTS_TOO_LARGE})))
    return [*acts, Act(PATCH)]


def _together(request: JSON, orders: Orders) -> int:
    """Return how many of the first calls go out in one reply."""
    return 2 if orders.at_once and request.get("parallel_tool_calls") is not False else 1


def _due(acts: list[Act], done: list[Outcome], *, together: int) -> list[Act]:
    """Return the calls to make now: those of the first batch, then one at a time."""
    open_acts = list(acts)
    for outcome in done:
        settled = next((act for act in open_acts if act.settled_by(outcome)), None)
        if settled is not None:
            open_acts.remove(settled)
    first = [act for act in acts[:together] if act in open_acts]
    return first or open_acts[:1]


def _words(text: str) -> set[str]:
    letters = "".join(char.lower() if char.isalnum() else " " for char in text)
    return {word for word in letters.split() if len(word) >= _SHORTEST_WORD or word.isdecimal()}


def _topics(name: str, tool: JSON) -> set[str]:
    parameters = tool.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    keys = " ".join(properties) if isinstance(properties, dict) else ""
    return _words(f"{name} {tool.get('description') or ''} {keys}")


def _known(act: Act) -> JSON:
    op = OP | act.change
    return _STATE | op | {"ops": [op]} if act.tool in STATE_TOOLS else {}


def _answer(done: list[Outcome]) -> str:
    """Say that it is done, and quote the result of a tool that is not about the state.

    A call that stands in the result is not quoted.
    """
    last = next((item for item in reversed(done) if item.ok), None)
    if last is None or last.tool in STATE_TOOLS:
        return DONE
    return f"{DONE} {last.tool} said: {without_injection(last.content)[:_QUOTED]}"
