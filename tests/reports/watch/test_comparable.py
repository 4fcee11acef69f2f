"""Which runs say something about the time of another run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledger_lab.reports.watch.progress import settings_of
from tests.fakes.ledgers import declared

RUN = declared("aa", hardware={"cpu": "Xeon", "cpu_cores": 4}, request={"cpu_threads": None})


def test_other_seeds_say_something() -> None:
    assert settings_of(replace(RUN, run_id="bb", seed=2)) == settings_of(RUN)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_envs": 20},
        {"hardware": {"cpu": "EPYC", "cpu_cores": 4}},
        {"hardware": {"cpu": "Xeon", "cpu_cores": 8}},
        {"hardware": {"cpu": "Xeon", "cpu_cores": 4, "cpu_quota": 2.0}},
        {"request": {"cpu_threads": 1}},
    ],
)
def test_other_settings_and_machines_say_nothing(changes: dict[str, Any]) -> None:
    assert settings_of(replace(RUN, **changes)) != settings_of(RUN)
