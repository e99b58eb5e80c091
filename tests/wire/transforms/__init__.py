"""Tests of `surecall/wire/transforms/`."""
