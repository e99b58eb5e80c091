"""Tests of `surecall/core/streaming/`."""
