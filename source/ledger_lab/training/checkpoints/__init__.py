"""Checkpoints: finding, loading, exporting and playing them."""
