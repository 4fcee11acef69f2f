"""Keeping a program alive, ended and recorded: one process that supervises, one that works."""
