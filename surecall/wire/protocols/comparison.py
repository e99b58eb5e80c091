"""A comparison before the first guided call, of what a tool gives with what is asked for.

    {"things asked for": "one",
     "closest tool": "city_population: Get the number of people who live in a city.",
     "asked for": "year in which a city was founded", "the same": "no", "answer": "…"}

A small model that is offered a tool calls it, whatever it is asked; told that it need not, it does
so all the same. Shown how others compare, it leaves most of what does not fit alone. What a tool
gives is not for the model to say: left to itself, it says what is asked for.
"""

from collections.abc import Sequence
from typing import Final

from surecall.values.types import JSON, ToolSpec

COUNT: Final = "things asked for"
ONE: Final = "one"
SEVERAL: Final = "several"
CLOSEST: Final = "closest tool"
ASKED: Final = "asked for"
SAME: Final = "the same"
YES: Final = "yes"
NO: Final = "no"
COMPARED: Final = (COUNT, CLOSEST, ASKED, SAME)
_MOST_WORDS: Final = 80
_MOST_TOLD: Final = 120


def _shown(asked: str, *words: str) -> str:
    """Show a comparison that comes out in one way."""
    said = ", ".join(f'"{name}": "{word}"' for name, word in zip(COMPARED, words, strict=False))
    return f"{asked} -> {{{said}, ...}}"


_PEOPLE = "city_population: Get the number of people who live in a city."
_LETTER = "send_letter: Send a letter to an address."
_RULE = (
    "Before the first call for one thing, compare the closest tool with what is asked for. If it "
    "does not give exactly that, do not call it: answer. Examples, with other tools:"
)
HOW_TO_COMPARE: Final = "\n".join(
    (
        _RULE,
        _shown("How many people live in Oslo?", ONE, _PEOPLE, "number of people in a city", YES),
        _shown("When was Oslo founded?", ONE, _PEOPLE, "year in which a city was founded", NO),
        _shown("How many live in Rome, in Bern and in Graz?", SEVERAL),
        _shown("How do I write a good letter?", ONE, _LETTER, "advice on how to write", NO),
        _shown("Tell Ann at 4 Mill Lane I am late.", ONE, _LETTER, "a letter that is sent", YES),
        _shown("How fast does Oslo grow?", ONE, _PEOPLE, "growth rate of a city", NO),
    )
)


def compared_steps(
    steps: Sequence[JSON], tools: Sequence[ToolSpec], *, several: bool
) -> list[JSON]:
    """Put comparisons before steps, of which the last one is the answer.

    Where several calls may be made, only one thing is compared: who is asked for several things of
    a kind has been asked for what a tool does, and finds it hard to say so.
    """
    *calls, answer = steps
    count = {"const": ONE} if several else {"enum": [ONE, SEVERAL]}
    found = [_compared(step, tools, YES, count) for step in calls]
    found.append(_compared(answer, tools, NO, count))
    if several:
        found += [_with(step, {COUNT: {"const": SEVERAL}}) for step in calls]
    return found


def _compared(step: JSON, tools: Sequence[ToolSpec], verdict: str, count: JSON) -> JSON:
    """Put a comparison before a step; it must come to the verdict that the step is for."""
    words = {"type": "string", "maxLength": _MOST_WORDS}
    told = {"enum": list(dict.fromkeys(map(_told, tools)))}
    return _with(step, {COUNT: count, CLOSEST: told, ASKED: words, SAME: {"const": verdict}})


def _with(step: JSON, before: JSON) -> JSON:
    """Put fields before a step: the order of keys is an order of decisions."""
    return step | {
        "properties": before | step["properties"],
        "required": [*before, *step["required"]],
    }


def _told(tool: ToolSpec) -> str:
    """Return the name of a tool and the first sentence of its description."""
    sentence, stop, _ = " ".join(tool.description.split()).partition(". ")
    return f"{tool.name}: {sentence}{stop.rstrip()}"[:_MOST_TOLD]
