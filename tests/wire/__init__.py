"""Tests of `surecall/wire/`."""
