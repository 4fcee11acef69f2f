"""Put the policy of a run into the package, for everybody's --pretrained."""

from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    from ledger_lab.evaluation.ship import ship_policy

    run_script(ship_policy)
