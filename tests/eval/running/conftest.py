"""Commands, and a simulator for the tests of a module."""

from tests.support.commands import run_fixture, simulator

__all__ = ["run_fixture", "simulator"]
