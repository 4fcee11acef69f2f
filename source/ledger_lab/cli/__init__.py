"""The commands. Code of those that read a ledger is here: one module per script, or per view of ``report.py``."""
