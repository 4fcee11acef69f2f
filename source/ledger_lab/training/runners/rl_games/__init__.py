"""Adapter of rl_games."""
