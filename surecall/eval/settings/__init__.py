"""The settings of an evaluation: where each value came from, and what it means."""
