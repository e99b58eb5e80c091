"""Tests of `surecall/core/guided/`."""
