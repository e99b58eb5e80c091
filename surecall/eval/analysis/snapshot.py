"""Figures on record: one live evaluation whose counts, but not whose trials, have survived.

It ships as data, so that the rules can be held against verdicts that people once wrote by hand.
By the observed rule all seventeen verdicts come out the same, and fifteen profiles. The other two,
for `x-ai/grok-4.1-fast` and `z-ai/glm-4.7-flash:nitro`, were choices that the figures do not
support; their remarks say why.
"""

from functools import cache
from typing import Final

import msgspec

from surecall.eval.analysis.candidate import Candidate
from surecall.eval.analysis.stats import NOTHING, Rate
from surecall.settings.filters import packaged, parse_entries, parse_tables

FILE: Final = "snapshot.toml"


class ScenarioRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one scenario went over all cells."""

    id: str
    k: int
    n: int


class HandVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What people concluded about a model. `remark` objects where the figures say otherwise."""

    model: str
    profile: str
    label: str
    remark: str = ""

    @property
    def verdict(self) -> str:
        """The label without its restriction."""
        return self.label.partition(" (")[0]


class Remark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one must know to read the figures."""

    text: str


class Snapshot(msgspec.Struct, frozen=True):
    """A recorded evaluation. In it, runs that infrastructure spoiled are failures."""

    cells: tuple[Candidate, ...]
    scenarios: tuple[ScenarioRecord, ...]
    verdicts: tuple[HandVerdict, ...]
    remarks: tuple[Remark, ...]

    @property
    def tool(self) -> Rate:
        """All runs of tool scenarios."""
        return sum((cell.tool for cell in self.cells), NOTHING)

    @property
    def control(self) -> Rate:
        """All runs of the control."""
        return sum((cell.control for cell in self.cells), NOTHING)


@cache
def snapshot() -> Snapshot:
    """Return the evaluation that ships with the package."""
    document = parse_tables(packaged(FILE), ("cell", "scenario", "verdict", "remark"))
    return Snapshot(
        parse_entries(document, "cell", Candidate),
        parse_entries(document, "scenario", ScenarioRecord),
        parse_entries(document, "verdict", HandVerdict),
        parse_entries(document, "remark", Remark),
    )
