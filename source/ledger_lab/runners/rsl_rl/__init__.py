"""Adapter of RSL-RL."""
