"""Write the ledger for other tools: Parquet, CSV, and the bundles of Isaac Lab's own benchmark."""

from ledger_lab.cli.export import export_ledger
from ledger_lab.reports.terminal.script import run_script

if __name__ == "__main__":
    run_script(export_ledger)
