"""The documents stay within their limits, and the check notices one that does not."""

from pathlib import Path

import pytest

from scripts.check_docs import count_words, hand_written_prose, main, measure_lengths


def write_documents(root: Path, *, readme: str = "", page: str = "", changelog: str = "") -> Path:
    (root / "docs").mkdir()
    (root / "README.md").write_text(readme, "utf-8")
    (root / "CHANGELOG.md").write_text(changelog, "utf-8")
    (root / "docs" / "guide.md").write_text(page, "utf-8")
    (root / "docs" / "drift.md").write_text("generated " * 30_000, "utf-8")
    (root / "docs" / "architecture.md").write_text("", "utf-8")
    return root


def test_every_document_is_within_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("documents", "exceeded"),
    [
        ({"readme": "a\n" * 201}, ["README.md"]),
        ({"readme": "a " * 1_201}, ["README.md"]),
        ({"page": "a " * 25_001}, ["docs/*.md, hand-written, without code"]),
        ({"changelog": "## 1.1\n" + "a\n" * 91 + "## 1.0\na\n"}, ["CHANGELOG.md, 1.1"]),
        ({"readme": "a\n" * 200, "changelog": "## 1.0\na\n"}, []),
    ],
)
def test_a_document_over_its_limit_is_named(
    documents: dict[str, str], exceeded: list[str], tmp_path: Path
) -> None:
    lengths = measure_lengths(write_documents(tmp_path, **documents))

    assert [each.name for each in lengths if each.is_exceeded] == exceeded


def test_code_and_generated_parts_are_not_counted() -> None:
    page = "one\n```sh\ntwo\n```\n<!-- table -->\nthree\n<!-- /table -->\nfour\n"

    assert count_words(hand_written_prose(page)) == 2
