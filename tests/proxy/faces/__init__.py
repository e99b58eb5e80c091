"""Tests of `surecall/proxy/faces/`."""
