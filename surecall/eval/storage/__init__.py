"""Storage of trials on disk."""
