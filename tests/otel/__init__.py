"""Tests of `surecall/otel/`."""
