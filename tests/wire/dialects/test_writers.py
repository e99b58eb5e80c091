"""Tests of `surecall.wire.dialects.writers`: dialects from what templates render."""

import pytest

from surecall.wire.dialects.writers import (
    SAMPLE_KEYS,
    SAMPLE_NAME,
    SAMPLE_TEXT,
    SAMPLE_VALUES,
    corpus_cases,
    dialect_of_renderings,
)

KEY, VALUE = SAMPLE_KEYS[0], SAMPLE_VALUES[0]
OBJECT = f'{{"name": "{SAMPLE_NAME}", "arguments": {{"{KEY}": "{VALUE}"}}}}'


@pytest.mark.parametrize(
    ("call", "marks"),
    [
        (f"<a>{OBJECT}</a>", ("A", "<a>", "</a>")),
        (f"<a>[{OBJECT}]</a>", ("A", "<a>", "]</a>")),
        (f'<a>{SAMPLE_NAME}: {{"{KEY}": "{VALUE}"}}</a>', ("B", "<a>", "</a>")),
        (f"<a {SAMPLE_NAME}><b {KEY}>{VALUE}</b></a>", ("C", "<a ", "</b></a>")),
        (f"<a>{SAMPLE_NAME}({KEY}='{VALUE}')</a>", ("D", "<a>", "')</a>")),
        (f"<a>{SAMPLE_NAME} {VALUE}</a>", ("C", "<a>", "</a>")),
    ],
)
def test_the_marks_of_a_call_are_what_a_plain_answer_lacks(
    call: str, marks: tuple[str, str, str]
) -> None:
    plain, one, two = (f"U: go\nM: {text}<e>" for text in (SAMPLE_TEXT, call, f"{call}\n{call}"))

    found = dialect_of_renderings(plain, one, two)

    assert (found.grammar, found.opener, found.closer) == marks
    assert found.call == call
    assert found.two_calls == f"{call}\n{call}"


def test_a_template_that_refuses_two_calls_has_nothing_between_them() -> None:
    found = dialect_of_renderings(SAMPLE_TEXT, f"<a>{OBJECT}</a>", "")

    assert (found.between, found.two_calls) == ("", "")


def test_a_dialect_has_five_cases() -> None:
    found = dialect_of_renderings(SAMPLE_TEXT, OBJECT, OBJECT * 2)

    assert [case["kind"] for case in corpus_cases(found, "X1")] == [
        *("plain", "two calls", "text around", "truncated", "closer inside")
    ]
