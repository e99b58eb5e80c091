"""The bent replies of the demo, drawn by rule from the catalogue, so that nobody has picked them.

Of each family of faults `EACH` are drawn: those whose names have the lowest hashes.
Left out beforehand is what no loop could end well, because the endpoint or the model refuses for
good; what is cured only on request; and what makes a client wait for longer than a demo lasts.
"""

import functools
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from surecall.simulator.answer_bytes import PLAIN, encoded, stream_bytes
from surecall.simulator.demo.tasks import BOOK, LIST, PAIR, QUOTE, SAVE, Desk, Task, described
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.personas.mixed import REPAIRABLE
from surecall.simulator.personas.persona import CURED, QUOTED, RETRIED, Persona, say
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.types import JSON
from surecall.wire.messages import encode

EACH: Final = 4
# From the outside of a reply to its inside, then to the run as a whole; in the words of a heading.
TITLES: Final = {
    "control": "control",
    "transport": "the network",
    "envelope": "the response around the message",
    "message": "the message",
    "ids": "ids of calls",
    "names": "names of tools",
    "arguments": "arguments of calls",
    "loop": "finish reasons and answers",
    "text": "calls that are written as text",
    "stream": "streams",
    "quotes": "calls that are only quoted, and must not run",
}
_CLAIMED: Final = frozenset({CURED, RETRIED, QUOTED}) | REPAIRABLE
_ANY: Final = (BOOK, SAVE, PAIR, LIST)
# Which call an id or a fragment belongs to is a question only if there are two of them.
_TASKS: Final = {"ids": (PAIR,), "stream": (PAIR, *_ANY), "quotes": (QUOTE,)}
_KINDS: Final = {"habit": "text", "quote": "quotes", "stream": "stream", "transport": "transport"}

# What is wrong, for the shapes that are drawn: the summary of a fault is too long for a line.
WORDS: Final = {
    "clean": "nothing: a clean reply",
    "http-503": "503, then fine",
    "html-502": "502 in HTML, then fine",
    "reset": "connection reset, then fine",
    "cut": "half a body, then fine",
    "wrapped_in_data": "everything under `data`",
    "error_in_body": "HTTP 200 with an error inside",
    "calls_in_second_choice": "the calls in a second choice",
    "delta_for_message": "`delta` in place of `message`",
    "tool_calls_prose": "`tool_calls` is prose",
    "tool_calls_junk": "nulls and texts between the calls",
    "content_parts": "content as a list of parts",
    "content_thinking": "content as parts, thoughts first",
    "id_missing": "no id, or a blank one",
    "id_repeated": "one id for both calls",
    "id_reused": "ids count from zero each turn",
    "call_blank_alone": "neither id nor name",
    "name_control_token": "a control token in the name",
    "name_prefixed": "a namespace before the name",
    "name_unknown": "a tool that does not exist",
    "arguments_braces_doubled": "a second pair of braces",
    "keys_with_tags": "marks of the template in keys",
    "arguments_wrapped": "under a key called `arguments`",
    "arguments_under_properties": "under `properties`, as in the schema",
    "finish_malformed": "says malformed call, and has none",
    "finish_malformed_with_calls": "says malformed call, and has one",
    "finish_broken": "says that it broke off",
    "answer_blank": "the answer is blank",
    "dialect-a6": "<TOOLCALL>[{...}]</TOOLCALL>",
    "dialect-a9": "<|python_tag|>{...}",
    "dialect-b2": "tokens of DeepSeek's template",
    "dialect-c12": "marks of MiniMax's template",
    "stream-index-shared": "one index for both calls",
    "stream-arguments-in-crumbs": "one character in each chunk",
    "stream-legacy-deltas": "`function_call` in the deltas",
    "stream-done-in-lower-case": "`[done]` for `[DONE]`",
    "quotes-end-of-line": "as the end of a sentence",
    "quotes-heading": "under a heading",
    "quotes-fence": "in a code fence",
    "quotes-list-item": "as an item of a list",
}


