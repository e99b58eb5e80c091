"""Tests of `surecall/wire/dialects/`."""
