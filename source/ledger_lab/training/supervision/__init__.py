"""Runs a program in a worker process. A supervisor process ends the worker after a signal, and records how it ended."""
