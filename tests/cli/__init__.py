"""Tests of `surecall/cli/`."""
