"""How wide a lane is: how many requests one provider gets at the same time, and when.

    begins narrow ─ doubles each round ─► refused (429) ─► cut ─ widens a little each round ─► …

A round is as many answers as the lane is wide. All requests that were under way together are
refused once. A provider that asks to wait closes the lane; then it begins narrow again, and doubles
up to where it was cut. So does a lane in which nothing was answered since the cut: it is closed for
longer each time, and one request asks whether it is over. A lane that is one wide and still refused
now and then rests between requests. What a provider says of its quota is kept, so that a quota that
is spent costs no refusal.

Everything here is a value. Times are seconds of a clock that the caller reads.
"""

import math
from typing import Final

import msgspec

from surecall.wire.rate_limits import Quota

# Longer advice than this is followed in steps: a wrong header must not end an evaluation.
LONGEST_PAUSE_S: Final = 120.0
# How wide a lane is before anything is known about the provider.
_FIRST: Final = 8
_CUT: Final = 0.7
# After a cut a round widens the lane by this part of itself, and by at least one.
_STEP: Final = 32
# A narrow lane waits for more answers than it is wide: one more of few is much.
_FEWEST_ANSWERS: Final = 20
_SHORTEST_S: Final = 0.25
_LONGEST_S: Final = 60.0
_SHORTER: Final = 0.75
_LONGER: Final = 4.0


class Allowance(msgspec.Struct, frozen=True):
    """How many more requests a provider said that it takes, and when there will be more of them.

    `told_at` is when the request began whose answer said so: the newest counts.
    """

    left: float = math.inf
    renewed_at: float = -math.inf
    period_s: float = 0.0
    renewal: float = math.inf
    told_at: float = -math.inf

    def told(self, quota: Quota, started: float, now: float, others: int) -> "Allowance":
        """Note what an answer says; the others that are under way may not have been counted.

        After a wait that was cut short nobody knows whether there is more: one request asks.
        """
        if started < self.told_at:
            return self
        wait_s = min(quota.reset_s, LONGEST_PAUSE_S)
        known = math.inf if quota.limit is None else quota.limit
        renewal = known if wait_s == quota.reset_s else 1
        return Allowance(
            left=max(0, quota.remaining - others),
            renewed_at=now + wait_s,
            period_s=max(wait_s, self.period_s),
            renewal=renewal,
            told_at=started,
        )

    def used(self, now: float) -> "Allowance":
        """Take one off."""
        if now < self.renewed_at:
            return msgspec.structs.replace(self, left=self.left - 1)
        if self.renewal == math.inf:
            return Allowance(told_at=self.told_at)
        return msgspec.structs.replace(self, left=self.renewal - 1, renewed_at=now + self.period_s)

    @property
    def opens_at(self) -> float:
        """When the next request may begin."""
        return -math.inf if self.left >= 1 else self.renewed_at


class Lane(msgspec.Struct, frozen=True):
    """The share of one provider; at most `most` wide. Below `threshold` it doubles each round.

    `rest_s` follows each answer; `pause_s` follows a refusal, if nothing is answered before it.
    """

    most: int
    limit: int
    threshold: int
    answers: int = 0
    cut_at: float = -math.inf
    closed_until: float = -math.inf
    rest_s: float = 0.0
    pause_s: float = 0.0
    allowance: Allowance = Allowance()

    @classmethod
    def fresh(cls, most: int) -> "Lane":
        """Return the lane of a provider of which nothing is known."""
        return cls(most, min(most, _FIRST), most)

    @property
    def opens_at(self) -> float:
        """When the next request may begin, if there is room."""
        return max(self.closed_until, self.allowance.opens_at)

    def takes(self, under_way: int, now: float) -> bool:
        """Whether one more may begin."""
        return under_way < self.limit and now >= self.opens_at

    def began(self, now: float) -> "Lane":
        """Count a request that is being sent."""
        if self.allowance.renewed_at == -math.inf:
            return self
        return msgspec.structs.replace(self, allowance=self.allowance.used(now))

    def told(self, quota: Quota, started: float, now: float, others: int) -> "Lane":
        """Note what is left of the provider's quota."""
        allowance = self.allowance.told(quota, started, now, others)
        return msgspec.structs.replace(self, allowance=allowance)

    def answered(self, started: float, now: float) -> "Lane":
        """Widen, if the round is over; answers to requests from before a cut do not count."""
        if started <= self.cut_at or (self.limit == self.most and not self.rest_s):
            return self
        change = msgspec.structs.replace
        if self.limit < self.threshold:
            return change(self, limit=self.limit + 1, pause_s=0.0)
        lane = change(self, closed_until=max(self.closed_until, now + self.rest_s), pause_s=0.0)
        if self.answers + 1 < max(self.limit, _FEWEST_ANSWERS):
            return change(lane, answers=self.answers + 1)
        if self.rest_s:
            rest_s = self.rest_s * _SHORTER if self.rest_s > _SHORTEST_S else 0.0
            return change(lane, answers=0, rest_s=rest_s)
        wider = min(self.most, self.limit + max(1, self.limit // _STEP))
        return change(lane, answers=0, limit=wider, threshold=wider)

    def refused(self, started: float, now: float, wait_s: float) -> "Lane":
        """Cut, once for all requests that were under way together; close for the time asked."""
        wait_s = min(wait_s, LONGEST_PAUSE_S)
        again = started <= self.cut_at
        lane = self if again else self._cut(now)
        # What was refused together must not come again together: the lane doubles up to its cut.
        narrow = min(lane.limit, _FIRST)
        limit = narrow if wait_s else max(narrow, lane.limit - again)
        return msgspec.structs.replace(lane, limit=limit).closed(now + wait_s)

    def closed(self, until: float) -> "Lane":
        """Begin none before a moment."""
        return msgspec.structs.replace(self, closed_until=max(self.closed_until, until))

    def _cut(self, now: float) -> "Lane":
        lane = msgspec.structs.replace(self, answers=0, cut_at=now)
        if self.pause_s:
            longer = min(self.pause_s * _LONGER, _LONGEST_S)
            return msgspec.structs.replace(lane, limit=1, pause_s=longer).closed(now + self.pause_s)
        rest_s = 0.0
        if self.limit == 1:
            rest_s = min(max(_SHORTEST_S, self.rest_s * 2), _LONGEST_S)
        width = max(1, int(self.limit * _CUT))
        return msgspec.structs.replace(
            lane, limit=width, threshold=width, rest_s=rest_s, pause_s=_SHORTEST_S
        ).closed(now + rest_s)
