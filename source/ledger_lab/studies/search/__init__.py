"""Searches for the recipe, or the schedule of hyperparameters, with the least time or cost to a proven target.

Optuna stores the trials in a file. Everything else is computed from the search file, and from what the ledger says of
the search's trainings. So a search that was killed continues where it stopped.
"""
