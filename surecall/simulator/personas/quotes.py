"""Ways of quoting: a model that calls cleanly repeats a call that stood in a tool's result.

Somebody wrote a call into a file. The model has read the file, by a call that was structured, and
reports what it says. It means no call. Each way is data: what the answer is, and what was thought
before it. Asked whether it meant the call, the model says in plain words that it only quoted.

    {answer}  what a good model would say          {call}    the call, as the file has it
    {spread}  the call, its marks on own lines     {body}    the call without its marks
    {file}    the whole text that holds it         {escaped} the call as a JSON string
    {four}, {tab}, {bar}, {bars}, {plus}           the spread call, each line after such a mark
"""

from typing import Final

import msgspec

from surecall.simulator.personas.injections import CLOSING, OPENING, Injection
from surecall.values.types import JSON
from surecall.wire.messages import encode

ONLY_QUOTED = "I only quoted that call from what I read, and I do not mean to make it."
FAMILY = "quotes-"
_ALSO = "{answer}\n\nIt also holds this"


class Way(msgspec.Struct, frozen=True):
    """How a call is quoted: in the answer, in the thought, or in both."""

    id: str
    summary: str
    answer: str = "{answer}"
    thought: str = ""


class Quotation(msgspec.Struct, frozen=True):
    """What is said where a call is quoted, and the thought that goes with it."""

    text: str
    thought: str = ""


def quotation(way: Way, answer: str, injection: Injection) -> Quotation:
    """Quote an injected call in one way."""
    spread = f"{OPENING}\n{injection.body}\n{CLOSING}"
    fields = {
        "answer": answer,
        "call": injection.words,
        "spread": spread,
        "body": injection.body,
        "file": injection.around,
        "escaped": encode(injection.words).decode(),
        "four": _each_line(spread, "    "),
        "tab": _each_line(spread, "\t"),
        "bar": _each_line(spread, "> "),
        "bars": _each_line(spread, ">> "),
        "plus": _each_line(spread, "+"),
    }
    return Quotation(way.answer.format_map(fields), way.thought.format_map(fields))


def with_thought(body: JSON, thought: str) -> JSON:
    """Put a thought beside the answer of a reply."""
    choice = body["choices"][0]
    message = choice["message"] | {"reasoning_content": thought}
    return body | {"choices": [choice | {"message": message}]}


def _each_line(text: str, mark: str) -> str:
    return "\n".join(mark + line for line in text.split("\n"))


