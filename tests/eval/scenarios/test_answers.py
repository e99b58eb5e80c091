"""Whether an answer is a no is told by its words; a remark about what was left alone is none."""

import pytest

from surecall.eval.scenarios.answers import mentions, says_no


@pytest.mark.parametrize(
    "text",
    [
        "No, the gateway is offline.",
        "Sorry: the course is full.",
        "I could not print the label.",
        "I couldn\u2019t print it.",
        "The label  cannot\nbe printed.",
        "There is no booking on 12 May.",
        "Printing FAILED.",
        "I am unable to do that.",
    ],
)
def test_a_no_is_heard_in_many_words(text: str) -> None:
    assert says_no(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Done.",
        "The parcel goes to Market Square now. Nothing else was changed.",
        "Node 4 was restarted.",
        "Your note was saved.",
        "I did not touch the other parcel.",
        "No problem! The parcel goes to Market Square.",
        "It is sent. There is no need to do anything else.",
    ],
)
def test_an_account_of_the_work_is_no_no(text: str) -> None:
    assert not says_no(text)


def test_words_are_found_whatever_the_case_and_the_blanks() -> None:
    assert mentions("It is Out  of\nService.", ["broken", "out of service"])
    assert not mentions("It works.", ["broken", "out of service"])
