"""A simulator for the tests of a module."""

from tests.support.commands import simulator

__all__ = ["simulator"]
