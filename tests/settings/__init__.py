"""Tests of `surecall/settings/`."""
