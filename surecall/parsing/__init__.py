"""Parsers for text that models write. They never raise and never guess."""
