"""The names of `import surecall`, which load at their first use."""

from pathlib import Path

import pytest

import surecall

ROOT = Path(__file__).resolve().parents[2]


def test_no_public_name_is_also_a_module_that_could_take_its_place() -> None:
    modules = {path.stem for path in (ROOT / "surecall").iterdir()}

    assert modules & set(surecall.__all__) == set()
    with pytest.raises(AttributeError):
        _ = surecall.nonsense  # type: ignore[attr-defined]  # that is the point
    assert dir(surecall) == surecall.__all__


def test_the_public_list_is_sorted_and_complete() -> None:
    homes = {name for names in surecall._NAMES_BY_MODULE.values() for name in names}

    assert sorted(surecall.__all__) == surecall.__all__
    assert all(hasattr(surecall, name) for name in surecall.__all__)
    assert set(surecall.__all__) == homes | {"presets", "__version__"}
