"""A wheel that differs from git, or needs other things than it says, is found out."""

import zipfile
from pathlib import Path

import pytest

from proof import packaging

NAMES = ("surecall/__init__.py", "surecall/__main__.py")


def _wheel(folder: Path, extra: dict[str, bytes] | None = None, *left_out: str) -> Path:
    files = {name: (packaging.ROOT / name).read_bytes() for name in NAMES}
    files |= {"surecall-1.dist-info/RECORD": b""} | (extra or {})
    path = folder / "surecall-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            if name not in left_out:
                archive.writestr(zipfile.ZipInfo(name), data)
    return path


def test_a_wheel_with_the_files_of_git_is_right(tmp_path: Path) -> None:
    assert list(packaging.content_failures(_wheel(tmp_path), NAMES)) == []


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"surecall/secret.env": b""}, "surecall/secret.env is in the wheel but not in git"),
        ({"evil.pth": b"import os"}, "evil.pth is a .pth file"),
        ({"tests/__init__.py": b""}, "at the top of the wheel are surecall, surecall-1.dist-info"),
        ({NAMES[0]: b"import evil"}, f"{NAMES[0]} differs from the file in the checkout"),
    ],
)
def test_what_a_wheel_must_not_have_is_told(
    tmp_path: Path, extra: dict[str, bytes], told: str
) -> None:
    failures = packaging.content_failures(_wheel(tmp_path, extra), NAMES)
    assert any(line.startswith(told) for line in failures)


def test_a_file_that_is_missing_in_a_wheel_is_told(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, None, NAMES[1])
    (told,) = packaging.content_failures(wheel, NAMES)
    assert told == f"{NAMES[1]} is in git but not in the wheel"


def test_wheels_that_differ_are_told(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    wheels = [_wheel(one), _wheel(other, {"surecall-1.dist-info/AT": b"now"})]
    assert list(packaging.sameness_failures(wheels[:1])) == []
    assert len(list(packaging.sameness_failures(wheels))) == 1


def test_undeclared_and_unused_dependencies_are_told(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text("import os\n\n\ndef work():\n    import rich.table\n    from . import x\n")
    assert packaging.imports_of([source]) == {"rich"}
    assert packaging.dependency_failures({"click"}, {"rich"}) == [
        "rich is imported but not declared",
        "click is declared but not imported",
    ]


@pytest.mark.processes
def test_our_own_wheel_holds() -> None:
    outcome = packaging.attempt(2, 1)
    assert outcome.holds, outcome.failures
    assert "6 direct dependencies against a bar of 3" in outcome.figures
