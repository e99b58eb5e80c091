"""Which worker has which trials in hand, and what becomes of those of a worker that is lost.

Nobody knows which of its trials ended a worker, if any did. They are run again in smaller groups
with nothing beside them, and at last alone: a trial that has ended so many workers is given up,
and no other suffers for it.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

import msgspec

from surecall.eval.analysis.category import EXCEPTION
from surecall.eval.running.cluster.messages import Order
from surecall.eval.running.guarded_trial import Ended
from surecall.eval.storage.trial import Trial

# The size of a group after one lost worker, and after two.
_GROUPS: Final = (8, 1)
GIVEN_UP_AFTER: Final = len(_GROUPS) + 1


class Group(msgspec.Struct, frozen=True):
    """Trials that were in hand when a worker was lost, to be run with nothing beside them."""

    orders: tuple[Order, ...]
    lost: int


class Hand:
    """The trials that one worker has."""

    def __init__(self) -> None:
        self.orders: dict[int, Order] = {}
        self._lanes: Counter[str] = Counter()
        # How many workers were lost with the present trials; 0 for those of the usual kind.
        self.lost = 0

    def __len__(self) -> int:
        return len(self.orders)

    def add(self, order: Order) -> None:
        """Take one more trial in hand."""
        self.orders[order.number] = order
        self._lanes[order.lane] += 1

    def remove(self, number: int) -> Order | None:
        """Put a trial down; None when it is not in this hand."""
        order = self.orders.pop(number, None)
        if order is not None:
            self._lanes[order.lane] -= 1
        if not self.orders:
            self.lost = 0
        return order

    def in_lane(self, lane: str) -> int:
        """Count the trials of a lane."""
        return self._lanes[lane]

    @property
    def lanes(self) -> set[str]:
        """The lanes that it has trials of."""
        return {lane for lane, count in self._lanes.items() if count}

    def take(self, group: Group) -> None:
        """Take a group that is to be run alone."""
        for order in group.orders:
            self.add(order)
        self.lost = group.lost


class Returned:
    """Trials that came back from lost workers, in groups."""

    def __init__(self) -> None:
        self._groups: deque[Group] = deque()

    def __bool__(self) -> bool:
        return bool(self._groups)

    def put(self, hand: Hand) -> Iterator[Ended]:
        """Put back what a lost worker had in hand; return what is given up."""
        lost, orders = hand.lost + 1, tuple(hand.orders.values())
        if lost >= GIVEN_UP_AFTER:
            yield from map(_given_up, orders)
            return
        size = _GROUPS[lost - 1]
        for start in range(0, len(orders), size):
            self._groups.append(Group(orders[start : start + size], lost))

    def next(self) -> Group | None:
        """Return the next group to run, if there is one."""
        return self._groups.popleft() if self._groups else None


def _given_up(order: Order) -> Ended:
    said = f"{GIVEN_UP_AFTER} worker processes ended while they ran this trial"
    return Ended(Trial(key=order.key, status="infra", category=EXCEPTION, error=said))
