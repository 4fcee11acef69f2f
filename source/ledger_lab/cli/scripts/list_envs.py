"""List the tasks with their times to the target and their panels."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("list_envs")
