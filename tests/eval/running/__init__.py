"""Tests of `surecall/eval/running/`."""
