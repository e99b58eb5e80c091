"""The shell: the only code that waits."""
