"""List the tasks, the physics they run on, and the panels that judge them."""

from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    from ledger_lab.commands.list_tasks import list_tasks

    run_script(list_tasks)
