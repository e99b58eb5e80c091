"""The HTML report: recommendations, certainty, causes of failure, and every run in detail."""
