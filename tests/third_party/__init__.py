"""Tests with servers that others wrote."""
