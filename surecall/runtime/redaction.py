"""Removes secrets from text: known keys in common encodings, fragments of them, and likely keys."""

import base64
import urllib.parse
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Any, TypeAlias

import msgspec

from surecall.values.errors import Fault
from surecall.values.types import Secret
from surecall.wire.chat_format import encode

Secrets: TypeAlias = Secret | str | Iterable[Secret | str | None] | None
REDACTED = "[redacted]"
# Shorter "secrets" would redact ordinary words.
MIN_SECRET_CHARS = 6
FRAGMENT_CHARS = 8
# The shortest prefix of a truncated secret to remove; the rest is shorter than a fragment.
_HEAD_CHARS = 12
_STRIDE = 3
_MARK_CHARS = FRAGMENT_CHARS - _STRIDE + 1
# Minimum length of an unknown token to be treated as a key.
MIN_KEY_CHARS = 16

_BEARER = ("Bearer", "bearer", "BEARER")
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_UNRESERVED = _WORD | frozenset(".~")
_TOKEN = _UNRESERVED | frozenset("+/=")


class Redactor:
    """Replaces secrets in text, in all common encodings.

    With `aggressive`, it also removes fragments of the secrets and anything that looks like a key.
    Use that for files and error messages, not for a model's answers.
    """

    def __init__(self, secrets: Secrets = (), *, aggressive: bool = True) -> None:
        texts = tuple(dict.fromkeys(_secret_texts(secrets)))
        self._needles, self._fragments, self._marks = _search_terms(texts, aggressive=aggressive)
        self._wary = aggressive

    def may_match(self, data: bytes) -> bool:
        """Whether bytes may hold a secret; a quick check."""
        return any(mark in data for mark in self._marks)

    def redact_value(self, value: Any) -> Any:
        """Return a copy of a JSON value without secrets in its strings and keys."""
        match value:
            case str():
                return self.redact_text(value)
            case list() | tuple():
                return [self.redact_value(item) for item in value]
            case dict():
                return {
                    self.redact_text(key): self.redact_value(item) for key, item in value.items()
                }
            case _:
                return value

    def redact_fault(self, fault: Fault) -> Fault:
        """Return a copy of a fault without the secrets that an endpoint echoed."""
        words = (fault.message, fault.body, fault.hint, fault.provider)
        message, body, hint, provider = (word and self.redact_text(word) for word in words)
        return msgspec.structs.replace(
            fault, message=message, body=body, hint=hint, provider=provider
        )

    def redact_text(self, text: str) -> str:
        """Return the text without secrets."""
        for needle in self._needles:
            text = text.replace(needle, REDACTED)
        if self._wary:
            text = _replace_spans(
                text, [*self._secret_spans(text), *_bearer_token_spans(text), *_key_spans(text)]
            )
        return text

    def _secret_spans(self, text: str) -> Iterator[tuple[int, int]]:
        for piece in self._fragments:
            at = text.find(piece)
            while at >= 0:
                yield at, at + len(piece)
                at = text.find(piece, at + len(piece))
        for needle in self._needles:
            yield from _truncated_spans(text, needle)


# Cached for programs that run many conversations with one key, because this is slow.
@lru_cache(maxsize=64)
def _search_terms(
    texts: tuple[str, ...], *, aggressive: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[bytes, ...]]:
    """Return the encoded secrets, their fragments, and the marks that `may_match` looks for."""
    needles = {spelling for text in texts for spelling in _encoded_forms(text)}
    pieces = dict(pair for text in texts for pair in _pieces(text)) if aggressive else {}
    marks = {*pieces.values(), *(("sk-", *_BEARER) if aggressive else ())}
    heads = {needle[:_HEAD_CHARS] if aggressive else needle for needle in needles}
    marks |= {head for head in heads if not any(mark in head for mark in marks)}
    return (
        tuple(sorted(needles, key=len, reverse=True)),
        tuple(sorted(pieces)),
        tuple(mark.encode("utf-8", "replace") for mark in sorted(marks)),
    )


