"""What the engine and its workers say to each other: few messages, each with many trials in it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from surecall.eval.running.guarded_trial import Ended
from surecall.eval.storage.trial import Key, parse_trial
from surecall.values.types import Answer, Secret
from surecall.wire.messages import encode


class SealedKey:
    """A key on its way to a worker, if there is one. Nothing prints it."""

    def __init__(self, secret: Secret | None) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return "SealedKey('…')"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unsealed, ("" if self.secret is None else self.secret.reveal(),)


def _unsealed(key: str) -> SealedKey:
    return SealedKey(Secret(key) if key else None)


class Order(msgspec.Struct, frozen=True, array_like=True):
    """One trial to run. Its number is what both ends call it."""

    number: int
    lane: str
    key: Key


class Orders(msgspec.Struct, frozen=True, array_like=True):
    """New trials, and how many may be under way: in all, and in each lane.

    A lane that is not named may have none. `closed` says for how many seconds a lane begins
    nothing, because its provider told somebody else to wait.
    """

    new: list[Order] = []
    most: int = 0
    shares: dict[str, int] = {}
    closed: dict[str, float] = {}


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """A trial that ended, as the store keeps it."""

    number: int
    record: bytes
    lines: bytes | None
    said: str

    @classmethod
    def of(cls, number: int, ended: Ended) -> "Outcome":
        """Write a result down."""
        record = encode(msgspec.to_builtins(ended.trial))
        return cls(number, record, ended.lines, ended.said)

    @property
    def ended(self) -> Ended:
        """The result, as it was before it was written down."""
        return Ended(parse_trial(self.record.decode()), self.lines, self.said)


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """An answer of a provider, as far as it matters to its lane; the request is `age_s` old."""

    lane: str
    age_s: float
    status: int
    headers: Mapping[str, str] = {}

    @property
    def answer(self) -> Answer:
        """The answer, without its body."""
        return Answer(self.status, dict(self.headers), b"")


class News(msgspec.Struct, frozen=True, array_like=True):
    """What happened at a worker since it told last.

    `dropped` are trials that never began, and will not. A `mistake` is the user's, and ends all.
    """

    begun: list[int] = []
    ended: list[Outcome] = []
    heard: list[Heard] = []
    dropped: list[int] = []
    mistake: str = ""


PACKER: Final = msgspec.msgpack.Encoder()
READ_ORDERS: Final = msgspec.msgpack.Decoder(Orders)
READ_NEWS: Final = msgspec.msgpack.Decoder(News)
