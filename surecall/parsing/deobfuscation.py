"""Deobfuscates text: removes or decodes everything that hides its letters.

    escapes, entities, percent-encoding    decoded layer by layer
    accents, look-alike letters            replaced by plain letters
    invisible characters                   removed, and decoded where they spell a hidden text
    tags, quoted-printable                 removed; decoded
    base32, base64, uuencode, UTF-7        decoded, including nested and compressed ones
    hexadecimal digits                     likewise
    character codes, and their names       decoded, with any marks: `chr(100)`, `U+0064`

A text has one plain text, and further ones if it has any of the last five. Ciphers that are no
standard encodings, such as rot13, are out of scope. Takes linear time.
"""

import binascii
import re
import unicodedata
import zlib
from base64 import b32decode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from surecall.values.text import unescape_html

_MAX_LAYERS: Final = 8
_MAX_ENCODINGS: Final = 5
_ESCAPES: Final = re.compile(
    r"(?i)(?<!\\)\\++(?:u\{([0-9a-f]{1,5})\}|(?-i:U)(000[0-9a-f]{5})|u([0-9a-f]{4})|x([0-9a-f]{2})"
    r"|([0-7]{3})|[nrt])"
)
# Quoted-printable, as in mail.
_QUOTED_PRINTABLE: Final = re.compile(r"=(?:\r?\n|([0-9A-Fa-f]{2}))")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_PERCENT: Final = re.compile(r"%[0-9a-fA-F]{2}")
# Accents and invisible characters (Default_Ignorable_Code_Point in Unicode).
_INVISIBLE: Final = re.compile(
    "[\xad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]+"
)
# Tag characters spell an invisible text.
_TAG_BASE: Final = 0xE0000
_TAG_CHARACTERS: Final = re.compile("[\U000e0020-\U000e00ff]+")
# Text that is shown from right to left.
_BACKWARDS: Final = re.compile("\u202e([^\u202c]*)\u202c?")
# Variation selectors may spell the bytes of a text.
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}")
# Colors, and links of terminals.
_ANSI_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)")
# Letters written over each other, as manual pages do for bold ones; also escaped.
_OVERSTRUCK: Final = re.compile(r"[^\x08\n]\x08|(?:_|([^\\\n]))\\b(?=\1)")
# Letters of other alphabets that look like Latin ones.
_LOOKALIKES: Final = str.maketrans(
    "аеорсухіјѕԁһԛԝвкмтαικνορτυχ"  # Cyrillic and Greek
    "օսհոցզӏյԍցքɑɡıłđøħƒʋ"  # Armenian and Latin
    "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"  # small capitals
    "ᎪᏴᏟᎠᎬᏀᎻᏆᎫᏦᏞᎷᏢᏒᏚᎢᏙᏔᏃ",  # Cherokee
    "aeopcyxijsdhqwbkmtaikvoptuxouhngqljggpagildohfuabcdefghijklmnoprstuvwyzabcdeghijklmprstvwz",
)
# Letters in squares, circles, and flags, with the code of their first one.
_BOXED: Final = {
    chr(first + at): chr(ord("a") + at) for first in (0x1F150, 0x1F170, 0x1F1E6) for at in range(26)
}
# Upper case as well; the rest of a text keeps its case, which base64 needs.
_LATIN: Final[dict[int, str]] = {
    ord(form): letter
    for code, letter in (
        *zip("".join(map(chr, _LOOKALIKES)), map(chr, _LOOKALIKES.values()), strict=True),
        *_BOXED.items(),
    )
    for form in {code, code.upper()}
    if len(form) == 1 and not form.isascii()
}
# Comments, targets of links, BBCode, and the distances between the letters of a PDF.
_MARKUP: Final = re.compile(
    r"<!--.{0,2000}?-->|/\*.{0,2000}?\*/|\]\([^()\s]{0,2000}\)|\[/?[A-Za-z]{1,10}(?:=[^\]\n]{0,200})?\](?!\()"
    r"|\)\s{0,3}-?\d{1,4}\s{0,3}\(",
    re.DOTALL,
)
TAG_PATTERN: Final = re.compile(r"<[/!?]?[A-Za-z][^<>]{0,200}>")
_BASE64: Final = re.compile(
    r"(?<![\w+/-])(?:(?:[\w+/-]{16,}+[ \t]*\r?\n[ \t>]*)+[\w+/-]{4,}+|[\w+/-]{10,}+)", re.ASCII
)
_HEX: Final = re.compile(r"(?i)(?<![0-9a-z])(?:(?:0x|\\x)?[0-9a-f]{2}[\s:,;-]{0,3}+){6,}+")
_NOT_HEX: Final = re.compile(r"(?i)0x|[^0-9a-f]")
_URL_SAFE_TO_STANDARD: Final = str.maketrans("-_", "+/")
# The share of decoded data that must be text. Decoding ordinary words gives mostly non-text.
_MIN_TEXT_SHARE: Final = 0.8


