"""RSL-RL as a learner."""
