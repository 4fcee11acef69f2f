"""``--cohort``, ``--cohort_size`` and ``--prices`` of ``train.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import CohortDeclared, cohort_journal, declare_cohort, read_journal

BOOK = """
[instances.local]
market = "owned"
accelerators = 1
purchase_usd = 8766
lifetime_years = 2
utilization = 0.5
usd_per_kwh = 0.3
power_w = 400
billing_granularity_s = 1
billing_minimum_s = 0
source = "invoice 123"
date = "2026-02-03"
"""


def planned(log_root: Path, *arguments: str) -> Any:
    """Plan a training of the cart-pole, and make its directory."""
    from ledger_lab.training.plan import plan_training
    from ledger_lab.training.request import TrainRequest
    from ledger_lab.training.run import make_run_dir
    from ledger_lab.training.runners.command_line import parse

    argv = [*arguments, "--device", "cpu", "--log_root", str(log_root)]
    plan = plan_training(parse(TrainRequest, argv))
    make_run_dir(plan)
    return plan


def test_the_first_run_declares_a_cohort_and_later_runs_join_it(tmp_path: Path) -> None:
    first = planned(tmp_path, "--cohort", "c", "--cohort_size", "3")
    second = planned(tmp_path, "--cohort", "c")
    assert (first.request.cohort, second.request.cohort) == ("c", "c")
    assert read_journal(cohort_journal(tmp_path, "c")).rows == (CohortDeclared(cohort="c", size=3),)


def test_another_cohort_size_is_refused_and_leaves_no_run(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 3)
    with pytest.raises(UserError, match=r"--cohort_size 4: cohort c was declared with 3 runs") as caught:
        planned(tmp_path, "--cohort", "c", "--cohort_size", "4")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["cohorts"]


def test_a_price_file_of_the_user_may_price_the_local_machine(tmp_path: Path) -> None:
    (tmp_path / "book.toml").write_text(BOOK)
    plan = planned(tmp_path / "logs", "--prices", str(tmp_path / "book.toml"))
    assert [plan.declared.price[name] for name in ("instance", "market", "usd_per_hour")] == [
        "local",
        "owned",
        pytest.approx(1.0),
    ]
