"""What a trial is about."""
