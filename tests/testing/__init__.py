"""Tests of `surecall/testing/`."""
