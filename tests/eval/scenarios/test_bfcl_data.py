"""The data of BFCL, read from a wheel or a folder; what is broken is told with its place."""

import zipfile
from pathlib import Path

import pytest

from surecall import ConfigError
from surecall.eval.scenarios.bfcl import SETS, Mapped
from surecall.eval.scenarios.bfcl_data import data_in, read_set, spread
from tests.support.bfcl import data_folder, wheel
from tests.support.nesting import DEPTHS


def test_a_wheel_an_unpacked_one_and_a_checkout_hold_the_same(tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    data_folder(unpacked / "bfcl_eval" / "data")
    places = (wheel(tmp_path), unpacked, unpacked / "bfcl_eval", unpacked / "bfcl_eval" / "data")
    read = [[read_set(data_in(each), name, Mapped(), None) for name in SETS] for each in places]
    assert read[0] == read[1] == read[2] == read[3]
    assert [len(each) for each in read[0]].count(1) == len(SETS) - 2


def test_a_sample_is_spread_evenly_and_always_the_same() -> None:
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread(range(2), 3) == [0, 1]
    assert spread([], 3) == []


def test_what_holds_no_data_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.whl").write_bytes(b"no zip file")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as target:
        target.writestr("other/__init__.py", "")
    for name, told in (
        ("broken.whl", "cannot read"),
        ("none.whl", "cannot read"),
        ("other.whl", "there is no BFCL_v4_simple_python.json in"),
        ("", "name the wheel of bfcl-eval"),
    ):
        with pytest.raises(ConfigError, match=told):
            data_in(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id": "x_0"}', "Object missing required field `question`"),
        ('{"id": "x_0", "question": [[], []]}', "Expected `array` of length 1"),
        ("{", "Input data was truncated"),
        *[
            ('{"id": "x_0", "question": [[{"content": ' + "[" * depth, "more than 128 levels")
            for depth in DEPTHS
        ],
    ],
)
def test_a_line_that_is_no_case_is_told_with_its_number(
    tmp_path: Path, line: str, told: str
) -> None:
    folder = data_folder(tmp_path)
    path = folder / "BFCL_v4_irrelevance.json"
    path.write_text(f"\n{line}\n", "utf-8")
    with pytest.raises(ConfigError) as error:
        read_set(folder, "irrelevance", Mapped(), None)
    assert str(error.value).startswith("BFCL_v4_irrelevance.json:2: ")
    assert told in str(error.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    folder = data_folder(tmp_path)
    (folder / "possible_answer" / "BFCL_v4_multiple.json").unlink()
    with pytest.raises(ConfigError, match=r"cannot read possible_answer/BFCL_v4_multiple.json"):
        read_set(folder, "multiple", Mapped(), None)
    (folder / "possible_answer" / "BFCL_v4_parallel.json").write_text(
        '{"id": "parallel_0", "ground_truth": [{}]}', "utf-8"
    )
    with pytest.raises(ConfigError, match=r"BFCL_v4_parallel.json:1: .* length >= 1"):
        read_set(folder, "parallel", Mapped(), None)
