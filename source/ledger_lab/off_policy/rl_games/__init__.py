"""SAC of rl_games."""
