"""Running the matrix."""
