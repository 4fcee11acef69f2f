"""Loggers: separate processes that read the journals of a run, and send it to other dashboards."""
