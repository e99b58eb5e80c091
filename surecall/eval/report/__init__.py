"""Reports of a run as files and as an HTML page."""
