"""List the tasks, the physics they run on, and the panels that judge them."""

from ledger_lab.pipeline.script import run_script

if __name__ == "__main__":
    from ledger_lab.pipeline.list_tasks import list_tasks

    run_script(list_tasks)
