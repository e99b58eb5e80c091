"""Tests of `surecall/core/`."""
