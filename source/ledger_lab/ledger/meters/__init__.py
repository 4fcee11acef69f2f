"""Meters of a run: time by phase, memory, energy and facts of the host. They need no torch."""
