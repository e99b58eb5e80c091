"""Tests of `surecall/eval/report/page/`."""
