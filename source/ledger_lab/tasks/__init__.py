"""The task pack; :mod:`ledger_lab.tasks.registered` registers the tasks."""
