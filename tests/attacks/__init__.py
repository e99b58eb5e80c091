"""What was tried in order to break it."""
