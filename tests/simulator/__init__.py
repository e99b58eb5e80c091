"""Tests of `surecall/simulator/`."""
