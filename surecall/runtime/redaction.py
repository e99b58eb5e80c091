"""Redaction: secrets are taken out of text, in the spellings in which they leak.

Known keys in any of those spellings, pieces of them, and whatever looks like a key.
"""

import base64
import urllib.parse
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Any, TypeAlias

import msgspec

from surecall.values.errors import Fault
from surecall.values.types import Secret
from surecall.wire.messages import encode

Secrets: TypeAlias = Secret | str | Iterable[Secret | str | None] | None
REDACTED = "[redacted]"
# Shorter "secrets" would redact ordinary words.
MIN_SECRET_CHARS = 6
FRAGMENT_CHARS = 8
# Of a spelling, so much that what is left of it holds less than a fragment.
_HEAD_CHARS = 12
_STRIDE = 3
_MARK_CHARS = FRAGMENT_CHARS - _STRIDE + 1
# An unknown token must be this long to be taken for a key.
MIN_KEY_CHARS = 16

_BEARER = ("Bearer", "bearer", "BEARER")
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_UNRESERVED = _WORD | frozenset(".~")
_TOKEN = _UNRESERVED | frozenset("+/=")


class Redactor:
    """Takes secrets out of text, in the spellings in which they leak.

    With `wary`, pieces of the secrets go too, and so does whatever looks like a key. What a model
    says to a user is not a place for that; files and error messages are.
    """

    def __init__(self, secrets: Secrets = (), *, wary: bool = True) -> None:
        known = tuple(dict.fromkeys(_known(secrets)))
        self._needles, self._fragments, self._marks = _wanted(known, wary=wary)
        self._wary = wary

    def suspects(self, data: bytes) -> bool:
        """Whether there may be something to take out; a quick look at bytes."""
        return any(mark in data for mark in self._marks)

    def value(self, value: Any) -> Any:
        """Copy a JSON value without the secrets in its texts and keys."""
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self.value(item) for item in value]
            case dict():
                return {self.text(key): self.value(item) for key, item in value.items()}
            case _:
                return value

    def fault(self, fault: Fault) -> Fault:
        """Copy a fault without the secrets that an endpoint echoed."""
        words = (fault.message, fault.body, fault.hint, fault.provider)
        message, body, hint, provider = (word and self.text(word) for word in words)
        return msgspec.structs.replace(
            fault, message=message, body=body, hint=hint, provider=provider
        )

    def text(self, text: str) -> str:
        """Return the text without the secrets."""
        for needle in self._needles:
            text = text.replace(needle, REDACTED)
        if self._wary:
            text = _without(text, [*self._found(text), *_bearers(text), *_keys(text)])
        return text

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        for piece in self._fragments:
            at = text.find(piece)
            while at >= 0:
                yield at, at + len(piece)
                at = text.find(piece, at + len(piece))
        for needle in self._needles:
            yield from _cut_off(text, needle)


# Cached for programs that run many conversations with one key: this takes longer than a look.
@lru_cache(maxsize=64)
def _wanted(
    known: tuple[str, ...], *, wary: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[bytes, ...]]:
    """Return what to take out, whole and in pieces, and what to look for in bytes."""
    needles = {spelling for text in known for spelling in _spellings(text)}
    pieces = dict(pair for text in known for pair in _pieces(text)) if wary else {}
    marks = {*pieces.values(), *(("sk-", *_BEARER) if wary else ())}
    heads = {needle[:_HEAD_CHARS] if wary else needle for needle in needles}
    marks |= {head for head in heads if not any(mark in head for mark in marks)}
    return (
        tuple(sorted(needles, key=len, reverse=True)),
        tuple(sorted(pieces)),
        tuple(mark.encode("utf-8", "replace") for mark in sorted(marks)),
    )


def _known(secrets: Secrets) -> Iterator[str]:
    given = (secrets,) if secrets is None or isinstance(secrets, Secret | str) else secrets
    for secret in given:
        text = secret.reveal() if isinstance(secret, Secret) else secret or ""
        if len(text) >= MIN_SECRET_CHARS:
            yield text


