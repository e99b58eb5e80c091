# ruff: noqa: RUF001 (the wide bars and quotation marks are what models write)
"""Argument values put into a dialect's spelling as they are, without the escapes that it asks for.

A dialect writes a call with a harmless word as the value, and the word is then replaced. Some texts
that come of it are a proper spelling of something else. What a text says by the rules of its own
dialect is what it means, so these are not made:

- JSON and Python: a text that is valid by the strict rules of the language and says another value,
  as `a", "note": "b` does between quotes; `says_another` asks the languages themselves.
- JSON and Python: values with a backslash that begins an escape of the language; half of the
  escapes and none of the quotes can be read in two ways.
- Tagged parameters: a value with its closing tag and then, after blanks at most, the next tag of
  its own call; the first closing tag ends a value.
- Compact objects: a value with the quote token, a comma and a declared key.
- All: a value that ends its own call and begins another whole one; these are two calls.
- Tagged parameters: values that begin or end with blanks; line breaks there are the format's.
"""

import ast
import json
import random
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from surecall import ToolRegistry
from surecall.tools.registry import ToolDefinition
from surecall.values.types import JSON, ToolCall
from surecall.wire.dialects import WRITERS
from surecall.wire.dialects.spelling import ANTML, LEAD
from tests.support.law_cases import dice, spread