def plain_texts(text: str) -> list[str]:
    """Return all plain texts of a text; the first is the deobfuscated text itself."""
    plain = plain_text(text)
    return [*dict.fromkeys((plain, *hidden_texts(text, plain), *decoded_texts(plain)))]


def decoded_texts(plain: str) -> Iterator[str]:
    """Yield the texts encoded in a plain text, including nested encodings."""
    for _ in range(_MAX_ENCODINGS):
        if not (decoded := "\n".join(_decoded_runs(plain))):
            return
        plain = plain_text(decoded)
        yield plain


def plain_text(text: str) -> str:
    """Decode letter variants, escapes, entities, and percent-encoding, layer by layer."""
    for _ in range(_MAX_LAYERS):
        before = text
        if not text.isascii():
            text = _plain_letters(text)
        if "\\" in text:
            text = _SURROGATES.sub("", _join_utf16_halves(_ESCAPES.sub(_unescape, text)))
        text = unescape_html(text)
        if "%" in text and _PERCENT.search(text):
            text = unquote(text, errors="replace")
        if "\x1b" in text:
            text = _ANSI_CODES.sub("", text)
        if "\x08" in text or "\\b" in text:
            text = _OVERSTRUCK.sub("", text)
        if text == before:
            break
    return text


def _plain_letters(text: str) -> str:
    """Remove accents and invisible characters; replace look-alike letters."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKD", text))
    return text if text.isascii() else text.translate(_LATIN)


def _unescape(match: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    if match[5]:
        return chr(int(match[5], 8))
    code = match[1] or match[2] or match[3] or match[4]
    return chr(int(code, 16)) if code else "\n"


def _join_utf16_halves(text: str) -> str:
    """Join the halves of characters that were escaped as surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def hidden_texts(text: str, plain: str) -> Iterator[str]:
    """Yield the text without tags or markup, in invisible characters, and decoded as mail."""
    if TAG_PATTERN.search(text):
        yield plain_text(TAG_PATTERN.sub("", text))
    if _MARKUP.search(plain):
        yield plain_text(_MARKUP.sub("", plain))
    if not text.isascii() and (hidden := _TAG_CHARACTERS.findall(text)):
        yield plain_text("".join(map(_decode_tag_characters, hidden)))
        yield plain_text(_TAG_CHARACTERS.sub(lambda match: _decode_tag_characters(match[0]), text))
    if not text.isascii() and (selectors := "".join(_SELECTORS.findall(text))):
        yield plain_text(bytes(map(_selector_byte, selectors)).decode(errors="ignore"))
    # Escapes may stand for line ends, and line ends may be part of quoted-printable.
    if "=" in plain and _QUOTED_PRINTABLE.search(plain):
        percent = _QUOTED_PRINTABLE.sub(lambda match: f"%{match[1]}" if match[1] else "", plain)
        yield plain_text(percent)
    if _BACKWARDS.search(text):
        yield plain_text(_BACKWARDS.sub(lambda match: match[1][::-1], text))
    yield from map(plain_text, character_codes(text))


def _selector_byte(selector: str) -> int:
    """Return the byte that is encoded as a variation selector."""
    code = ord(selector)
    return code - 0xFE00 if code < _TAG_BASE else code - 0xE0100 + 16


def _decode_tag_characters(characters: str) -> str:
    return "".join(chr(ord(char) - _TAG_BASE) for char in characters)


def _decoded_runs(text: str) -> Iterator[str]:
    """Yield the texts encoded as bytes in any standard way."""
    for data in binary_texts(text):
        yield from _text_if_readable(data)
    for run in dict.fromkeys(_BASE64.findall(text)):
        lines = run.replace(">", " ").split()
        for digits in dict.fromkeys(("".join(lines), *lines)):
            yield from _text_if_readable(_base64(digits.translate(_URL_SAFE_TO_STANDARD)))
    for match in _HEX.finditer(text):
        yield from _text_if_readable(binascii.unhexlify(_NOT_HEX.sub("", match[0])))


def _text_if_readable(data: bytes) -> Iterator[str]:
    """Yield the bytes as text, if they are mostly UTF-8 or UTF-16."""
    data = decompress_text(data).replace(b"\0", b"")
    text = data.decode(errors="ignore")
    if text and len(text.encode()) >= _MIN_TEXT_SHARE * len(data):
        yield text