def _spellings(text: str) -> Iterator[str]:
    raw = text.encode("utf-8", "replace")
    yield from (raw.hex(), raw.hex().upper(), urllib.parse.quote(raw, safe=""))
    yield "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02x}" for byte in raw)
    for digits in ("04x", "04X"):
        yield "".join(char if char in _WORD else f"\\u{ord(char):{digits}}" for char in text)
    yield from _escapes(text.replace("/", "\\/"))
    for variant in _variants(text):
        yield from _escapes(variant)
    for once in _base64s(raw):
        yield from (once, *_base64s(once.encode()))


def _variants(text: str) -> tuple[str, ...]:
    """Return a text as it is, and as it is written by who plays with it."""
    return text, text[::-1], text.upper(), text.lower()


def _base64s(raw: bytes) -> Iterator[str]:
    for shift in range(3):
        # Inside a longer text, base64 depends on where in a group of three bytes the key begins;
        # the characters at both ends also depend on its neighbours, so they are left out.
        whole = base64.b64encode(bytes(shift) + raw).decode().rstrip("=")
        loose = (shift + len(raw)) % 3
        kept = whole[(0, 2, 3)[shift] : len(whole) - bool(loose)]
        yield from (kept, kept.replace("+", "-").replace("/", "_"))


def _escapes(text: str) -> Iterator[str]:
    # JSON in JSON in JSON: a call's arguments, in a tool's result, in an event.
    for _ in range(3):
        yield text
        text = encode(text)[1:-1].decode()


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Find the pieces that give a secret away, and in each what to look for first.

    Every piece holds one of the few marks that begin at each third character, so a quick look
    needs only those.
    """
    for at in range(len(text) - FRAGMENT_CHARS + 1):
        if _telling(piece := text[at : at + FRAGMENT_CHARS]):
            mark = -(-at // _STRIDE) * _STRIDE
            yield piece, text[mark : mark + _MARK_CHARS]


def _telling(text: str) -> bool:
    """Whether a text looks made by a machine. Words of a language must not be taken for keys."""
    capitals = sum(char.isupper() for char in text[1:])
    return any(char.isdigit() for char in text) or 0 < capitals < len(text) - 1


def _cut_off(text: str, needle: str) -> Iterator[tuple[int, int]]:
    """Find the beginnings of a secret in some spelling: a message that was cut may end in one."""
    at = text.find(needle[:_HEAD_CHARS])
    while at >= 0:
        pairs = zip(needle, text[at : at + len(needle)], strict=False)
        end = at + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        yield at, end
        at = text.find(needle[:_HEAD_CHARS], end)


def _bearers(text: str) -> Iterator[tuple[int, int]]:
    """Find the tokens after the word Bearer."""
    for word in _BEARER:
        at = text.find(word)
        while at >= 0:
            start = _end(text, at + len(word), frozenset(" \t:"))
            end = _end(text, start, _TOKEN)
            if start > at + len(word) and _is_key(text[start:end], FRAGMENT_CHARS):
                yield start, end
            at = text.find(word, end)


def _keys(text: str) -> Iterator[tuple[int, int]]:
    """Find tokens that begin like the keys of most providers."""
    at = text.find("sk-")
    while at >= 0:
        end = _end(text, at, _WORD)
        if (not at or text[at - 1] not in _WORD) and _is_key(text[at:end], MIN_KEY_CHARS):
            yield at, end
        at = text.find("sk-", end)


def _is_key(token: str, shortest: int) -> bool:
    return len(token) >= shortest and (_telling(token) or len(token) > 2 * MIN_KEY_CHARS)


def _end(text: str, at: int, alphabet: frozenset[str]) -> int:
    while at < len(text) and text[at] in alphabet:
        at += 1
    return at


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Cut out the spans, which may overlap, and leave a mark for each stretch."""
    kept: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start > position or not kept:
            kept += [text[position:start], REDACTED]
        position = max(position, end)
    return "".join((*kept, text[position:]))
