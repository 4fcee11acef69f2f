"""Runs sorted into strong and weak scaling, and what they have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_lab.studies.scaling.laws import BatchFit, Kind, RateFit, Refusal
from ledger_lab.studies.scaling.points import find_studies, point_of
from tests.fakes.scaled import scaled


def test_runs_are_points_of_strong_and_weak_studies() -> None:
    runs = [scaled(*size) for size in ((1, 128), (2, 64), (4, 32), (1, 64), (1, 1000))]
    found = {study.kind: [(point.processes, point.num_envs) for point in study.points] for study in find_studies(runs)}
    assert found == {
        Kind.STRONG: [(1, 128), (2, 64), (4, 32)],
        Kind.WEAK: [(1, 64), (2, 64)],
        Kind.OTHER: [(1, 1000)],
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "U"}, {"panel_id": "p1-bb"}, {"target_success": 0.8}, {"physics": "ovphysx"}, {"instance": "other"},
        {"eval_every": 2}, {"device": "cuda:0"}, {"hardware": {"accelerator": "L40"}}, {"rl_library": "skrl"},
    ],
)  # fmt: skip
def test_runs_that_differ_in_more_than_their_size_are_never_mixed(changes: dict[str, object]) -> None:
    runs = [scaled(1, 64), scaled(2, 64, **changes)]
    assert [study.kind for study in find_studies(runs)] == [Kind.OTHER, Kind.OTHER]
    assert [study.kind for study in find_studies([scaled(1, 64), scaled(2, 64, device="cpu")])] == [Kind.WEAK]


def test_efficiency_of_the_training_is_that_of_the_rate_times_that_of_the_samples() -> None:
    (study,) = find_studies([scaled(1, 64, rate=1000.0, steps=8192), scaled(4, 64, rate=3000.0, steps=10240)])
    _, found = study.points
    assert (found.speed_up, found.of_rate, found.of_samples) == pytest.approx((3.0, 0.75, 0.8))
    assert found.of_training == pytest.approx(0.6)
    assert found.of_time == pytest.approx((3 + 8.192) / (4 * (3 + 10.24 / 3))), "with start-up and scoring"


def test_a_median_counts_runs_that_missed_the_target() -> None:
    times = [scaled(steps=1000), scaled(steps=2000), scaled(steps=500, reached=False)]
    assert point_of(times).steps_to_target == 2000
    assert point_of([*times, scaled(steps=500, reached=False)]).steps_to_target is None
    unpriced = [times[1], replace(times[0], cost_to_target_usd=None)]
    assert point_of(unpriced).cost_to_target_usd is None, "no price is no miss"


def test_steps_to_the_target_are_fitted_over_all_sizes_with_misses_as_censored() -> None:
    def runs(num_envs: int, *steps: int) -> list:
        return [scaled(1, num_envs, steps=each) for each in steps]

    critical, fewest = 4096, 100_000
    some = [
        run
        for num_envs in (64, 128, 256, 512)
        for run in runs(num_envs, *(round(fewest * (1 + num_envs * 16 / critical) * way) for way in (0.99, 1.01)))
    ]
    missed = scaled(1, 512, steps=250_000, reached=False)
    crashed = scaled(1, 512, steps=0, reached=False, status="crashed")
    for study in find_studies([*some, missed, crashed]):
        fit = study.batch_law
        assert isinstance(fit, BatchFit)
        assert (fit.runs, fit.censored) == (9, 1), "a run that never trained tells nothing"
        assert fit.critical_batch.value == pytest.approx(critical, rel=0.05)
    last_step = scaled(1, 64, steps=1024, max_iterations=1)
    assert isinstance(find_studies([last_step])[0].batch_law, Refusal), (
        "reached with its last step: nothing contradictory"
    )
    replaying = [replace(run, summary=replace(run.summary, algorithm="sac")) for run in some]
    for study in find_studies(replaying):
        assert isinstance(study.batch_law, Refusal) and "with a replay memory" in study.batch_law.reason


def test_a_missing_fit_says_why() -> None:
    weak = find_studies([scaled(1, 64), scaled(2, 64)])[0]
    assert weak.rate_law == Refusal("Gustafson's law needs 3 sizes, and there are 2")
    other = find_studies([scaled(1, 64), scaled(1, 128)])[0]
    assert isinstance(other.rate_law, Refusal)
    assert "neither the environments in all nor those of a process" in other.rate_law.reason


def test_rates_of_equally_many_processes_on_different_machines_are_not_fitted_together() -> None:
    sizes = [(1, 1), (2, 1), (4, 1), (4, 2)]
    runs = [scaled(n, 64, machines=machines, run_id=f"{n}-{machines}") for n, machines in sizes]
    (mixed,) = find_studies(runs)
    assert mixed.rate_law == Refusal(
        "4 processes ran on different numbers of machines, and a law has one rate for each number of processes: name "
        "the runs or cohorts of one of them"
    )
    for left_out in ("4-1", "4-2"):
        (study,) = find_studies([run for run in runs if run.run_id != left_out])
        assert isinstance(study.rate_law, RateFit) and study.rate_law.sizes == (1, 2, 4)
