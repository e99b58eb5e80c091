"""Where calls were looked for, by strategy."""

import msgspec

from surecall.eval.report.page.data import Context, Report, report_of
from surecall.eval.report.page.readers import readers_of
from surecall.eval.storage.trial import Cell
from tests.support.trials import series


def reading(**readers: tuple[str, ...]) -> Report:
    """Return a report whose models have these readers."""
    trials = [each for model in readers for each in series(".", cell=Cell(model))]
    report = report_of(trials, Context())
    cells = [
        msgspec.structs.replace(view, readers=readers[view.cell.model]) for view in report.cells
    ]
    return msgspec.structs.replace(report, cells=tuple(cells))


def test_readers_that_every_model_has_come_first() -> None:
    same = readers_of(reading(a=("native", "tags in text"), b=("native", "tags in text")))
    mixed = readers_of(reading(a=("native",), b=("native", "tags in text")))

    assert [(each.strategy, each.text) for each in same] == [("production", "native, tags in text")]
    assert [each.text for each in mixed] == ["native; with some models also tags in text"]


def test_what_is_not_on_record_is_not_told() -> None:
    assert readers_of(reading(a=())) == ()
