"""The benchmark of preemptions reports wrong exit statuses."""

from __future__ import annotations

import pytest

from benchmarks.preemptions import Interruption, wrong_exits


@pytest.mark.parametrize(
    ("how", "right", "wrong"),
    [
        ("SIGTERM", 75, 143),
        ("SIGUSR1", 75, 138),
        ("SIGKILL training", 137, 1),
        ("SIGKILL supervisor", -9, 75),
        ("SIGKILL both", -9, 137),
    ],
)
def test_an_exit_status_that_a_scheduler_would_not_requeue_is_reported(how: str, right: int, wrong: int) -> None:
    first, second = (
        Interruption(how=how, attempt=None, life_s=1.0, exit_status=status, starting=True) for status in (right, wrong)
    )
    assert list(wrong_exits([first, second])) == [
        f"interruption 2, by {how} in start-up: exit status {wrong}, not {right}"
    ]
