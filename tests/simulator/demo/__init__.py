"""Tests of the comparison that the demo shows."""
