"""The values everything else is made of."""
