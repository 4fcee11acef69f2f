"""SKRL as a learner."""
