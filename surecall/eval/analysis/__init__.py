"""Analysis of trials: figures, comparisons, and recommendations."""