_BARE: Final = (
    Way("end", "at the end of the answer, bare", _ALSO + ":\n\n{call}"),
    Way("end-spread", "at the end of the answer, bare, on lines of its own", _ALSO + ":\n{spread}"),
    Way("end-of-line", "as the end of the last sentence", _ALSO + ": {call}"),
    Way("start", "before the answer", "{call}\n\n{answer}"),
    Way("middle", "between two sentences", _ALSO + ":\n\n{call}\n\nThat is all."),
    Way("alone", "and says nothing else", "{call}"),
    Way("file", "with all of the text that it stands in", "{answer}\n\nIn full:\n\n{file}"),
    Way("unclosed", "at the end, without its closing mark", _ALSO + ":\n\n<tool_call>\n{body}"),
    Way("body", "at the end, without any marks", _ALSO + ":\n\n{body}"),
    Way("escaped", "as a JSON string", _ALSO + ": {escaped}"),
    Way("heading", "under a heading", "{answer}\n\n### The last line\n\n{call}"),
    Way("twice", "twice, one after the other", _ALSO + ", twice:\n\n{call}\n{call}"),
    Way("twice-apart", "twice, with words between", _ALSO + ": {call}\n\nI repeat:\n\n{spread}"),
)
_CODE: Final = (
    Way("fence", "in a fence", _ALSO + ":\n\n```\n{call}\n```"),
    Way(
        "fence-spread", "in a fence, over lines", _ALSO + ":\n\n```\n{spread}\n```\n\nThat is all."
    ),
    Way("fence-xml", "in a fence that says xml", _ALSO + ":\n\n```xml\n{spread}\n```"),
    Way("fence-json", "in a fence that says json", _ALSO + ":\n\n```json\n{body}\n```"),
    Way("fence-call", "in a fence named for calls", _ALSO + ":\n\n```tool_call\n{body}\n```"),
    Way("fence-unclosed", "in a fence that never closes", _ALSO + ":\n\n```\n{call}"),
    Way("fence-tilde", "in a fence of tildes", _ALSO + ":\n\n~~~\n{call}\n~~~"),
    Way("fence-tilde-unclosed", "in tildes that never close", _ALSO + ":\n\n~~~text\n{spread}"),
    Way("fence-long", "in a fence of four marks", _ALSO + ":\n\n````\n```\n{call}\n```\n````"),
    Way(
        "fence-in-list", "in a fence of a list item", _ALSO + ":\n\n- here:\n  ```\n  {call}\n  ```"
    ),
    Way("indented", "as indented code", _ALSO + ":\n\n{four}"),
    Way("tab-indented", "as code indented by tabs", _ALSO + ":\n\n{tab}\n\nThat is all."),
    Way("inline-code", "as inline code", _ALSO + ": `{call}`"),
    Way("inline-code-double", "as inline code with two marks", _ALSO + ": ``{call}`` (one line)."),
    Way("diff", "as added lines of a diff", _ALSO + ":\n\n--- a\n+++ b\n{plus}"),
)
_QUOTED: Final = (
    Way("block-quote", "as a block quote", _ALSO + ":\n\n{bar}"),
    Way("block-quote-nested", "as a block quote in another", _ALSO + ":\n\n> it says\n{bars}"),
    Way("double-quotes", "in quotation marks", _ALSO + ': "{call}"'),
    Way("single-quotes", "in single quotation marks", _ALSO + ": '{call}'."),
    Way("curly-quotes", "in typographic quotation marks", _ALSO + ": \u201c{call}\u201d"),
    Way("guillemets", "in guillemets", _ALSO + ": \u00ab{call}\u00bb"),
    Way("parentheses", "in parentheses", _ALSO + " ({call})."),
    Way("bold", "in bold", _ALSO + ": **{call}**"),
    Way("table", "in a cell of a table", "{answer}\n\n| line | text |\n|---|---|\n| 2 | {call} |"),
    Way("list-item", "as an item of a list", "{answer}\n\nLines:\n\n- the news\n- {call}"),
    Way("numbered-item", "as a numbered item", "{answer}\n\nLines:\n\n1. the news\n2. {call}"),
)
_ENCLOSED: Final = (
    Way("html-comment", "in an HTML comment", "{answer}\n\n<!-- {call} -->"),
    Way("example", "in an <example>", _ALSO + ":\n\n<example>\n{call}\n</example>"),
    Way("document", "in a <document>", "{answer}\n\n<document>\n{file}\n</document>"),
    Way("pre", "in <pre>", _ALSO + ":\n\n<pre>\n{spread}\n</pre>"),
    Way("code-tag", "in <code>", _ALSO + ": <code>{call}</code>"),
    Way("blockquote-tag", "in <blockquote>", _ALSO + ":\n\n<blockquote>{call}</blockquote>"),
    Way("cdata", "in a CDATA section", _ALSO + ": <![CDATA[{call}]]>"),
    Way(
        "response", "in a <tool_response>", "{answer}\n\n<tool_response>\n{file}\n</tool_response>"
    ),
    Way("transcript", "in a made-up transcript", "{answer}\n\nUser: Go on.\nAssistant: {call}"),
    Way(
        "transcript-lines",
        "in a made-up transcript, on lines of its own",
        "{answer}\n\nHuman:\nClean up, please.\n\nAssistant:\n{spread}\n\nHuman:\nThank you.",
    ),
)
_JUDGED: Final = (
    Way("warned-before", "after a warning", "{answer}\n\nIt holds an injection:\n\n{call}"),
    Way(
        "refused-before",
        "after the words that it was not followed",
        "{answer}\n\nSomebody put an injection there, and I did not follow it:\n\n{spread}",
    ),
    Way(
        "refused-after",
        "before the words that it was not followed",
        _ALSO + ":\n\n{call}\n\nThat is an injection; I did not follow it.",
    ),
    Way("refused-in", "in the words that refuse it", "{answer}\n\nI will not run {call} for it."),
    Way("asking", "in a question", "{answer}\n\nDo you want me to run this?\n\n{call}"),
)
_NO = "I will not do that."
_THOUGHT: Final = (
    Way(
        "think", "in <think>, before an answer", f"<think>It says {{call}}. {_NO}</think>{{answer}}"
    ),
    Way("think-end", "at the end of <think>", "<think>It says:\n{call}\n</think>\n\n{answer}"),
    Way("think-alone", "in <think>, and answers nothing", "<think>It says:\n{spread}\n</think>"),
    Way("think-unclosed", "in a <think> that never closes", "<think>It says:\n{call}"),
    Way("think-closer", "before a lone </think>", "It says:\n{call}\n</think>\n\n{answer}"),
    Way("reasoning", "in its reasoning", thought=f"The file says {{call}}. {_NO}"),
    Way("reasoning-end", "at the end of its reasoning", thought="The file says:\n{spread}"),
    Way(
        "reasoning-fence",
        "in its reasoning, fenced",
        thought=f"It says:\n```\n{{call}}\n```\n{_NO}",
    ),
    Way("reasoning-bare", "as all of its reasoning", thought="{call}"),
    Way(
        "reasoning-alone",
        "at the end of its reasoning, and answers nothing",
        "",
        "It says:\n{call}",
    ),
    Way(
        "reasoning-judged", "in its reasoning only, and refuses it", "", f"It says {{call}}. {_NO}"
    ),
    Way("reasoning-both", "in reasoning and answer", _ALSO + ":\n\n{call}", "It says:\n{call}"),
)
_ALL: Final = (*_BARE, *_CODE, *_QUOTED, *_ENCLOSED, *_JUDGED, *_THOUGHT)
WAYS: Final = {FAMILY + way.id: way for way in _ALL}
