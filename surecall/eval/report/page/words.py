"""How figures and strange texts are written in a report: the filters of its templates."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from jinja2.filters import do_mark_safe

from surecall.eval.analysis import category
from surecall.eval.analysis.figures import Figure
from surecall.eval.analysis.verdicts import Decision
from surecall.eval.storage.trial import Key
from surecall.values.trace import safe_text

MEANINGS: Final = category.MEANINGS
# What a group of models has in common.
RULES: Final[dict[Decision, str]] = {
    "use": "the whole interval is at or above the bar",
    "avoid": "the whole interval is below the bar",
    "more trials": "the interval crosses the bar, and more runs would decide",
    "too close": "the interval crosses the bar, and more runs would not decide, or are not planned",
    "not measured": "no run with tools was judged",
}
_PERCENT: Final = 100
_SECOND: Final = 1000
_LONG_S: Final = 100
_CENT: Final = 0.01
_NOTHING, _TO, _MINUS = "\N{EN DASH}", "\N{EN DASH}", "\N{MINUS SIGN}"
_NOT_IN_LINES: Final = re.compile(r"[^\n\t]+")
_AFTER_JOINTS: Final = re.compile("(?<=[/_:@])")


def percent(rate: float | None, digits: int = 1) -> str:
    """Write a share; a dash where there is none. Only all is 100 %, and only nothing is 0 %."""
    if rate is None:
        return _NOTHING
    text = f"{_PERCENT * rate:.{digits}f}"
    smallest = 10**-digits
    if rate < 1 and float(text) == _PERCENT:
        text = f"{_PERCENT - smallest:.{digits}f}"
    if rate > 0 and float(text) == 0:
        text = f"{smallest:.{digits}f}"
    return f"{text}%"


def bounds(figure: Figure, digits: int = 1) -> str:
    """Write an interval in percent, without the sign."""
    return f"{_PERCENT * figure.low:.{digits}f}{_TO}{_PERCENT * figure.high:.{digits}f}"


def points(difference: float) -> str:
    """Write a difference of two shares, with its sign."""
    return f"{_PERCENT * difference:+.1f}".replace("-", _MINUS)


def seconds(ms: float | None) -> str:
    """Write a time, with as many digits as tell something."""
    if not ms:
        return _NOTHING
    if ms < _SECOND:
        return f"{ms:.0f} ms"
    return f"{ms / _SECOND:.{0 if ms >= _LONG_S * _SECOND else 1}f} s"


def count(number: float | None) -> str:
    """Write a number in groups of three."""
    return _NOTHING if number is None else f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """Write how many there are of something."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def money(dollars: float | None) -> str:
    """Write an amount; small ones with the digits that they have."""
    if dollars is None:
        return _NOTHING
    return f"${dollars:.2f}" if dollars >= _CENT or not dollars else f"${dollars:.2g}"


def address(filters: Mapping[str, str]) -> str:
    """Return the address of the runs that these filters leave; the scripts of the page read it."""
    return f"#runs?{'&'.join(f'{kind}={_quoted(text)}' for kind, text in filters.items())}"


def run_address(key: Key) -> str:
    """Return the address of one run; without a turn it opens at the one that decided."""
    cell = key.cell
    names = (cell.model, cell.profile, cell.strategy, key.scenario, str(key.trial))
    return f"#run/{','.join(map(_quoted, names))}"


def _quoted(text: str) -> str:
    """Write a text as a browser does in an address: half of a surrogate pair has no place there."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return quote(whole, safe="!'()*")


def shown(text: str) -> str:
    """Make a text from outside safe to look at: no control or direction characters."""
    return _NOT_IN_LINES.sub(lambda piece: safe_text(piece.group()), text)


def name(text: str) -> str:
    """Write a name so that a line can end at its joints, and only there."""
    return do_mark_safe("<wbr>").join(_AFTER_JOINTS.split(shown(text)))
