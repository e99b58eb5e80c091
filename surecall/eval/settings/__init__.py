"""Loads and validates the settings of an evaluation."""
