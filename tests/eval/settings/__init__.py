"""Tests of `surecall/eval/settings/`."""