# One character code, what must be in a text that has them, and the base of the number.
_CODES: Final = (
    (re.compile(r"U\+([0-9A-Fa-f]{4,6})"), "U+", 16),
    (re.compile(r"(?<!\\)\\++'([0-9A-Fa-f]{2})"), "\\", 16),
    (re.compile(r"(?<!\\)\\++([0-9A-Fa-f]{1,6}) ?"), "\\", 16),
    (re.compile(r"(?<!\\)\\++([0-7]{1,3})"), "\\", 8),
    (re.compile(r"chr\(([0-9]{1,6})\)"), "chr(", 10),
    (re.compile(r"%u([0-9A-Fa-f]{4})"), "%u", 16),
    (re.compile(r"(?<![0-9])([0-7]{3})(?![0-9])"), "", 8),
    (re.compile(r"(?<![0-9])([0-9]{1,3})(?![0-9])"), "", 10),
    (re.compile(r"(?<![0-9])([01]{8})(?![0-9])"), "", 2),
)
_FEWEST_CODES: Final = 8
# Codes may be separated by commas, `+ chr(`, or the offset of a line.
_LONGEST_GAP: Final = 12
_LAST_BYTE: Final = 255
_LAST_CODE: Final = 0x10FFFF
_NAMED: Final = re.compile(r"(?<!\\)\\++N\{([A-Z0-9 -]{1,80})\}")
_BASE32: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z2-7]{16,}+={0,6}")
_GROUPS: Final = re.compile(r"(?<![\w+/-])(?:[A-Za-z0-9+/]{4}[ ]){3,}+[A-Za-z0-9+/=]{0,4}")
_LINES: Final = re.compile(
    r"(?m)(?:^[A-Za-z0-9+/]{2,76}={0,2}\r?\n){1,}+(?:[A-Za-z0-9+/]{2,76}={0,2})?"
)
_UTF7: Final = re.compile(r"\+([A-Za-z0-9+/]{8,}+)-?")
_UU_LINE: Final = re.compile(r"(?m)^[!-M][ -`]{4,60}$")
_MOST_BYTES: Final = 1024 * 1024


def character_codes(text: str) -> Iterator[str]:
    """Yield the texts written as runs of character codes, or as names of characters."""
    for pattern, mark, base in _CODES:
        if mark in text:
            yield from _texts_of_runs(pattern.finditer(text), base)
    if "N{" in text and (named := _NAMED.sub(_decode_character_name, text)) != text:
        yield named


def _texts_of_runs(matches: Iterable[re.Match[str]], base: int) -> Iterator[str]:
    """Yield the text of each run of adjacent character codes in a base."""
    codes: list[int] = []
    end = -_LONGEST_GAP
    for match in matches:
        if match.start() - end > _LONGEST_GAP:
            yield from _text_if_printable(codes)
            codes = []
        codes.append(int(match[1], base))
        end = match.end()
    yield from _text_if_printable(codes)


def _text_if_printable(codes: list[int]) -> Iterator[str]:
    """Yield character codes as text, if they are enough and most are printable."""
    if len(codes) < _FEWEST_CODES:
        return
    if max(codes) <= _LAST_BYTE:
        text = bytes(codes).decode(errors="ignore")
    else:
        text = "".join(chr(code) if code <= _LAST_CODE else "\0" for code in codes)
    if sum(char.isprintable() for char in text) >= _MIN_TEXT_SHARE * len(text):
        yield text


def _decode_character_name(match: re.Match[str]) -> str:
    """Return the character with a Unicode name; the match unchanged if there is none."""
    try:
        return unicodedata.lookup(match[1])
    except KeyError:
        return match[0]


def binary_texts(text: str) -> Iterator[bytes]:
    """Yield the bytes encoded in groups, line by line, as base32, UTF-7, or uuencode."""
    for run in _BASE32.findall(text):
        digits = run.rstrip("=")
        digits = digits[: len(digits) - (len(digits) % 8 in (1, 3, 6))]
        yield b32decode(digits + "=" * (-len(digits) % 8))
    for pattern in (_GROUPS, _LINES):
        for run in pattern.findall(text):
            yield b"".join(map(_base64, run.split()))
    for digits in _UTF7.findall(text) if "+" in text else ():
        yield _base64(digits).decode("utf-16-be", "ignore").encode()
    if lines := [line for line in _UU_LINE.findall(text) if _is_uu(line)]:
        yield b"".join(map(_decode_uuencode, lines))


def _base64(digits: str) -> bytes:
    digits = digits.rstrip("=")
    # A single digit after complete groups of four encodes nothing.
    whole = digits[:-1] if len(digits) % 4 == 1 else digits
    return binascii.a2b_base64(f"{whole}==")


def _is_uu(line: str) -> bool:
    """Whether the first character of a line gives its length."""
    length = (ord(line[0]) - 32) & 63
    return (length + 2) // 3 * 4 == len(line) - 1


def _decode_uuencode(line: str) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:  # prose whose first character happens to give its length
        return b""


def decompress_text(data: bytes) -> bytes:
    """Return data without compression by gzip or zlib; unchanged if it is not compressed."""
    if not data.startswith((b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda")):
        return data
    try:
        return zlib.decompressobj(wbits=47).decompress(data, _MOST_BYTES)
    except zlib.error:
        return data
