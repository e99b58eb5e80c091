"""Promises of the README, tried through the public door alone."""
