"""The lexer of almost-JSON: where blanks end, and which marks a quoted text has."""

import pytest

from surecall.parsing.lenient_lexer import QuoteScanner, end_of_blanks


@pytest.mark.parametrize(
    ("text", "end"),
    [("", 0), ("a", 0), (" \t\r\na", 4), ("\\n \\t\\ra", 7), ("\\x", 0), (" \\", 1), ("  ", 2)],
)
def test_blanks_may_be_escaped_and_end_before_anything_else(text: str, end: int) -> None:
    assert end_of_blanks(text, 0) == end


def marks(text: str, quote: str = '"') -> list[int]:
    """Return every mark, passing over each backslash with what it escapes."""
    quoted, found = QuoteScanner(text, 0, quote), []
    while (mark := quoted.next_mark()) >= 0:
        found.append(mark)
        quoted.at = mark + (2 if text[mark] == "\\" else 1)
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain", []),
        ('ab"', [2]),
        (r'a\n"', [1, 3]),
        (r"\n", []),
        (r'a\"b"c', [1, 4]),
        ('a"b"', [1, 3]),
        (r'a" \n', [1]),
        (r'\\"', [0, 2]),
    ],
)
def test_the_marks_of_a_text_are_its_quotes_and_the_backslashes_before_them(
    text: str, found: list[int]
) -> None:
    assert marks(text) == found
    assert marks(text.replace('"', "'"), "'") == found
