"""Tests of `surecall/eval/report/`."""
