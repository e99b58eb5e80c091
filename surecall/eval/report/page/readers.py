"""Where calls were looked for under each strategy: a rate says little without it."""

import msgspec

from surecall.eval.report.page.data import Report


class Readers(msgspec.Struct, frozen=True):
    """What was read under a strategy: with every model, and with some beside it."""

    strategy: str
    always: tuple[str, ...]
    sometimes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The same in words."""
        also = f"; with some models also {', '.join(self.sometimes)}" if self.sometimes else ""
        return ", ".join(self.always) + also


def readers_of(report: Report) -> tuple[Readers, ...]:
    """Return the readers of each strategy; none where they are not on record."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for view in report.cells:
        if view.readers:
            found.setdefault(view.cell.strategy, []).append(view.readers)
    return tuple(_readers(strategy, each) for strategy, each in found.items())


def _readers(strategy: str, found: list[tuple[str, ...]]) -> Readers:
    names = dict.fromkeys(name for each in found for name in each)
    always = tuple(name for name in names if all(name in each for each in found))
    return Readers(strategy, always, tuple(name for name in names if name not in always))
