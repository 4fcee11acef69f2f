"""Write the ledger for other tools: Parquet, CSV, and the bundles of Isaac Lab's own benchmark."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("export")
