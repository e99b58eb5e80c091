"""What the tests of the store share: a place for runs, and a run in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surecall.eval.storage.store import RunStore, open_or_resume
from tests.support.trials import SAME


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / ".surecall"


@pytest.fixture
def run(base: Path) -> Iterator[RunStore]:
    with open_or_resume(base, SAME) as opened:
        yield opened
