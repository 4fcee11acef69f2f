"""Which machine, how many processes and which library for a task: from measured runs, and from what their laws predict.

:mod:`~ledger_lab.studies.recommend.options` estimates the time and the cost of measured configurations,
:mod:`~ledger_lab.studies.recommend.predicted` predicts them for sizes that nobody trained, and
:mod:`~ledger_lab.studies.recommend.choice` chooses among them.
"""
