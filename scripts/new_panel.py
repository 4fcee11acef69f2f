"""Write a panel file for a registered task, filled from its configuration."""

from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    from ledger_lab.evaluation.new_panel import new_panel

    run_script(new_panel)
