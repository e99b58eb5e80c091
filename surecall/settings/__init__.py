"""Run settings, presets, and catalogs of models and providers."""
