"""Trainings on other machines, or in the background; one module for each engine."""
