"""What holds across modules."""
