"""Mirrors of runs in other dashboards, sent by a separate process that reads the journals."""
