"""Scoring checkpoints on the episodes of a panel, in one simulation."""
