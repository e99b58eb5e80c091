"""Tests of `surecall/wire/protocols/`."""
