"""Tests of `surecall/eval/running/cluster/`."""
