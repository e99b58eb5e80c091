"""What an evaluation shows while it goes on: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from surecall.cli.common import note
from surecall.cli.listing import count
from surecall.cli.screen import is_animated, screen_of, wrapped
from surecall.cli.table import CellTable
from surecall.eval.running.harness_events import (
    Finished,
    Notice,
    Planned,
    RateLimited,
    Started,
    Stopped,
)
from surecall.eval.running.matrix import Plan
from surecall.eval.storage.done import Done
from surecall.eval.storage.trial import Cell

if TYPE_CHECKING:
    from rich.console import RenderableType

_BAR: Final = 30
_APART: Final = "   "
_PER_SECOND: Final = 4
_MINUTE: Final = 60
_ECHO: Final = len("^C")
_WHY: Final = {
    "budget": "stopping: the budget is used up",
    "unpriced": "stopping: the endpoint tells no prices, so the budget cannot be kept",
    "unusable": "stopping: the endpoint cannot be used",
    "lost": "stopping: the cluster is gone",
}


class Progress:
    """Counts what happens. `table` shows how each cell is doing."""

    def __init__(self, plan: Plan, table: CellTable, done: Done) -> None:
        self.table = table
        self._limit_s = plan.settings.timeout
        self._simulated = any(each.model.simulated for each in plan.cells)
        self._started = time.monotonic()
        self._left: Counter[Cell] = Counter()
        for (cell, _), missing in plan.left(done).items():
            self._left[cell] += missing
        self._wanted = self._recorded = self._finished = self._in_flight = self._retries = 0
        self._spent = 0.0
        self._remark = ""

    def take(self, notice: Notice) -> None:
        """Note what happened."""
        match notice:
            case Planned(wanted, recorded):
                self._wanted, self._recorded = wanted, recorded
            case Started():
                self._in_flight += 1
            case Finished(trial, spent):
                self.table.add(trial)
                self._left[trial.key.cell] -= 1
                self._in_flight -= 1
                self._finished += 1
                self._retries += trial.retries
                self._spent = spent
            case RateLimited(provider, wait_s, _):
                self._remark = f"rate limit ({provider}, waiting {wait_s:.0f} s)"
            case Stopped("interrupted", under_way):
                self._remark = f"stopping: {self._finishing(under_way)}; Ctrl-C again stops now"
            case Stopped(reason, _):
                self._remark = _WHY.get(reason, reason)

    def _finishing(self, under_way: int) -> str:
        """Say what is waited for after a wish to stop, and for how long at most."""
        limit_s = self._limit_s
        most = "" if limit_s is None else f" within {_period(limit_s)}"
        return f"{count(under_way, 'trial')} to be finished{most}"

    @property
    def line(self) -> str:
        """The progress and what holds it up, in one line."""
        return _APART.join(filter(None, (self._far(), self._remark)))

    def _far(self, width: int | None = None) -> str:
        """Say how far it is; what does not fit is left out, the last first."""
        parts = self._figures()
        while width is not None and len(parts) > 1 and len(_APART.join(parts)) > width:
            parts.pop()
        return _APART.join(parts)

    def _figures(self) -> list[str]:
        done = self._recorded + self._finished
        share = done / self._wanted if self._wanted else 1.0
        bar = "━" * round(_BAR * share)
        figures = (
            f"{bar:·<{_BAR}}  {done}/{self._wanted}",
            self._time_left(),
            f"in flight {self._in_flight}",
            f"retries {self._retries}" if self._retries else "",
            f"${self._spent:.2f}" if self._spent else "",
        )
        return list(filter(None, figures))

    def _time_left(self) -> str:
        left = self._wanted - self._recorded - self._finished
        if not self._finished or not left:
            return ""
        seconds = round((time.monotonic() - self._started) / self._finished * left)
        return f"{seconds // 60}:{seconds % 60:02} left"

    def lines(self, width: int) -> list[str]:
        """Return the whole display; a remark has its own line, so that it is not cut off."""
        table = self.table.lines(width, left=self._left, simulated=self._simulated)
        remark = wrapped(self._remark, width - _ECHO) if self._remark else []
        return [*table, "", self._far(width - _ECHO), *remark]

    def cell_done(self, cell: Cell) -> bool:
        """Whether a cell has all its trials."""
        return self._left[cell] <= 0


def _period(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.3g} min"


@contextmanager
def shown(progress: Progress, verbosity: int) -> Iterator[Callable[[Notice], None]]:
    """Show progress in the form that fits standard error; yield what takes the notices."""
    if verbosity <= 0:
        yield progress.take
    elif verbosity == 1 and is_animated(sys.stderr):
        with _live(progress) as take:
            yield take
    else:
        yield _printed(progress, verbosity)


def _printed(progress: Progress, verbosity: int) -> Callable[[Notice], None]:
    """Print one line for each finished cell or, if asked for, each trial."""

    def take(notice: Notice) -> None:
        progress.take(notice)
        match notice:
            case Finished(trial, _) if verbosity > 1:
                key = trial.key
                where = f"{key.cell.model} {key.cell.profile} {key.cell.strategy} {key.scenario}"
                note(f"{trial.status:7} {where} {key.trial} {trial.elapsed_ms} ms {trial.error}")
            case Finished(trial, _) if progress.cell_done(trial.key.cell):
                cell = trial.key.cell
                tool = progress.table.counts[cell].tool
                note(f"{cell.model} {cell.profile} {cell.strategy}: {tool.k}/{tool.n}")
            case RateLimited() | Stopped():
                note(progress.line)
            case _:
                pass

    return take


@contextmanager
def _live(progress: Progress) -> Iterator[Callable[[Notice], None]]:
    # Imported here: only an evaluation on a terminal needs it.
    from rich.console import Console, Group  # noqa: PLC0415 - see above
    from rich.live import Live  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    console = Console(stderr=True)
    screen = screen_of(sys.stderr)

    def drawn() -> "RenderableType":
        texts = progress.lines(console.width)[-console.height + 1 :]
        spelt = map(screen.spelt, texts)
        return Group(*(Text.from_ansi(text, no_wrap=True, overflow="crop") for text in spelt))

    with Live(
        console=console, get_renderable=drawn, refresh_per_second=_PER_SECOND, transient=True
    ):
        yield progress.take
