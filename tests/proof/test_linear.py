"""The proof about costs fails as soon as work or memory grows faster than what is read."""

from collections.abc import Callable

import pytest

from bench.linear import FAMILIES
from proof import linear
from proof.linear import Case


def _text(size: int) -> str:
    return "x" * size


def _each(text: str) -> None:
    for _ in text:
        pass


def _pairs(text: str) -> None:
    for at in range(0, len(text), 16):
        _each(text[: at // 16])


def _tries(text: str) -> None:
    for _ in range(600):
        _each(text)


def _hoards(text: str) -> object:
    return [bytearray(len(text)) for _ in range(25)]


def test_a_reader_that_looks_once_passes() -> None:
    case = Case("each", _text, _each)
    growth, problem = linear.growth_problem(case, 4_000)
    assert (round(growth, 1), problem) == (2.0, "")
    assert linear.density_problem(case)[1] == ""
    assert linear.memory_problem(case)[1] == ""


@pytest.mark.parametrize(
    ("read", "judge", "told"),
    [
        (_pairs, lambda case: linear.growth_problem(case, 4_000), "lines ["),
        (_tries, linear.density_problem, "lines for each byte"),
        (_hoards, linear.memory_problem, "25 MiB of memory for 1024 KiB"),
    ],
)
def test_a_reader_that_takes_more_is_told(
    read: Callable[[str], object], judge: Callable[[Case], tuple[float, str]], told: str
) -> None:
    assert told in judge(Case("bad", _text, read))[1]


def test_a_search_that_begins_anew_at_every_mark_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def recover(text: str, *_: object, **__: object) -> None:
        for at in range(0, len(text), 64):
            text.find("<never>", at)

    assert linear.look_problem("commas", 1_000) == ""
    monkeypatch.setattr(linear, "recover", recover)
    assert "dialects, commas: looks [" in linear.look_problem("commas", 1_000)


def test_the_claim_tells_what_it_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = Case("good", _text, _each), Case("bad", _text, _pairs)
    monkeypatch.setattr(linear, "FAMILIES", {"commas": FAMILIES["commas"]})
    monkeypatch.setattr(linear, "_MIB", 4_096)
    monkeypatch.setattr(linear, "cases", lambda: [good])
    assert linear.attempt(2_000, 1).holds
    monkeypatch.setattr(linear, "cases", lambda: [good, bad])
    outcome = linear.attempt(2_000, 1)
    assert "bad: lines [" in outcome.failures[0]
    assert "(bad)" in outcome.figures


def test_there_is_a_case_for_each_reader_and_family() -> None:
    names = [case.name for case in linear.cases()]
    assert len(names) == len(set(names)) > 100
    for case in linear.cases():
        case.lines(256)
