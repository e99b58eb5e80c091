"""Properties that hold for every input, hostile input included."""
