"""The tests. Not part of the installed package."""
