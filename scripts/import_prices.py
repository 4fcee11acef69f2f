"""Turn catalogs of gpuhunt on disk into a price file."""

from ledger_lab.cli.import_prices import import_prices
from ledger_lab.reports.terminal.script import run_script

if __name__ == "__main__":
    run_script(import_prices)
