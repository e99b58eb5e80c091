"""Tests of `surecall/simulator/faults/`."""
