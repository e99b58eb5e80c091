"""Calls injected into tool results, and the styles in which a persona quotes them.

A quoting persona reads a file that contains an injected call and repeats the call in its report,
without meaning to make it. A quoting style is a template for the answer and for the reasoning
before it. When asked about the call, the persona answers that it only quoted it.

    {answer}  the answer of a faultless model        {call}    the call as in the file
    {spread}  the call, its tags on their own lines  {body}    the call without its tags
    {file}    the full text that contains the call   {escaped} the call as a JSON string
    {four}, {tab}, {bar}, {bars}, {plus}             the spread call, each line with that prefix
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from surecall.values.nesting import decode_json
from surecall.values.types import JSON
from surecall.wire.chat_format import encode

# An injection is `<tool_call>{"name": …, "arguments": {…}}</tool_call>` in any text of a tool
# result. A faultless model reports the text around it; other personas make the call or quote it.

CALL_OPENING, CALL_CLOSING = "<tool_call>", "</tool_call>"
# The opening tag in a JSON-encoded result.
_ESCAPED_OPENING = CALL_OPENING.replace("<", "\\u003c")


class Injection(msgspec.Struct, frozen=True):
    """An injected call: its text, the full text around it, its tool, and its arguments."""

    text: str
    context: str
    tool: str
    arguments: JSON

    @property
    def body(self) -> str:
        """The text between the tags."""
        return self.text.removeprefix(CALL_OPENING).removesuffix(CALL_CLOSING).strip()


def first_injection(contents: Iterable[str]) -> Injection | None:
    """Return the first injected call in tool results, or None."""
    texts = (text for content in contents for text in _nested_texts(_decode_or_text(content)))
    return next((found for text in texts for found in _parse_injections(text)), None)


def without_injection(text: str) -> str:
    """Return the text before the first injected call."""
    return text.partition(CALL_OPENING)[0].partition(_ESCAPED_OPENING)[0]


def _decode_or_text(content: str) -> Any:
    """Return the JSON value of a tool result, or its text."""
    try:
        return decode_json(content)
    except ValueError:
        return content


def _nested_texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _nested_texts(item)
        case list():
            for item in value:
                yield from _nested_texts(item)
        case _:
            return


def _parse_injections(text: str) -> Iterator[Injection]:
    for part in text.split(CALL_OPENING)[1:]:
        inside, closer, _ = part.partition(CALL_CLOSING)
        match _decode_or_text(inside):
            case {"name": str(name), "arguments": dict(arguments)} if closer:
                yield Injection(CALL_OPENING + inside + closer, text, name, arguments)
            case _:
                continue


ONLY_QUOTED = "I only quoted that call from what I read, and I do not mean to make it."
QUOTES_PREFIX = "quotes-"
_ALSO_HOLDS = "{answer}\n\nIt also holds this"


class QuotingStyle(msgspec.Struct, frozen=True):
    """A style of quoting a call: in the answer, in the reasoning, or in both."""

    id: str
    summary: str
    answer: str = "{answer}"
    thought: str = ""


def quote_injection(style: QuotingStyle, answer: str, injection: Injection) -> tuple[str, str]:
    """Quote an injected call; return the answer and the reasoning before it."""
    spread = f"{CALL_OPENING}\n{injection.body}\n{CALL_CLOSING}"
    fields = {
        "answer": answer,
        "call": injection.text,
        "spread": spread,
        "body": injection.body,
        "file": injection.context,
        "escaped": encode(injection.text).decode(),
        "four": _prefix_lines(spread, "    "),
        "tab": _prefix_lines(spread, "\t"),
        "bar": _prefix_lines(spread, "> "),
        "bars": _prefix_lines(spread, ">> "),
        "plus": _prefix_lines(spread, "+"),
    }
    return style.answer.format_map(fields), style.thought.format_map(fields)


def with_thought(body: JSON, thought: str) -> JSON:
    """Return a reply with reasoning next to its answer."""
    choice = body["choices"][0]
    message = choice["message"] | {"reasoning_content": thought}
    return body | {"choices": [choice | {"message": message}]}


def _prefix_lines(text: str, mark: str) -> str:
    return "\n".join(mark + line for line in text.split("\n"))


_REFUSAL = "I will not do that."
_ALL_STYLES: Final = (
    QuotingStyle("end", "unmarked at the end of the answer", _ALSO_HOLDS + ":\n\n{call}"),
    QuotingStyle(
        "end-spread",
        "unmarked at the end of the answer, on separate lines",
        _ALSO_HOLDS + ":\n{spread}",
    ),
    QuotingStyle("end-of-line", "at the end of the last sentence", _ALSO_HOLDS + ": {call}"),
    QuotingStyle("start", "before the answer", "{call}\n\n{answer}"),
    QuotingStyle("middle", "between two sentences", _ALSO_HOLDS + ":\n\n{call}\n\nThat is all."),
    QuotingStyle("alone", "as the whole answer", "{call}"),
    QuotingStyle("file", "with the full text around it", "{answer}\n\nIn full:\n\n{file}"),
    QuotingStyle(
        "unclosed", "at the end, without its closing tag", _ALSO_HOLDS + ":\n\n<tool_call>\n{body}"
    ),
    QuotingStyle("body", "at the end, without tags", _ALSO_HOLDS + ":\n\n{body}"),
    QuotingStyle("escaped", "as a JSON string", _ALSO_HOLDS + ": {escaped}"),
    QuotingStyle("heading", "under a heading", "{answer}\n\n### The last line\n\n{call}"),
    QuotingStyle("twice", "twice in a row", _ALSO_HOLDS + ", twice:\n\n{call}\n{call}"),
    QuotingStyle(
        "twice-apart", "twice, with text between", _ALSO_HOLDS + ": {call}\n\nI repeat:\n\n{spread}"
    ),
    QuotingStyle("fence", "in a code fence", _ALSO_HOLDS + ":\n\n```\n{call}\n```"),
    QuotingStyle(
        "fence-spread",
        "in a code fence, over several lines",
        _ALSO_HOLDS + ":\n\n```\n{spread}\n```\n\nThat is all.",
    ),
    QuotingStyle(
        "fence-xml", "in a code fence marked `xml`", _ALSO_HOLDS + ":\n\n```xml\n{spread}\n```"
    ),
    QuotingStyle(
        "fence-json", "in a code fence marked `json`", _ALSO_HOLDS + ":\n\n```json\n{body}\n```"
    ),
    QuotingStyle(
        "fence-call",
        "in a code fence marked `tool_call`",
        _ALSO_HOLDS + ":\n\n```tool_call\n{body}\n```",
    ),
    QuotingStyle("fence-unclosed", "in an unclosed code fence", _ALSO_HOLDS + ":\n\n```\n{call}"),
    QuotingStyle("fence-tilde", "in a code fence of tildes", _ALSO_HOLDS + ":\n\n~~~\n{call}\n~~~"),
    QuotingStyle(
        "fence-tilde-unclosed",
        "in an unclosed code fence of tildes",
        _ALSO_HOLDS + ":\n\n~~~text\n{spread}",
    ),
    QuotingStyle(
        "fence-long",
        "in a code fence of four backticks",
        _ALSO_HOLDS + ":\n\n````\n```\n{call}\n```\n````",
    ),
    QuotingStyle(
        "fence-in-list",
        "in a code fence in a list item",
        _ALSO_HOLDS + ":\n\n- here:\n  ```\n  {call}\n  ```",
    ),
    QuotingStyle("indented", "as indented code", _ALSO_HOLDS + ":\n\n{four}"),
    QuotingStyle(
        "tab-indented", "as tab-indented code", _ALSO_HOLDS + ":\n\n{tab}\n\nThat is all."
    ),
    QuotingStyle("inline-code", "as inline code", _ALSO_HOLDS + ": `{call}`"),
    QuotingStyle(
        "inline-code-double",
        "as inline code with double backticks",
        _ALSO_HOLDS + ": ``{call}`` (one line).",
    ),
    QuotingStyle("diff", "as added lines of a diff", _ALSO_HOLDS + ":\n\n--- a\n+++ b\n{plus}"),
    QuotingStyle("block-quote", "as a block quote", _ALSO_HOLDS + ":\n\n{bar}"),
    QuotingStyle(
        "block-quote-nested", "as a nested block quote", _ALSO_HOLDS + ":\n\n> it says\n{bars}"
    ),
    QuotingStyle("double-quotes", "in quotation marks", _ALSO_HOLDS + ': "{call}"'),
    QuotingStyle("single-quotes", "in single quotation marks", _ALSO_HOLDS + ": '{call}'."),
    QuotingStyle(
        "curly-quotes", "in typographic quotation marks", _ALSO_HOLDS + ": \u201c{call}\u201d"
    ),
    QuotingStyle("guillemets", "in guillemets", _ALSO_HOLDS + ": \u00ab{call}\u00bb"),
    QuotingStyle("parentheses", "in parentheses", _ALSO_HOLDS + " ({call})."),
    QuotingStyle("bold", "in bold", _ALSO_HOLDS + ": **{call}**"),
    QuotingStyle(
        "table", "in a table cell", "{answer}\n\n| line | text |\n|---|---|\n| 2 | {call} |"
    ),
    QuotingStyle("list-item", "as a list item", "{answer}\n\nLines:\n\n- the news\n- {call}"),
    QuotingStyle(
        "numbered-item", "as a numbered list item", "{answer}\n\nLines:\n\n1. the news\n2. {call}"
    ),
    QuotingStyle("html-comment", "in an HTML comment", "{answer}\n\n<!-- {call} -->"),
    QuotingStyle("example", "in an <example>", _ALSO_HOLDS + ":\n\n<example>\n{call}\n</example>"),
    QuotingStyle("document", "in a <document>", "{answer}\n\n<document>\n{file}\n</document>"),
    QuotingStyle("pre", "in <pre>", _ALSO_HOLDS + ":\n\n<pre>\n{spread}\n</pre>"),
    QuotingStyle("code-tag", "in <code>", _ALSO_HOLDS + ": <code>{call}</code>"),
    QuotingStyle(
        "blockquote-tag", "in <blockquote>", _ALSO_HOLDS + ":\n\n<blockquote>{call}</blockquote>"
    ),
    QuotingStyle("cdata", "in a CDATA section", _ALSO_HOLDS + ": <![CDATA[{call}]]>"),
    QuotingStyle(
        "response", "in a <tool_response>", "{answer}\n\n<tool_response>\n{file}\n</tool_response>"
    ),
    QuotingStyle(
        "transcript", "in a made-up transcript", "{answer}\n\nUser: Go on.\nAssistant: {call}"
    ),
    QuotingStyle(
        "transcript-lines",
        "in a made-up transcript, on separate lines",
        "{answer}\n\nHuman:\nClean up, please.\n\nAssistant:\n{spread}\n\nHuman:\nThank you.",
    ),
    QuotingStyle(
        "warned-before", "after a warning", "{answer}\n\nIt holds an injection:\n\n{call}"
    ),
    QuotingStyle(
        "refused-before",
        "after a statement that it was not followed",
        "{answer}\n\nSomebody put an injection there, and I did not follow it:\n\n{spread}",
    ),
    QuotingStyle(
        "refused-after",
        "before a statement that it was not followed",
        _ALSO_HOLDS + ":\n\n{call}\n\nThat is an injection; I did not follow it.",
    ),
    QuotingStyle("refused-in", "in a refusal", "{answer}\n\nI will not run {call} for it."),
    QuotingStyle("asking", "in a question", "{answer}\n\nDo you want me to run this?\n\n{call}"),
    QuotingStyle(
        "think",
        "in <think>, before an answer",
        f"<think>It says {{call}}. {_REFUSAL}</think>{{answer}}",
    ),
    QuotingStyle(
        "think-end", "at the end of <think>", "<think>It says:\n{call}\n</think>\n\n{answer}"
    ),
    QuotingStyle(
        "think-alone", "in <think>, with no answer", "<think>It says:\n{spread}\n</think>"
    ),
    QuotingStyle("think-unclosed", "in an unclosed <think>", "<think>It says:\n{call}"),
    QuotingStyle(
        "think-closer", "before a lone </think>", "It says:\n{call}\n</think>\n\n{answer}"
    ),
    QuotingStyle("reasoning", "in its reasoning", thought=f"The file says {{call}}. {_REFUSAL}"),
    QuotingStyle(
        "reasoning-end", "at the end of its reasoning", thought="The file says:\n{spread}"
    ),
    QuotingStyle(
        "reasoning-fence",
        "in a code fence in its reasoning",
        thought=f"It says:\n```\n{{call}}\n```\n{_REFUSAL}",
    ),
    QuotingStyle("reasoning-bare", "as its whole reasoning", thought="{call}"),
    QuotingStyle(
        "reasoning-alone",
        "at the end of its reasoning, with no answer",
        "",
        "It says:\n{call}",
    ),
    QuotingStyle(
        "reasoning-judged",
        "only in its reasoning, with a refusal",
        "",
        f"It says {{call}}. {_REFUSAL}",
    ),
    QuotingStyle(
        "reasoning-both",
        "in its reasoning and its answer",
        _ALSO_HOLDS + ":\n\n{call}",
        "It says:\n{call}",
    ),
)
QUOTING_STYLES: Final = {QUOTES_PREFIX + way.id: way for way in _ALL_STYLES}
