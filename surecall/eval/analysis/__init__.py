"""From trials to figures and advice."""
