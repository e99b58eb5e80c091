"""Tests of `surecall/eval/scenarios/`."""
