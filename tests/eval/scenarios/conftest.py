"""A simulator for the tests of a module."""

from tests.support.fixtures import simulator

__all__ = ["simulator"]
