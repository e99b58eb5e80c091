# ruff: noqa: RUF001 (the wide bars and quotation marks are what models write)
"""Ways in which a model shows a call that it does not make: as code, quotation, example, thought.

A way takes the text of a call and gives the message of a reply. Most are visibly a quotation, so
that nothing of it may run in any conversation. A `bare` one only has the call at the end of what is
said, as a model has that calls in text: there the conversation tells, by what was called before or
by whose words these are.
"""

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from surecall.values.types import JSON

Wrap = Callable[[str], JSON]


class Way(NamedTuple):
    """One way of showing a call: its name, what it makes of a call, and whether it is bare."""

    name: str
    message: Wrap
    bare: bool = False


def said(template: str) -> Wrap:
    """Say a text, with the call where the template has its name."""
    return lambda call: {"content": template.replace("CALL", call)}


def lines(before: str, lead: str, after: str = "") -> Wrap:
    """Say a text in which each line of the call begins alike."""

    def message(call: str) -> JSON:
        led = "\n".join(lead + line for line in call.split("\n"))
        return {"content": f"{before}{led}{after}"}

    return message


def on_one_line(template: str) -> Wrap:
    """Say a text with the lines of the call joined, for places that have no room for more."""
    return lambda call: {"content": template.replace("CALL", " ".join(call.split("\n")))}


def escaped(template: str) -> Wrap:
    """Say a text with the call as the inside of a JSON string."""
    return lambda call: {
        "content": template.replace("CALL", json.dumps(call, ensure_ascii=False)[1:-1])
    }


def thought(template: str, answer: str | None, field: str = "reasoning_content") -> Wrap:
    """Think a text apart from the answer."""
    return lambda call: {"content": answer, field: template.replace("CALL", call)}


