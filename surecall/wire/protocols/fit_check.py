"""What a guided reply says before its first step: what is asked for, and whether a tool gives that.

    {"asked for": "year in which a city was founded",
     "closest tool": "city_population: Get the number of people who live in a city.",
     "gives exactly that": "no", "answer": "…"}

A small model that may call a tool or answer decides with the first word that it writes, and decides
badly: it calls whatever there is, or nothing at all. Here it says first what is asked for, and then
repeats what the tool gives by its own description, before it decides. The order matters: a model
that began with the tool found that it did not fit in a quarter of the cases in which it did.
"""

from collections.abc import Sequence
from typing import Final

from surecall.values.types import JSON, ToolSpec

ASKED: Final = "asked for"
CLOSEST: Final = "closest tool"
GIVES: Final = "gives exactly that"
YES: Final = "yes"
NO: Final = "no"
CHECKED: Final = (ASKED, CLOSEST, GIVES)
_MOST_WORDS: Final = 80
_MOST_TOLD: Final = 120


def how_to_check(each: str = "") -> str:
    """Tell how a reply begins, by examples; `each` is what a list of calls begins with, if any."""
    return "\n".join((_RULE, *(_shown(*example, each) for example in _EXAMPLES)))


def _shown(question: str, asked: str, tool: str, things: str, each: str) -> str:
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


def checked_steps(steps: Sequence[JSON], tools: Sequence[ToolSpec]) -> list[JSON]:
    """Put the check before steps, of which the last one is the answer."""
    *calls, answer = steps
    return [*(_checked(step, tools, YES) for step in calls), _checked(answer, tools, NO)]


def _checked(step: JSON, tools: Sequence[ToolSpec], verdict: str) -> JSON:
    """Put the check before a step: the order of keys is an order of decisions."""
    before: JSON = {
        ASKED: {"type": "string", "maxLength": _MOST_WORDS},
        CLOSEST: {"enum": list(dict.fromkeys(map(_told, tools)))},
        GIVES: {"const": verdict},
    }
    return step | {
        "properties": before | step["properties"],
        "required": [*before, *step["required"]],
    }


def _told(tool: ToolSpec) -> str:
    """Return the name of a tool and the first sentence of its description."""
    sentence, stop, _ = " ".join(tool.description.split()).partition(". ")
    return f"{tool.name}: {sentence}{stop.rstrip()}"[:_MOST_TOLD]
