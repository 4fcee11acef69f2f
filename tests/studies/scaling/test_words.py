"""What scaling studies say in sentences."""

from __future__ import annotations

import pytest

from ledger_lab.reports.terminal.console import make_console
from ledger_lab.studies.scaling.laws import Law, RateFit
from ledger_lab.studies.scaling.points import ScaledRun, find_studies
from ledger_lab.studies.scaling.view import (
    few_iterations_line,
    law_lines,
    price_line,
    render_studies,
)
from tests.fakes.scaled import HORIZON, scaled


def test_different_prices_are_told() -> None:
    """Medians of the cost over such runs, and comparisons of sizes, would mix the prices."""
    one, two, none = scaled(usd_per_hour=1.0), scaled(usd_per_hour=2.5), scaled(usd_per_hour=None)
    assert price_line([one, two, two]) == (
        "prices differ ($1/h, $2.5/h), so costs cannot be compared: set one price for all runs with --instance or "
        "--usd_per_hour"
    )
    assert "prices differ ($1/h, none for 2 runs), so" in str(price_line([one, none, none]))
    assert price_line([one, one]) is None and price_line([none, none]) is None


def test_rates_of_few_iterations_are_cautioned() -> None:
    def line(*iterations: int) -> str | None:
        runs = [scaled(2, 64, steps=each * 2 * 64 * HORIZON) for each in iterations]
        (study,) = find_studies(runs)
        return few_iterations_line(study.points[0])

    assert line(10, 11) is None
    assert str(line(2, 9, 10)).startswith("2 × 64: 2 of 3 runs trained fewer than 10 iterations: rates, speed-up")
    assert str(line(1)).startswith("2 × 64: 1 of 1 run trained")


def test_coefficients_at_their_bound_have_no_digits() -> None:
    sizes = [1, 2, 4, 8, 16, 32]
    (said, *_) = law_lines(RateFit(Law.AMDAHL, sizes, [1000.0 * size for size in sizes]))
    assert "contention 0.0 %" in said
    runs = [scaled(1, envs, steps=100 * envs, run_id=f"{envs}-{seed}") for envs in (64, 128, 256) for seed in (1, 2)]
    (study,) = find_studies(runs)
    (said, *_) = law_lines(study.batch_law)
    assert "E_min < 1 " in said and "critical batch < 1 " in said


@pytest.mark.parametrize("machines", [1, 2])
def test_sizes_on_several_machines_are_told_apart(machines: int, capfd: pytest.CaptureFixture[str]) -> None:
    def run(processes: int, machines: int) -> ScaledRun:
        return scaled(processes, 64, machines=machines, run_id=f"{processes}-{machines}")

    make_console().print(render_studies(find_studies([run(4, 1), run(4, machines)]), 200))
    said = capfd.readouterr().out
    assert ("Runs that have only one size" in said) == (machines == 1)
    if machines == 2:
        rows = said.partition("size ")[2].partition("4 × 64:")[0]
        sizes = [line[:20].strip() for line in rows.splitlines()[1:] if line[:1] == "4"]
        assert sizes == ["4 × 64", "4 × 64 on 2 machines"]
