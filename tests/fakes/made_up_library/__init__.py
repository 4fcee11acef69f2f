"""A made-up library: all that LedgerLab needs to know of a new one is in this folder."""
