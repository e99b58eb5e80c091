"""Tests of `surecall/tools/integrations/`."""
