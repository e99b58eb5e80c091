"""Tests of `surecall/proxy/`."""
