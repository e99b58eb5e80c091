"""Tests of `surecall/wire/apis/`."""
