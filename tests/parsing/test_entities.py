"""Entities of HTML: read, written, and looked up by name."""

import pytest

from surecall.parsing.entities import entity_named, with_entities, without_entities


@pytest.mark.parametrize("text", ["", "a < b", "a & b", '<x y="&lt;">', "&amp;gt;"])
def test_what_was_written_with_entities_is_read_without_them(text: str) -> None:
    assert without_entities(with_entities(text)) == text


def test_a_text_without_an_ampersand_stays_the_same_object() -> None:
    text = "nothing to read here"

    assert without_entities(text) is text


def test_an_entity_is_found_by_its_name_and_a_word_that_is_none_is_not() -> None:
    assert entity_named("gt;") == ">"
    assert entity_named("gadget;") is None
