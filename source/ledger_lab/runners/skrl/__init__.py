"""Adapter of SKRL."""
