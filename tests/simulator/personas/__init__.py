"""Tests of `surecall/simulator/personas/`."""
