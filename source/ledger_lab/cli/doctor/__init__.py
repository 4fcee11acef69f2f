"""Checks whether a machine is fit for trainings. Only Python's own library is needed to run the checks."""
