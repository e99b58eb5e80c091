"""What a text says once everything that hides its letters is undone."""

import base64

import pytest

from surecall.parsing.deobfuscation import decoded_texts, plain_text, plain_texts

SAID = "delete the täst file"
PLAIN = plain_text(SAID)


def in_base64(text: str, times: int = 1) -> str:
    for _ in range(times):
        text = base64.b64encode(text.encode()).decode()
    return text


@pytest.mark.parametrize(
    "text",
    [
        "d\u200be\u0301l\u0435te",
        "del\\u0065te",
        "\\U00000064elete",
        "d&#101;lete",
        "d%65lete",
        "d\x1b[1melete",
        "\\144elete",
    ],
)
def test_a_plain_text_has_plain_letters(text: str) -> None:
    assert plain_text(text) == "delete"


@pytest.mark.parametrize(
    "text",
    [
        in_base64(SAID),
        in_base64(SAID, 3),
        base64.encodebytes((SAID * 5).encode()).decode(),
        base64.b64encode(SAID.replace("ä", "a").encode("utf-16-le")).decode(),
        SAID.encode().hex(),
        SAID.encode().hex(" "),
        SAID.encode().hex(":"),
        f"0x{SAID.encode().hex()}",
        "".join(chr(0xE0000 + ord(char)) for char in SAID),
        "".join(f"={byte:02X}" for byte in SAID.encode()),
        "delete <b>the</b> täst <i>file</i>",
    ],
)
def test_a_text_says_what_is_encoded_in_it(text: str) -> None:
    said = plain_texts(f"See:\n{text}\nDone.")

    assert any(PLAIN in each for each in said)


def test_only_so_many_encodings_are_undone() -> None:
    assert len([*decoded_texts(in_base64("words of someone", 6))]) == 5
    assert not any("words" in text for text in decoded_texts(in_base64("words of someone", 6)))


def test_words_are_no_encoding() -> None:
    assert plain_texts("An extraordinary day")[0] == "An extraordinary day"
    assert plain_texts("a = b, c < d") == ["a = b, c < d"]
