"""Trials on disk."""
