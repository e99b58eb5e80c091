"""Chunks of a stream that hold the next words of the answer and nothing else, as nearly all do.

They are read as what they are, in one step. Any other chunk, down to one with a single key that is
not listed here, is none of them: the assembler takes it apart key by key.
"""

from typing import Final, Literal

import msgspec


class _Delta(msgspec.Struct, forbid_unknown_fields=True):
    content: str


class _Choice(msgspec.Struct, forbid_unknown_fields=True):
    delta: _Delta
    index: int
    finish_reason: None = None
    native_finish_reason: None = None
    logprobs: None = None


class NextWords(msgspec.Struct, forbid_unknown_fields=True):
    """A chunk with the next words of one choice."""

    choices: tuple[_Choice]
    object: Literal["chat.completion.chunk"]
    id: str | None = None
    model: str | None = None
    provider: str | None = None
    created: int | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage: None = None
    obfuscation: str | None = None

    @property
    def index(self) -> int:
        """Which choice they belong to."""
        return self.choices[0].index

    @property
    def text(self) -> str:
        """The words."""
        return self.choices[0].delta.content


_READER: Final = msgspec.json.Decoder(NextWords)


def next_words(data: str) -> NextWords | None:
    """Read a chunk of words; None if it is anything else."""
    try:
        return _READER.decode(data)
    except ValueError:
        return None
