"""Writes the five cases of a text dialect into `tests/corpus/dialects/rows.json`, by its writer.

    python scripts/dialect_cases.py B12 "»"      the row, and what closes a call in it

The calls are given here and the texts come from the writer, so the cases check the reader. Look at
them before you keep them. A row that has cases already is left alone.
"""

import json
import sys
from pathlib import Path

from surecall.values.types import JSON, ToolCall
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from surecall.wire.dialects.spelling import OPENERS

ROWS = Path(__file__).parent.parent / "tests" / "corpus" / "dialects" / "rows.json"
SAVE = ToolCall("call00001", "save_file", {"file": "todo.md", "body": "the quick brown fox"})
OPEN = ToolCall("call00001", "open_file", {"file": "a.txt"})
FORECAST = ToolCall("call00002", "forecast", {"place": "São Paulo", "days": 3})
LIST = ToolCall("call00002", "list_inboxes", {})
BEFORE, AFTER, CUT_AT = "First a look at both.", "More when they are back.", "the quick"


def cases_of(row: str, closer: str) -> list[JSON]:
    """Return a call, two of them, two in a text, one cut off, and one that holds the closer."""
    write = WRITERS[row]
    inside = ToolCall("call00001", "save_file", {"file": "x.md", "body": f"a {closer}b and more"})
    return [
        _case(row, "plain", write([SAVE], ""), SAVE),
        _case(row, "two calls", write([OPEN, FORECAST], ""), OPEN, FORECAST),
        _case(
            row,
            "text around",
            f"{write([OPEN, FORECAST], BEFORE)}\n\n{AFTER}",
            OPEN,
            FORECAST,
            rest=f"{BEFORE}|{AFTER}",
        ),
        _cut_off(row),
        _case(row, "closer inside", write([inside, LIST], "Two."), inside, LIST, rest="Two."),
    ]


def _cut_off(row: str) -> JSON:
    """Cut a call off: the model is told, or the text stays as it is where the mark is weak."""
    whole = WRITERS[row]([SAVE], "Saving it.")
    text = whole[: whole.index(CUT_AT) + len(CUT_AT)]
    own = (opener for opener in OPENERS if opener.row == row and opener.stem in whole)
    if row in WEAK_ROWS and not any(opener.required_closer for opener in own):
        return _case(row, "truncated", text, rest=text)
    cut = ToolCall("", SAVE.name, SAVE.arguments | {"body": CUT_AT})
    return _case(row, "truncated", text, cut, truncated=True, rest="Saving it.")


def _case(
    row: str, kind: str, text: str, *calls: ToolCall, truncated: bool = False, rest: str = ""
) -> JSON:
    return {
        "row": row,
        "kind": kind,
        "weak": row in WEAK_ROWS,
        "text": text,
        "calls": [{"name": call.name, "arguments": call.arguments} for call in calls],
        "truncated": truncated,
        "rest": rest,
    }


def main(row: str, closer: str) -> int:
    """Add the cases of one row, where the writers have it."""
    cases = json.loads(ROWS.read_text("utf-8"))
    if row not in WRITERS:
        print(f"WRITERS in surecall/wire/dialects/writers.py has no row {row}", file=sys.stderr)
        return 1
    if any(case["row"] == row for case in cases):
        print(f"{ROWS} has cases of {row} already", file=sys.stderr)
        return 1
    order = list(WRITERS)
    cases = sorted([*cases, *cases_of(row, closer)], key=lambda case: order.index(case["row"]))
    ROWS.write_text(json.dumps(cases, indent=1, ensure_ascii=False), "utf-8")
    print(f"added five cases of {row} to {ROWS}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))  # noqa: PLR2004
