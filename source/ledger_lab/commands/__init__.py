"""The programs that read a ledger, one file a script."""
