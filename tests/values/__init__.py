"""Tests of `surecall/values/`."""
