"""Tests of `surecall/eval/storage/`."""
