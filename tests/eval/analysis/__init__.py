"""Tests of `surecall/eval/analysis/`."""
