"""Tests of `surecall/proxy/apis/`."""
