"""User code that is type-checked only."""
