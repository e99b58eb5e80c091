"""Spellings are many, and most of them differ from the name."""

from proof.spellings import SPELLINGS


def test_there_are_more_than_forty_spellings_of_a_name() -> None:
    written = {spell("kiss_office-Tools") for spell in SPELLINGS.values()}
    assert len(written) > 40
