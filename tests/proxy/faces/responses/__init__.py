"""Tests of `surecall/proxy/faces/responses/`."""
