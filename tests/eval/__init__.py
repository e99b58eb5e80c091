"""Tests of `surecall/eval/`."""
