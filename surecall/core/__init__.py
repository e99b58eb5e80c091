"""The tool loop and its rules: pure functions without I/O."""