class Shape(NamedTuple):
    """One way in which replies are bent: who sends them, and the task in which it shows."""

    persona: Persona
    family: str
    task: Task

    @property
    def id(self) -> str:
        """The name of the persona, without what all have in front."""
        return self.persona.id.partition("/")[2]

    @property
    def streamed(self) -> bool:
        """Whether the replies are asked for as streams."""
        return self.family == "stream"

    @property
    def words(self) -> str:
        """What is wrong, in a few words."""
        _, _, way = self.persona.summary.partition(": ")
        told = way if self.family == "quotes" else self.persona.summary
        return WORDS.get(self.id, told.rstrip("."))


_CONTROL: Final = Shape(PERSONAS["sim/clean"], "control", BOOK)


def drawn() -> list[Shape]:
    """Draw the shapes of a demo: the control, and some of each family, in the catalogue's order."""
    return [_CONTROL, *(shape for family in _families().values() for shape in _some(family))]


@functools.cache
def every_shape() -> tuple[Shape, ...]:
    """Return the control and all that can be drawn."""
    shapes = (_showing(shape) for family in _families().values() for shape in family)
    return (_CONTROL, *(shape for shape in shapes if shape is not None))


def _families() -> dict[str, list[Shape]]:
    found: dict[str, list[Shape]] = {family: [] for family in TITLES}
    for persona in PERSONAS.values():
        family = family_of(persona)
        if family and persona.outcome in _CLAIMED and not is_slow(persona):
            found[family].append(Shape(persona, family, BOOK))
    return found


def family_of(persona: Persona) -> str:
    """Return the family of the fault that a persona has; blank if it has none or several."""
    if persona.kind == "drift":
        return SHAPE_FAULTS[persona.faults[0][0]].family
    return _KINDS.get(persona.kind, "")


def is_slow(persona: Persona) -> bool:
    """Whether a client can do nothing but wait until its patience ends."""
    fault = TRANSPORT_FAULTS.get(persona.faults[0][0], PLAIN)
    return fault.ending == "hang" or fault.pause_s > 0


def _some(family: Sequence[Shape]) -> list[Shape]:
    """Draw from a family, by the hashes of names; what shows in no task gives way to the next."""
    by_hash = sorted(family, key=lambda shape: hashlib.sha256(shape.id.encode()).digest())
    showing = (shown for shape in by_hash if (shown := _showing(shape)) is not None)
    chosen = {shape.id: shape for shape in islice(showing, EACH)}
    return [chosen[shape.id] for shape in family if shape.id in chosen]


def _showing(shape: Shape) -> Shape | None:
    """Give a shape the first task in which its fault shows; None if there is none."""
    shapes = (shape._replace(task=task) for task in _TASKS.get(shape.family, _ANY))
    return next((each for each in shapes if shows(each)), None)


def shows(shape: Shape) -> bool:
    """Whether the fault of a shape shows in its task: in the first reply, or in the answer."""
    return any(_faults(shape))


def _faults(shape: Shape) -> Iterator[bool]:
    """Say of the first reply, and of the answer at the end, whether a fault shows in it."""
    tools = Desk().tools(shape.task)
    asked: list[JSON] = [
        {"role": "system", "content": shape.task.system},
        {"role": "user", "content": shape.task.prompt},
    ]
    by_name = {function.__name__: function for function in tools}
    calls: list[JSON] = []
    results: list[JSON] = []
    for number, (name, arguments) in enumerate(shape.task.calls):
        function = {"name": name, "arguments": encode(arguments).decode()}
        calls.append({"id": f"call_{number}", "type": "function", "function": function})
        content = by_name[name](**arguments)
        results.append({"role": "tool", "tool_call_id": f"call_{number}", "content": content})
    done: list[JSON] = [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    for messages in (asked, asked + done):
        request = {"model": shape.persona.id, "messages": messages, "tools": described(tools)}
        yield _is_bent(shape, request)


def _is_bent(shape: Shape, request: JSON) -> bool:
    said = say(shape.persona, request, 0)
    if not said.fault or not shape.streamed:
        return bool(said.fault)
    fault, seed = TRANSPORT_FAULTS[said.fault], zlib.crc32(encoded(said.body))
    return stream_bytes(fault, said.body, usage=False, seed=seed).faulty
