"""Tests of `surecall/mcp/`."""
