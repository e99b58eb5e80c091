"""Commands run in an empty folder, in this process."""

from tests.support.fixtures import run_fixture

__all__ = ["run_fixture"]