CODE: Final = (
    Way("fence", said("The page has this block:\n\n```\nCALL\n```")),
    Way("fence, words after", said("Like so:\n```\nCALL\n```\nThat is all.")),
    Way("fence, never closed", said("The page has this block:\n\n```\nCALL")),
    Way("fence, waves", said("Like so:\n\n~~~\nCALL\n~~~\n")),
    Way("fence, four ticks", said("Like so:\n\n````\nCALL\n````\n")),
    Way("fence, json", said("This was in the log:\n\n```json\nCALL\n```")),
    Way("fence, xml", said("This was in the log:\n\n```xml\nCALL\n```")),
    Way("fence, tool_call", said("An injected block:\n\n```tool_call\nCALL\n```\n")),
    Way("fence in a list", lines("1. See:\n\n   ```\n", "   ", "\n   ```\n")),
    Way("indented code", lines("The file has these lines:\n\n", "    ")),
    Way("indented code, words after", lines("It says:\n\n", "    ", "\n\nI ignored it.")),
    Way("tab-indented code", lines("The file has these lines:\n\n", "\t", "\n")),
    Way("inline code", on_one_line("The page has `CALL` in it.")),
    Way("inline code at the end", on_one_line("The page tells me to say `CALL`")),
    Way("inline code, double", on_one_line("The page has `` CALL `` in it.")),
    Way("pre and code", said("<pre><code>\nCALL\n</code></pre>")),
)
QUOTATION: Final = (
    Way("block quote", lines("The mail says:\n\n", "> ")),
    Way("block quote, words after", lines("The mail says:\n", "> ", "\n\nI did nothing.")),
    Way("block quote, nested", lines("They wrote:\n\n", "> > ")),
    Way("mail", lines("On Monday, Eve wrote:\n> Hi,\n", "> ", "\n> Bye\n\nShall I reply?")),
    Way("quotation marks", said('The page says "CALL" in small print.')),
    Way("quotation marks at the end", said('The page says: "CALL"')),
    Way("single quotation marks", said("The page says 'CALL'.")),
    Way("curly quotation marks", said("The page says “CALL”.")),
    Way("curly single quotation marks", said("The page says ‘CALL’.")),
    Way("German quotation marks", said("Auf der Seite steht „CALL“.")),
    Way("French quotation marks", said("La page dit « CALL ».")),
    Way("tight French quotation marks", said("La page dit «CALL».")),
    Way("Japanese quotation marks", said("ページには「CALL」とあります。")),
    Way("two quoted calls", said("It says “CALL” and then “CALL”.")),
    Way("parentheses", said("The page asks for something (CALL) that I left alone.")),
    Way("parentheses at the end", said("I left the last line alone (CALL)")),
    Way("strikethrough", said("The first draft was ~~CALL~~ nothing.")),
    Way("strikethrough at the end", said("The first draft: ~~CALL~~")),
)
MARKUP: Final = (
    Way("table cell", on_one_line("| row | text |\n|---|---|\n| 1 | CALL |\n| 2 | none |")),
    Way("last table cell", on_one_line("| row | text |\n|---|---|\n| 1 | CALL |")),
    Way("list of what there is", said("The page has:\n- a link\n- CALL\n- a picture")),
    Way("list, last item", said("The page has:\n- a link\n- CALL")),
    Way("list with stars", said("Examples:\n* CALL\n* say nothing")),
    Way("numbered list", said("Two options:\n1. CALL\n2. do nothing\n\nWhich one?")),
    Way("list that describes", said("- `note`: writes, as in CALL\n- `look`: reads")),
    Way("HTML comment", said("Done.\n<!-- CALL -->")),
    Way("HTML comment on lines", said("<!--\nCALL\n-->\nDone.")),
    Way("example element", said("This is how:\n<example>\nCALL\n</example>")),
    Way("examples element", said("<examples><example>CALL</example></examples>")),
    Way("blockquote element", said("<blockquote>\nCALL\n</blockquote>")),
    Way("details element", said("<details><summary>Log</summary>\n\nCALL\n\n</details>")),
    Way("document element", said('<document source="mail">\nCALL\n</document>')),
    Way("markdown link", on_one_line("See [CALL](https://example.org).")),
    Way("heading", said("## How to call\n\nCALL\n\nThat is how it is done.")),
    Way("in a heading", on_one_line("## CALL\n\nis what the page begins with.")),
    Way("footnote", on_one_line("As it says.[^1]\n\n[^1]: CALL\n\nNothing else is there.")),
    Way("JSON string", escaped('{"answer": "The page says CALL"}')),
    Way("JSON string in words", escaped('The body was {"text": "CALL", "n": 1} and no more.')),
    Way("YAML value", on_one_line("The file:\n\ntitle: x\nbody: CALL\nend: true")),
    Way("log line", on_one_line("12:00:01 INFO got CALL\n12:00:02 INFO closed")),
    Way("diff", lines("@@ -1,2 +1,3 @@\n", "+", "\n the old line\n")),
)
SENTENCES: Final = (
    Way("file says, words after", said("The file says: CALL and nothing else of interest.")),
    Way("not followed", said("CALL — that is an injection, I did not follow it.")),
    Way("not run", said("I will not run CALL.")),
    Way("words around", said("The line CALL is in the file.")),
    Way("words on the next line", said("The file has\nCALL\nand then it ends.")),
    Way("words in the next paragraph", said("I found this:\n\nCALL\n\nIt looks like an attack.")),
    Way("question after it", said("CALL\n\nShould I run it?")),
    Way("question in front and after", said("Did you mean CALL? Please tell me.")),
    Way("for example, words after", said("For example: CALL would write a note.")),
    Way("rejected draft", said("No wait, not CALL but nothing.")),
    Way("rejected draft on lines", said("CALL\n\nNo wait, that is wrong. The answer is 4.")),
    Way("twice, words after", said("CALL\nCALL\nBoth are in the file.")),
    Way("file says", said("The file says: CALL"), bare=True),
    Way("file says, on a line", said("The last line of the file is:\nCALL"), bare=True),
    Way("for example", said("For example:\n\nCALL"), bare=True),
    Way("negation before", said("Never say CALL"), bare=True),
    Way("nothing else", said("CALL"), bare=True),
    Way("after an answer", said("The answer is 4.\n\nCALL"), bare=True),
    Way("footnote at the end", said("As it says.[^1]\n\n[^1]: CALL"), bare=True),
)
TRANSCRIPTS: Final = (
    Way("transcript", said("User: write it down\nAssistant: CALL")),
    Way("transcript that goes on", said("User: do it\nAssistant: CALL\nUser: thanks")),
    Way("transcript, Human and AI", said("Human: write it down\n\nAI: CALL")),
    Way("transcript in bold", said("**User:** do it\n\n**Assistant:** CALL\n\n**User:** thanks")),
    Way("transcript in tags", said("<user>do it</user>\n<assistant>CALL</assistant>")),
    Way("transcript of a tool", said("Tool: done\nAssistant: CALL\nTool: ok\nUser: thanks")),
)
THOUGHTS: Final = (
    Way("thought, words after", said("<think>I could say CALL but no.</think>The answer is 4.")),
    Way("thought, at its end", said("<think>The page wants CALL</think>\nThe answer is 4.")),
    Way("thought without opener", said("I could say\nCALL\nbut no.\n</think>\nThe answer is 4.")),
    Way("thought of an injection", said("<think>CALL\nThat is an injection.</think>\n")),
    Way("thinking", said("<thinking>\nCALL\n</thinking>\n\nThe answer is 4.")),
    Way("thought apart", thought("It says CALL, which I ignore.", "The answer is 4.")),
    Way("thought apart, at its end", thought("It says:\nCALL", "The answer is 4.")),
    Way("thought apart, empty answer", thought("CALL\nThat is an injection.", "")),
    Way("thought apart, no answer", thought("CALL is what the page wants. No.", None)),
    Way("thought apart, fence", thought("It says:\n```\nCALL\n```\nI ignore it.", "")),
    Way("reasoning", thought("It says CALL, which I ignore.", "The answer is 4.", "reasoning")),
    Way("reasoning, empty answer", thought("CALL\nNo, wait.", "", "reasoning")),
    Way("injection, then the end", thought("An injection: CALL", ""), bare=True),
    Way("end of a thought", said("<think>It says:\nCALL</think>"), bare=True),
)
WAYS: Final = {
    way.name: way for way in (*CODE, *QUOTATION, *MARKUP, *SENTENCES, *TRANSCRIPTS, *THOUGHTS)
}
