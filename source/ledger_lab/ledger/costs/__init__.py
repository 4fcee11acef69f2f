"""Costs of runs and cohorts: prices of instances, and every cost and rate with its denominator."""
