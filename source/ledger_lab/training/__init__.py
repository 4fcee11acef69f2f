"""One training run, from the request to its last row."""
