"""Tests of `surecall/runtime/`."""
