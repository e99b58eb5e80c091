"""How well claims without calls are found: precision and recall, on labeled conversations.

    python -m bench.unsupported_claims

Each claim of `tests/corpus/stops/claims.json`, in ten languages, ends six conversations. It is
unsupported where no call was made, where its call failed, or where another call only read. It is
supported where its call succeeded, in this turn or an earlier one, and where a command ran that may
have done anything. Honest answers claim nothing that is missing. Half of the texts were written
before the detector. The simulator's behaviors are judged by whether their calls succeeded.
"""

import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.false_stops import MAX_DOCSTRINGS, ROOT, docstrings, interval, markdown_texts
from surecall.core.state import Run
from surecall.core.unsupported_claims import unsupported_claims
from surecall.settings.config import ToolCallingConfig
from surecall.values.types import Assistant, Message, ToolCall, ToolResult, ToolSpec, User

CORPUS = ROOT / "tests/corpus/stops"
DOERS: Final = {
    "create": "create_record",
    "send": "send_email",
    "book": "book_table",
    "delete": "delete_file",
    "update": "update_record",
    "cancel": "cancel_order",
    "pay": "make_payment",
}
TOOLS: Final = tuple(
    ToolSpec(name, "", {"type": "object", "properties": {}})
    for name in (*DOERS.values(), "get_status", "run_command")
)
SHOWN = 15


class Case(NamedTuple):
    """An answer at the end of a conversation, and whether it claims what was not done."""

    text: str
    messages: tuple[Message, ...]
    is_unsupported: bool = False


def call(name: str, *, ok: bool = True, data: str = '{"id": 4711}') -> tuple[Message, Message]:
    """Return a call and its result."""
    content = f'{{"ok": {str(ok).lower()}, "data": {data}}}'
    made = ToolCall(f"call_{name}", name)
    return Assistant("", (made,)), ToolResult(made.id, name, ok, content, executed=True)


def cases(corpus: Any, half: str) -> Iterator[Case]:
    """Yield the cases of one half."""
    request = User("Please do it.")
    for language in corpus[half].values():
        for kind, texts in language.items():
            doer = DOERS[kind]
            for text in texts:
                read = call("get_status", data='{"open": true}')
                yield Case(text, (request,), is_unsupported=True)
                yield Case(text, (request, *call(doer, ok=False, data="null")), is_unsupported=True)
                yield Case(text, (request, *read), is_unsupported=True)
                yield Case(text, (request, *read, *call(doer)))
                yield Case(text, (request, *call("run_command")))
                yield Case(text, (request, *call(doer), Assistant("Ok."), User("Sure?")))
    for text in honest_texts(half):
        yield Case(text, (request,))
        yield Case(text, (request, *call("get_status", data='{"open": true}')))


def honest_texts(half: str) -> list[str]:
    """Return answers that claim nothing that is missing."""
    claims = json.loads((CORPUS / "claims.json").read_bytes())
    stops = json.loads((CORPUS / f"{half}.json").read_bytes())
    announced = [text for texts in stops["announcements"].values() for text in texts]
    return [*claims[f"honest_{half}"], *announced]


def found_claims(case: Case) -> tuple[str, ...]:
    """Return the unsupported claims that are found in a case."""
    messages = (*case.messages, Assistant(case.text))
    run = Run("run", "m", ToolCallingConfig(), messages, 0, tools=TOOLS)
    return unsupported_claims(run)


def report(name: str, judged: list[tuple[Case, tuple[str, ...]]]) -> None:
    """Print precision and recall, and what was judged wrong."""
    hits = sum(bool(found) and case.is_unsupported for case, found in judged)
    print(f"{name}, recall     {interval(hits, sum(case.is_unsupported for case, _ in judged))}")
    print(f"{name}, precision  {interval(hits, sum(bool(found) for _, found in judged))}")
    wrong = [(case, found) for case, found in judged if bool(found) is not case.is_unsupported]
    for case, found in wrong[:SHOWN]:
        print(f"    {case.text!r} {found} {len(case.messages)}")


def main() -> None:
    """Print the figures of both halves, and how often descriptions are taken for claims."""
    corpus = json.loads((CORPUS / "claims.json").read_bytes())
    for half in ("tuning", "held_out"):
        judged = [(case, found_claims(case)) for case in cases(corpus, half)]
        print(f"{half}: {len(judged)} conversations")
        report(half, judged)
    packages = Path(sysconfig.get_path("purelib"))
    texts = [
        *markdown_texts(sorted(ROOT.glob("docs/*.md")) + sorted(packages.rglob("*.md"))),
        *list(docstrings(packages))[:MAX_DOCSTRINGS],
    ]
    unique = [Case(text, (User("Explain it."),)) for text in dict.fromkeys(texts)]
    found = [(case, found_claims(case)) for case in unique]
    print(
        f"descriptions, false claims {interval(sum(bool(each) for _, each in found), len(found))}"
    )
    for _, each in [item for item in found if item[1]][:SHOWN]:
        print(f"    {each}")


if __name__ == "__main__":
    main()
