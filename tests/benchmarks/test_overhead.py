"""Overhead is computed from iterations during which both trainings ran."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import overhead as bench_overhead


def pair(
    monkeypatch: pytest.MonkeyPatch, metered: list[float], plain: list[float], in_turn: bool = False
) -> bench_overhead.Pair:
    """Return a pair whose iterations of 10 steps ended at these times."""
    beats_s = {"metered": metered, "plain": plain}

    def train(arm: str, training: bench_overhead._Training, cores: Sequence[int]) -> bench_overhead._Loop:
        return bench_overhead._Loop(beats_s=beats_s[arm], steps_per_beat=10)

    monkeypatch.setattr(bench_overhead, "_train", train)
    monkeypatch.setattr(bench_overhead.os, "sched_getaffinity", lambda _: {0, 1})
    training = bench_overhead._Training(
        task="T", rl_library="rsl_rl", num_envs=10, max_iterations=6, skip=1, device="cpu", in_turn=in_turn
    )
    return bench_overhead._pair(("plain", "metered"), training)


def test_only_the_time_when_both_trainings_run_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_start = [9.0, 10.0, 12.0, 14.0, 16.0]  # the first second is before the other one's loop
    slow_end = [10.0, 11.0, 12.0, 13.0, 14.0, 24.0]  # and the last ten come after this one's
    found = pair(monkeypatch, metered=slow_start, plain=slow_end)
    assert (found.metered_steps_per_s, found.plain_steps_per_s, found.ratio) == (5.0, 10.0, 0.5)
    assert (found.iterations, found.first, found.together) == (3, "plain", True)


def test_trainings_in_turn_count_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pair(monkeypatch, metered=[1.0, 2.0, 3.0], plain=[7.0, 9.0, 11.0], in_turn=True)
    assert (found.metered_steps_per_s, found.plain_steps_per_s, found.together) == (10.0, 5.0, False)