WORD: Final = "qqplaceqq"
NAME: Final = "shell_run"
SCHEMA: Final[JSON] = {
    "type": "object",
    "properties": {
        "command": {"type": "string"},
        "note": {"type": "string"},
        "items": {"type": "array", "items": {"type": "string"}},
        "meta": {
            "type": "object",
            "properties": {"k": {"type": "string"}, "n": {"type": "string"}},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
TOOLS: Final = ToolRegistry([ToolDefinition(NAME, "Run a command.", parameters=SCHEMA)])

# Where the value stands in the call: alone, before or after others, in a list, in an object.
PLACES: Final[dict[str, JSON]] = {
    "only": {"command": WORD},
    "first": {"command": WORD, "note": "later"},
    "last": {"note": "before", "command": WORD},
    "middle": {"note": "before", "command": WORD, "items": ["x"]},
    "item": {"items": [WORD, "b"]},
    "last item": {"items": ["a", WORD]},
    "inner": {"meta": {"k": WORD, "n": "1"}, "note": "later"},
}
# Places that a tagged dialect writes as JSON inside of a tag.
NESTED: Final = frozenset({"item", "last item", "inner"})

# By row: how a parameter ends, and the tags of its call that may come next.
_TAGGED: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    **dict.fromkeys(("C1", "C2"), ("</parameter", ("<parameter=", "</function"))),
    "C3": ("</parameter", ("<parameter", "</invoke")),
    "C4": (f"</{ANTML}parameter", (f"<{ANTML}parameter", f"</{ANTML}invoke")),
    "C5": ("</｜DSML｜parameter", ("<｜DSML｜parameter", "</｜DSML｜invoke")),
    "C6": ("</atem:parameter", ("<atem:parameter", "</atem:invoke")),
    "C7": ("</steptml:parameter", ("<steptml:parameter", "</steptml:invoke")),
    "C8": ("</param", ("<param", "</function")),
    **dict.fromkeys(("C9", "C10"), ("</arg_value", ("<arg_key", "</tool_call"))),
    "C11": ("<|close|>argument<|sep|>", ("<|open|>argument", "<|close|>call")),
}
# Where tags are named like their keys: the tags that may come next in the call.
_KEYS: Final = ("command", "note", "items", "meta", "item", "k", "n")
_NEXT: Final = (*(f"<{key}>" for key in _KEYS), f"</{NAME}>", "</invoke>", "</items>", "</meta>")
_TOKENS: Final = {"B9": "<escape>", "B10": '<|"|>'}
_PYTHON_QUOTES: Final = ("'", '"', '"""', "'''")

PIECES: Final = (
    *('"', "'", '"""', "'''", "`", "```", "“", "”", "«", "»", "{", "}", "[", "]", "(", ")"),
    *("\n", "\n\n", "\t", " ", ",", ":", "=", ";", "#", "//", "/*", "<", ">", "|", "/", "-", "\\d"),
    *("a", "x y", "0", "None", "true", "é", "東京", "😀", "&amp;", "&quot;", "$HOME", "..."),
    *('", ', "', ", '", "', "', '", '"}', "'}", '"}}', '")', "')", '"]', "']", '"}]', '"}}]'),
    *('", "other": "x', "', other='x", '", other="x', ", note: x", ", note=1", '", "n', '"note":'),
    *('"command": "', "command=", "command:", "\nnote: x", "\nnote = 'x'", '" "', "' '", '" + "'),
    *("</parameter>", "</function>", "</tool_call>", "</invoke>", "</arg_value>", "</param>"),
    *("<tool_call>", "<function=x>", "<parameter=other>", '<parameter name="other">', "<arg_key>"),
    *("</command>", "<command>", "<|call|>", "<|tool_call_end|>", "<｜tool▁call▁end｜>", "»\n"),
    *("<escape>", '<|"|>', "<end_function_call>", "<tool_call|>", "[TOOL_CALLS]", "[/TOOL_CALLS]"),
    *("<|im_end|>", "</s>", "<think>", "</think>", "<|end|>", "<|message|>", LEAD, "<|sep|>"),
    *("<b>bold</b>", "<!-- note -->", '<a href="x">y</a>', "[link](x)", '{"a": {"b": [1, "c"]}}'),
    *("python3 -c \"print('a')\"", 'echo "it\'s"', "grep -c 'a, b' x", 'f(a="b", c=[1])'),
    *('print("a, b")', "x = {'k': 'v'}", 'for a in ["b", "c"]:\n    print(a)', "if a < b: c > d"),
    *('git commit -m "Fix: x, y"', "awk '{print $1}' f", "sed 's/a/b/'", 'say "hi", then "bye"'),
)
# Only where a backslash is a character like any other.
RAW_PIECES: Final = (*PIECES, "\\n", '\\"', "\\", "C:\\temp\\new", "\\u0041", "'\\''")


class Naive(NamedTuple):
    """A call with a value written naively: the text, and the arguments that were meant."""

    row: str
    place: str
    text: str
    meant: JSON


def cases(row: str, count: int) -> list[Naive]:
    """Make cases of one dialect, with the value in all places alike."""
    rng = dice("naive", row)
    made: list[Naive] = []
    for place in spread(rng, tuple(PLACES), count):
        tries = (written_naively(row, place, value, rng) for value in values(rng, row, place))
        made += islice((case for case in tries if case is not None), 1)
    return made


def is_tagged(row: str) -> bool:
    return row.startswith("C")


def is_raw(row: str, place: str) -> bool:
    """Whether a value is written without quotes that are also characters of text."""
    return row in _TOKENS or (is_tagged(row) and place not in NESTED) or row in ("C12", "C13")


def put(arguments: Any, value: str) -> Any:
    """Put the value where the word is."""
    match arguments:
        case dict():
            return {key: put(item, value) for key, item in arguments.items()}
        case list():
            return [put(item, value) for item in arguments]
        case _:
            return value if arguments == WORD else arguments


def values(rng: random.Random, row: str, place: str) -> Iterator[str]:
    """Make values without end: some pieces in a row, and the dialect's own marks among them."""
    own = own_marks(row)
    pieces = RAW_PIECES if is_raw(row, place) else PIECES
    while True:
        count = rng.choice((1, 1, 2, 2, 3, 3, 4, 6))
        parts = [rng.choice(own if rng.random() < 0.2 else pieces) for _ in range(count)]
        value = rng.choice(("", " ", "")).join(parts)
        yield value.strip() if is_tagged(row) else value


def own_marks(row: str) -> tuple[str, ...]:
    """List what stands before and after the value when the dialect writes it, in parts."""
    before, after = _around(row)
    halves = (before, after, before[: len(before) // 2], after[: len(after) // 2], after.strip())
    return tuple(dict.fromkeys(half for half in halves if half.strip()))


def _around(row: str) -> tuple[str, str]:
    """Return what a call of another tool has before and after its only value."""
    written = WRITERS[row]((_call(PLACES["only"]),), "").replace(NAME, "other_tool")
    before, _, after = written.partition(WORD)
    return before, after


def written_naively(row: str, place: str, value: str, rng: random.Random) -> Naive | None:
    """Write a call, or nothing where the text would properly say something else."""
    clean = text = WRITERS[row]((_call(PLACES[place]),), "")
    if row.startswith("D"):
        quote = rng.choice(_PYTHON_QUOTES)
        text = text.replace(f"'{WORD}'", f"{quote}{WORD}{quote}")
    elif not is_tagged(row) and row not in _TOKENS and rng.random() < 0.1:
        text = text.replace('"', "'")
    case = Naive(row, place, text.replace(WORD, value), put(PLACES[place], value))
    return None if says_another(case, value, clean) else case


def _call(arguments: JSON) -> ToolCall:
    return ToolCall("call00001", NAME, arguments)


def says_another(case: Naive, value: str, clean: str) -> bool:
    """Whether the text is a proper spelling of another value."""
    begin, end = (part.strip() for part in _around(case.row))
    if begin and begin in value.partition(end)[2]:
        return True
    if case.row in _TOKENS:
        return any(
            f"{_TOKENS[case.row]}{between}{key}:" in value
            for between in (",", ", ")
            for key in (*SCHEMA["properties"], "k", "n")
        )
    if case.row.startswith("D"):
        return _python_says_another(case)
    if is_tagged(case.row) and any(_ends_itself(value, *tags) for tags in _tags(case.row)):
        return True
    return not is_raw(case.row, case.place) and _json_says_another(case, clean, value)


def _tags(row: str) -> list[tuple[str, tuple[str, ...]]]:
    """List how a parameter ends, and what may come next in its call."""
    if row in _TAGGED:
        return [_TAGGED[row]]
    lead = LEAD if row == "C12" else ""
    return [(f"{lead}</{key}>", tuple(lead + tag for tag in _NEXT)) for key in _KEYS]


def _ends_itself(value: str, end: str, following: tuple[str, ...]) -> bool:
    """Whether a value has its closing tag, and after it the next tag of its call."""
    at = value.find(end)
    while at >= 0:
        after = value.find(">", at + len(end) - 1) + 1
        if after and value[after:].lstrip().startswith(following):
            return True
        at = value.find(end, at + 1)
    return False


def _json_says_another(case: Naive, clean: str, value: str) -> bool:
    """Whether the JSON around the value is valid, but the value is not what it says."""
    decoder = json.JSONDecoder(strict=False)
    for at, mark in enumerate(clean):
        if mark not in "{[":
            continue
        try:
            whole, end = decoder.raw_decode(clean, at)
        except ValueError:
            continue
        body = case.text[at : len(case.text) - (len(clean) - end)]
        return _valid(body) not in (None, put(whole, value))
    return False


def _valid(body: str) -> Any:
    """Return what an object says as JSON, or in single quotes as Python; nothing if invalid."""
    try:
        # A backslash that escapes nothing stands for itself.
        return json.loads(body.replace("\\d", "\\\\d"), strict=False)
    except ValueError:
        pass
    try:
        # A line break in quotes is read like any other character.
        whole = body.replace("\\d", "\\\\d").replace("\n", "\\n")
        return ast.literal_eval(whole) if body.startswith(("{'", "[{'")) else None
    except (SyntaxError, ValueError):
        return None


def _python_says_another(case: Naive) -> bool:
    """Whether the calls are valid Python with literal values, and the value is not what it says."""
    begin = case.text.find(NAME)
    end = case.text.rfind(")") + 1
    source = case.text[begin:end].replace(".call(", "(", 1)
    source = source[:-1] if case.row == "D6" else source
    # A line break in quotes is read like any character.
    versions = ((source, case.meant), (source.replace("\n", " "), _on_one_line(case.meant)))
    return any(_says_another(text, meant) for text, meant in versions)


def _on_one_line(value: Any) -> Any:
    return json.loads(json.dumps(value).replace("\\n", " "))


def _says_another(source: str, meant: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(f"[{source}\n]", mode="eval").body
        return _literals(body) != [meant]
    except (SyntaxError, ValueError, MemoryError):
        return False


def _literals(body: ast.expr) -> list[Any]:
    """Return the named values of each call in a list; anything but a literal is an error."""
    calls = body.elts if isinstance(body, ast.List) else []
    return [
        {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        if isinstance(call, ast.Call)
        else ast.literal_eval(call)
        for call in calls
    ]
