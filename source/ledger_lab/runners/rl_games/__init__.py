"""rl_games as a learner."""