def _secret_texts(secrets: Secrets) -> Iterator[str]:
    """Yield the secrets that are long enough to be redacted."""
    items = (secrets,) if secrets is None or isinstance(secrets, Secret | str) else secrets
    for secret in items:
        text = secret.reveal() if isinstance(secret, Secret) else secret or ""
        if len(text) >= MIN_SECRET_CHARS:
            yield text


def _encoded_forms(text: str) -> Iterator[str]:
    """Yield a secret in every encoding in which it may occur in text."""
    raw = text.encode("utf-8", "replace")
    yield from (raw.hex(), raw.hex().upper(), urllib.parse.quote(raw, safe=""))
    yield "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02x}" for byte in raw)
    for digits in ("04x", "04X"):
        yield "".join(char if char in _WORD else f"\\u{ord(char):{digits}}" for char in text)
    yield from _json_escaped_forms(text.replace("/", "\\/"))
    for variant in (text, text[::-1], text.upper(), text.lower()):
        yield from _json_escaped_forms(variant)
    for once in _base64_forms(raw):
        yield from (once, *_base64_forms(once.encode()))


def _base64_forms(raw: bytes) -> Iterator[str]:
    """Yield the base64 of a secret, for each position in a longer text."""
    for shift in range(3):
        # Inside a longer text, base64 depends on where in a group of three bytes the key begins.
        # The characters at both ends also depend on the neighboring bytes, so they are left out.
        whole = base64.b64encode(bytes(shift) + raw).decode().rstrip("=")
        loose = (shift + len(raw)) % 3
        middle = whole[(0, 2, 3)[shift] : len(whole) - bool(loose)]
        yield from (middle, middle.replace("+", "-").replace("/", "_"))


def _json_escaped_forms(text: str) -> Iterator[str]:
    """Yield a text unchanged, and as nested JSON escapes it."""
    # JSON nested three times: a call's arguments, in a tool's result, in an event.
    for _ in range(3):
        yield text
        text = encode(text)[1:-1].decode()


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield the telling fragments of a secret, each with the mark to search for first.

    Every fragment holds one of the marks that begin at each third character, so a quick check needs
    only those.
    """
    for at in range(len(text) - FRAGMENT_CHARS + 1):
        if _looks_random(piece := text[at : at + FRAGMENT_CHARS]):
            mark = -(-at // _STRIDE) * _STRIDE
            yield piece, text[mark : mark + _MARK_CHARS]


def _looks_random(text: str) -> bool:
    """Whether a text looks random, unlike words of a language."""
    capitals = sum(char.isupper() for char in text[1:])
    return any(char.isdigit() for char in text) or 0 < capitals < len(text) - 1


def _truncated_spans(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of prefixes of a secret; a truncated message may end with one."""
    at = text.find(secret[:_HEAD_CHARS])
    while at >= 0:
        pairs = zip(secret, text[at : at + len(secret)], strict=False)
        end = at + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        yield at, end
        at = text.find(secret[:_HEAD_CHARS], end)


def _bearer_token_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of tokens after the word Bearer."""
    for word in _BEARER:
        at = text.find(word)
        while at >= 0:
            start = _token_end(text, at + len(word), frozenset(" \t:"))
            end = _token_end(text, start, _TOKEN)
            if start > at + len(word) and _looks_like_key(text[start:end], FRAGMENT_CHARS):
                yield start, end
            at = text.find(word, end)


def _key_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of tokens that begin like the keys of most providers."""
    at = text.find("sk-")
    while at >= 0:
        end = _token_end(text, at, _WORD)
        if (not at or text[at - 1] not in _WORD) and _looks_like_key(text[at:end], MIN_KEY_CHARS):
            yield at, end
        at = text.find("sk-", end)


def _looks_like_key(token: str, min_length: int) -> bool:
    return len(token) >= min_length and (_looks_random(token) or len(token) > 2 * MIN_KEY_CHARS)


def _token_end(text: str, start: int, alphabet: frozenset[str]) -> int:
    """Return the position after the characters of an alphabet."""
    while start < len(text) and text[start] in alphabet:
        start += 1
    return start


def _replace_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """Replace the spans, which may overlap, with one marker per contiguous stretch."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start > position or not pieces:
            pieces += [text[position:start], REDACTED]
        position = max(position, end)
    return "".join((*pieces, text[position:]))
