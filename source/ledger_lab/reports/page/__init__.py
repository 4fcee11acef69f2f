"""The ledger as one self-contained HTML page."""
