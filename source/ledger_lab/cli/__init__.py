"""Programs that read a ledger, one file per script."""
