"""A set of whole numbers as ranges: what is mostly in a row takes next to no memory."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    """A set of whole numbers: from `firsts[i]` to `lasts[i]`, ascending, with gaps between."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self.firsts: array[int] = array("q")
        self.lasts: array[int] = array("q")
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        """Lengthen the range that the number touches, join two, or begin one."""
        if number in self:
            return
        at = bisect_left(self.firsts, number)
        follows = at > 0 and self.lasts[at - 1] == number - 1
        precedes = at < len(self.firsts) and self.firsts[at] == number + 1
        if follows and precedes:
            self.lasts[at - 1] = self.lasts[at]
            del self.firsts[at], self.lasts[at]
        elif follows:
            self.lasts[at - 1] = number
        elif precedes:
            self.firsts[at] = number
        else:
            self.firsts.insert(at, number)
            self.lasts.insert(at, number)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.firsts, number)
        return at > 0 and number <= self.lasts[at - 1]

    def up_to(self, last: int) -> int:
        """Count the numbers that are not larger than the last."""
        ends = zip(self.firsts, self.lasts, strict=True)
        return sum(min(end, last) - start + 1 for start, end in ends if start <= last)

    def common(self, other: "Ranges") -> int:
        """Count the numbers that are in both."""
        total = mine = theirs = 0
        while mine < len(self.firsts) and theirs < len(other.firsts):
            first = max(self.firsts[mine], other.firsts[theirs])
            last = min(self.lasts[mine], other.lasts[theirs])
            total += max(0, last - first + 1)
            if self.lasts[mine] <= other.lasts[theirs]:
                mine += 1
            else:
                theirs += 1
        return total

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self.firsts, self.lasts, strict=True):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self.up_to(self.lasts[-1]) if self.lasts else 0

    def __eq__(self, other: object) -> bool:
        mine = (self.firsts, self.lasts)
        return isinstance(other, Ranges) and mine == (other.firsts, other.lasts)

    __hash__ = None  # type: ignore[assignment]  # it changes
