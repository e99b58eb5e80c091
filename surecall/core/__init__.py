"""The loop and its rules: pure."""
