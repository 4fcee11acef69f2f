"""The benchmark of the start reads the stages from what a training prints."""

from __future__ import annotations

from benchmarks.startup import Spent, stages

LINES = [
    "run abc · LedgerLab-Cartpole",
    "starting the simulation …",
    "training, iteration …",
    "training, iteration 1/1",
    "✗ NOT SCORED",
    "",
]


def moments(lines: list[str]) -> list[tuple[str, Spent]]:
    return [(line, Spent(float(place**2), 2.0 * place**2)) for place, line in enumerate(lines, 1)]


def test_a_stage_ends_at_the_first_line_after_it() -> None:
    found = stages(moments(LINES))
    assert {name: spent.cpu_s for name, spent in found.items()} == {
        "check": 1,
        "simulation": 8,
        "training": 16,
        "end": 11,
    }
    assert sum(spent.wall_s for spent in found.values()) == 2 * 36
