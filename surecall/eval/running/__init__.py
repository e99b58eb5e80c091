"""Runs the evaluation matrix."""
