r"""Decodes the standard encodings of text, from a table.

    character codes   decimal, octal, hexadecimal, or binary, with any marks: `chr(100)`, `U+0064`
    base32, base64    in one run, in groups, or line by line; also compressed, and UTF-7
    uuencode          line by line
    Unicode names     `\N{LATIN SMALL LETTER D}`

Ciphers that are no standard encodings, such as rot13, are out of scope. Takes linear time.
"""

import binascii
import re
import unicodedata
import zlib
from base64 import b32decode
from collections.abc import Iterable, Iterator
from typing import Final

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
_MOSTLY: Final = 0.8
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
            yield from _runs(pattern.finditer(text), base)
    if "N{" in text and (named := _NAMED.sub(_decode_names, text)) != text:
        yield named


def _runs(matches: Iterable[re.Match[str]], base: int) -> Iterator[str]:
    codes: list[int] = []
    end = -_LONGEST_GAP
    for match in matches:
        if match.start() - end > _LONGEST_GAP:
            yield from _as_text(codes)
            codes = []
        codes.append(int(match[1], base))
        end = match.end()
    yield from _as_text(codes)


def _as_text(codes: list[int]) -> Iterator[str]:
    if len(codes) < _FEWEST_CODES:
        return
    if max(codes) <= _LAST_BYTE:
        text = bytes(codes).decode(errors="ignore")
    else:
        text = "".join(chr(code) if code <= _LAST_CODE else "\0" for code in codes)
    if sum(char.isprintable() for char in text) >= _MOSTLY * len(text):
        yield text


def _decode_names(match: re.Match[str]) -> str:
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
