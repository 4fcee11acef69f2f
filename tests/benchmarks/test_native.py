"""``python -m benchmarks native`` compares engines in turn, and each turn with the one beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import constraint_rows, native
from ledger_lab.errors import UserError


def test_ratios_are_of_turns_that_follow_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    slow = iter([1.0, 4.0, 1.0])  # the machine is slower during the second pair
    asked = []

    def run_python(arguments: Sequence[str], what: str) -> str:
        asked.append(list(arguments[2:]))
        nonlocal factor
        if arguments[3] == "newton_mjwarp":
            factor = next(slow)
            return "lines of Isaac Lab\n" + json.dumps({"step_us": 900.0 * factor, "physics_us": 800.0 * factor}) + "\n"
        own = {"step_us": 300.0 * factor, "physics_us": 200.0 * factor, "mujoco_us": 150.0 * factor}
        return json.dumps(own) + "\n"

    factor = 1.0
    monkeypatch.setattr(native, "run_python", run_python)
    monkeypatch.setattr(native, "require_tasks", lambda tasks: None)
    written = tmp_path / "found.json"
    arguments = ["--tasks", "Some-Task", "--threads", "2", "--num_envs", "64", "--steps", "5", "--json", str(written)]
    assert native.bench_native(arguments) == 0
    assert asked == 3 * [
        ["Some-Task", "newton_mjwarp", "1", "64", "5"],
        ["Some-Task", "newton_mujoco", "2", "64", "5"],
    ]
    line = next(line for line in capsys.readouterr().out.splitlines() if "newton_mujoco" in line)
    assert line.split() == ["Some-Task", "newton_mujoco", "2", "213,333", "3.00", "75%"]
    assert [len(figure["turns"]) for figure in json.loads(written.read_text())["figures"]] == [3, 3]


@pytest.mark.parametrize("bench", [native.bench_native, constraint_rows.bench_constraint_rows])
def test_unknown_tasks_are_refused_before_a_simulation_starts(bench: Callable[[list[str]], int]) -> None:
    with pytest.raises(UserError, match="unknown task 'LedgerLab-Antt': did you mean 'LedgerLab-Ant'"):
        bench(["--tasks", "LedgerLab-Antt"])


def test_sizes_must_be_positive() -> None:
    with pytest.raises(UserError, match="must be at least 1"):
        native.bench_native(["--threads", "0"])
