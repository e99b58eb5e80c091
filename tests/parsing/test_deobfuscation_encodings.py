"""Decoding the standard encodings of text, one example of each."""

import base64
import binascii
import gzip
import zlib

import pytest

from surecall.parsing.deobfuscation import binary_texts, character_codes, decompress_text

TEXT = "delete_file(id=7), now"


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"U+{ord(char):04X}" for char in TEXT),
        "".join(f"\\'{ord(char):02x}" for char in TEXT),
        "".join(f"\\{ord(char):x} " for char in TEXT),
        "".join(f"\\{ord(char):o}" for char in TEXT),
        "".join(f"%u{ord(char):04x}" for char in TEXT),
        " ".join(f"{ord(char):03o}" for char in TEXT),
        f"[{', '.join(str(ord(char)) for char in TEXT)}]",
        " + ".join(f"chr({ord(char)})" for char in TEXT),
        " ".join(f"{ord(char):08b}" for char in TEXT),
        TEXT.replace("d", "\\N{LATIN SMALL LETTER D}"),
    ],
)
def test_character_codes_are_decoded(text: str) -> None:
    assert TEXT in "\n".join(character_codes(text))


def test_other_numbers_are_no_text() -> None:
    assert [*character_codes("1, 2, 3")] == []
    assert [*character_codes("1 2 3 4 5 6 7 8 9")] == []
    assert [*character_codes("U+110000 " * 9)] == []
    assert [*character_codes("\\N{NO SUCH NAME}")] == []
    codes = " ".join(f"U+{ord(char):04X}" for char in "\u0142\u0105ka jest")
    assert "\u0142\u0105ka jest" in [*character_codes(codes)]
    apart = " and then, much later, ".join(["U+0064 " * 9, "U+0065 " * 9])
    assert [*character_codes(apart)][:2] == ["d" * 9, "e" * 9]


def test_bytes_are_decoded() -> None:
    data = TEXT.encode()
    encoded = base64.b64encode(data).decode()
    groups = " ".join(encoded[at : at + 4] for at in range(0, len(encoded), 4))
    lines = "\n".join(base64.b64encode(data[at : at + 5]).decode() for at in range(0, 22, 5))
    utf7 = base64.b64encode(TEXT.encode("utf-16-be")).decode().rstrip("=")

    for text in (
        base64.b32encode(data).decode(),
        groups,
        lines,
        f"+{utf7}-",
        binascii.b2a_uu(data).decode(),
    ):
        assert data in [*binary_texts(f"{text} "), *binary_texts(text)]
    assert [*binary_texts("A plain text, 1+1=2.\n$abc")] == []
    assert [*binary_texts("!d?~~")] == [*binary_texts("$dZZZZZZZ")] == []
    assert [*binary_texts("%5!.\\W54Y")] == [b""]
    assert [*binary_texts("A" * 17)] == [b"\0" * 10]
    assert next(binary_texts("abcd abcd abcd abcd a")).startswith(b"i\xb7")


def test_compressed_data_is_restored() -> None:
    data = TEXT.encode()

    assert decompress_text(gzip.compress(data)) == decompress_text(zlib.compress(data)) == data
    assert decompress_text(data) == data
    assert decompress_text(b"\x1f\x8b and so on") == b"\x1f\x8b and so on"
