"""Which machine, how many processes and which library for a task: a choice among the configurations that were measured.

:mod:`~ledger_lab.studies.recommend.estimates` estimates the time and the cost of a configuration from its runs, and
:mod:`~ledger_lab.studies.recommend.recommendation` chooses.
"""
