"""Every page of the documentation has a block to try, and it does what the page shows."""

from pathlib import Path

import pytest

from tests.support.project_files import ROOT, Trial, trial_of, tried, without_trial

PAGES = sorted(ROOT.glob("docs/*.md"))


@pytest.mark.processes
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_asks_to_try_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    trial = trial_of(page.read_text("utf-8"))
    ran = tried(trial, tmp_path)

    assert ran.returncode == 0, ran.stdout
    assert trial.prints(ran.stdout), f"{page.name} shows\n{trial.shown}\nand it is\n{ran.stdout}"


def test_a_page_without_a_block_to_try_is_noticed() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        trial_of("# A page\n\nWords.\n")


@pytest.mark.parametrize(
    ("shown", "output", "same"),
    [
        ("one\n", "one\n", True),
        ("one\n", "two\n", False),
        ("one\n", "one\ntwo\n", False),
        ("one\n…\n", "one\ntwo\nthree\n", True),
        ("in … s\n", "in 0.3 s\n", True),
        ("…\nthree\n", "one\ntwo\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_an_ellipsis_stands_for_anything_and_all_else_for_itself(
    shown: str, output: str, *, same: bool
) -> None:
    assert Trial("sh", "true", shown).prints(output) is same


@pytest.mark.processes
def test_a_block_fails_where_one_of_its_commands_does(tmp_path: Path) -> None:
    assert tried(Trial("sh", "false\ntrue\n", ""), tmp_path).returncode == 1
    assert tried(Trial("python", "raise ValueError\n", ""), tmp_path).returncode == 1


def test_a_page_can_be_read_without_it() -> None:
    page = "# A\n\n## Try it\n\n```sh\ntrue\n```\n\n```text\n\n```\n\n## B\n"

    assert without_trial(page) == "# A\n\n## B\n"
    assert trial_of(page) == Trial("sh", "true\n", "\n")
