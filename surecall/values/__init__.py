"""Immutable values shared by every layer."""
