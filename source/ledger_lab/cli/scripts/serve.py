"""Show the page of a ledger in a browser, while trainings run."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("serve")
