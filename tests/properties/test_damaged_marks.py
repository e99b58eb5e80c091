# ruff: noqa: RUF001 (the wide bars are what models write)
"""A damaged mark: the same call is parsed, or the model is asked. Nothing else happens.

Each token of the marks of each dialect is deleted, doubled, and replaced by every other one. The
tool name, the keys, and the values are no marks. A text that begins like a block quote is left out:
quotations are shown, not made.
"""

import asyncio
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

import pytest

from surecall import ToolLoopRunner, ToolRegistry
from surecall.proxy import Proxy
from surecall.simulator.faults import apply_fault
from surecall.testing import ScriptedModel, ScriptedProvider, calls, says
from surecall.tools.registry import ToolDefinition
from surecall.values.types import JSON, ToolCall
from surecall.wire.dialects import WRITERS
from tests.support.generated import Broken, check, dice, many
from tests.support.proxy import USER, post
from tests.support.replies import PRESETS, completion_body, reply_to, runnable, streamed_body

NAME: Final = "write_note"
ARGUMENTS: Final[JSON] = {"title": "plan", "body": "buy milk", "count": 3}
SCHEMA: Final[JSON] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "body": {"type": "string"},
        "count": {"type": "integer"},
    },
    "required": ["title"],
    "additionalProperties": False,
}
TOOLS: Final = ToolRegistry(
    [
        ToolDefinition(NAME, "Write a note.", parameters=SCHEMA),
        ToolDefinition("look", "Look.", parameters={"type": "object", "properties": {}}),
    ]
)
DATA: Final = re.compile(r"write_note|title|body|count|plan|buy milk|call00001|(?<!\w)[03](?!\w)")
TOKEN: Final = re.compile(
    r"\]<\]minimax\[>\[|<\|[^<>|]*\|>|<｜[^<>｜]*｜>|</?[^\W]*[:\w]*>|</|\w+|[^\w\s]"
)
FOREIGN: Final = (
    "<tool_call>",
    "</tool_call>",
    ">",
    "</arg_value>",
    "\u200b",
    "</parameter>",
    "```",
)
PAIRS: Final = 40


def call_text(row: str) -> str:
    return WRITERS[row]((ToolCall("call00001", NAME, ARGUMENTS),), "")


def marks(text: str) -> list[tuple[int, int]]:
    """Return where each token of the marks begins and ends."""
    found, at = [], 0
    for data in chain(DATA.finditer(text), [None]):
        end = len(text) if data is None else data.start()
        found += [(at + one.start(), at + one.end()) for one in TOKEN.finditer(text[at:end])]
        at = end if data is None else data.end()
    return found


def damaged(text: str) -> Iterator[tuple[str, str]]:
    """Yield the damage and the text for every deleted, doubled, and replaced token."""
    spans = marks(text)
    others = dict.fromkeys((*(text[start:end] for start, end in spans), *FOREIGN))
    for start, end in spans:
        token = text[start:end]
        yield f"{token!r} deleted at {start}", text[:start] + text[end:]
        yield f"{token!r} doubled at {start}", text[:end] + token + text[end:]
        for other in others:
            if other != token:
                yield f"{other!r} for {token!r} at {start}", text[:start] + other + text[end:]


def outcome(text: str, preset: str, *, streamed: bool = False) -> str:
    """Return what comes of a reply with this text."""
    body = completion_body({"content": text})
    reply = reply_to(streamed_body(body) if streamed else body, PRESETS[preset], TOOLS)
    ran = [(call.name, call.arguments) for call in runnable(reply)]
    if ran:
        return "same" if ran == [(NAME, ARGUMENTS)] else f"ran {ran}"
    is_asked = bool(reply.claims) or any(call.problem for call in reply.calls)
    return "asked" if is_asked else "silent"


def is_block_quote(text: str) -> bool:
    return text.startswith(">") and not text.startswith(">>>")


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("row", WRITERS)
def test_a_call_with_a_damaged_mark_is_the_same_call_or_asked_about(row: str, preset: str) -> None:
    broken, cases = [], 0
    for damage, text in damaged(call_text(row)):
        cases += 1
        came = outcome(text, preset)
        if came not in ("same", "asked") and not is_block_quote(text):
            broken.append(Broken(row, f"{row} / {damage}\n{text}", came))

    check(broken, cases)


@pytest.mark.slow
@pytest.mark.parametrize("row", WRITERS)
def test_a_call_with_two_damaged_marks_never_ends_silently(row: str) -> None:
    rng = dice("two damaged marks", row)
    broken, cases = [], many(PAIRS)
    for number in range(cases):
        first, once = rng.choice(list(damaged(call_text(row))))
        second, text = rng.choice(list(damaged(once)))
        came = outcome(text, rng.choice(tuple(PRESETS)), streamed=number % 2 == 0)
        if came == "silent" and ">" not in text[:1]:
            broken.append(Broken(row, f"{row} / {first}, {second}\n{text}", came))

    check(broken, cases)


@pytest.mark.parametrize("row", WRITERS)
def test_the_undamaged_call_runs(row: str) -> None:
    assert outcome(call_text(row), "weak") == "same"


# Two faults in one conversation: a damaged call in text, and a malformed native call after it.

PAIRED: Final = (
    *("arguments_object", "arguments_fenced", "id_missing", "tool_calls_text"),
    *("finish_stop_with_calls", "legacy_function_call"),
)
SPEC: Final[JSON] = {
    "type": "function",
    "function": {"name": NAME, "description": "Write a note.", "parameters": SCHEMA},
}


def pair_of_faults(row: str) -> tuple[JSON, JSON]:
    """Return a reply with a damaged call in text, and a malformed native call."""
    rng = dice("two faults", row)
    texts = [text for _, text in damaged(call_text(row)) if not is_block_quote(text)]
    native = apply_fault(rng.choice(PAIRED), calls(NAME, **ARGUMENTS), tools=[SPEC])
    return says(f"I will write it down.\n\n{rng.choice(texts)}"), native


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("row", WRITERS)
def test_a_run_with_two_faults_makes_the_call_once(row: str, *, streamed: bool) -> None:
    ran: list[JSON] = []

    def write(**arguments: object) -> str:
        ran.append(arguments)
        return "ok"

    tool = ToolDefinition(NAME, "Write a note.", parameters=SCHEMA, handler=write)
    # A model that is not asked after it was understood ends the run.
    model = ScriptedModel(*pair_of_faults(row), says("Done."), says("Done."))
    runner = ToolLoopRunner(client=model, model="m", tools=[tool], config=PRESETS["weak"])

    async def play() -> None:
        if not streamed:
            await runner.run("Write it down.")
            return
        async for _ in (stream := runner.stream("Write it down.")):
            pass
        assert stream.result.assistant_text

    asyncio.run(play())

    assert ran
    assert all(arguments == ARGUMENTS for arguments in ran)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("row", [row for row in WRITERS if row.endswith("1") or row == "B13"])
def test_a_client_of_the_proxy_gets_the_call_and_no_marks(row: str, *, streamed: bool) -> None:
    first, native = pair_of_faults(row)
    body = {"model": "m", "messages": [USER], "tools": [SPEC], "stream": streamed}
    with ScriptedProvider(first, native) as upstream, Proxy(upstream.url) as proxy:
        got = post(proxy.url, body)

    assert got.status == 200
    assert NAME in got.body.decode()
    assert "tool_calls" in got.body.decode()
    assert first["choices"][0]["message"]["content"][-20:] not in got.body.decode()
