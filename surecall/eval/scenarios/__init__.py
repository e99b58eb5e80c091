"""The scenarios of an evaluation: built-in, from files, and from recorded requests."""
