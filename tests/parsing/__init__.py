"""Tests of `surecall/parsing/`."""
