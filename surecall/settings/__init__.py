"""What a run is told: settings, presets, catalogs."""
