"""Commands run in an empty folder, in this process."""

from tests.support.commands import run_fixture

__all__ = ["run_fixture"]
