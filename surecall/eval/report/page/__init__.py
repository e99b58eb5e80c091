"""The report: what to use, how sure that is, what fails and why, and every run in detail."""
