"""Put the policy of a run into the package, for --pretrained."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("ship_policy")
