"""Readers of text that a model wrote: never raise, never guess."""
