"""Tests of `surecall/tools/`."""
