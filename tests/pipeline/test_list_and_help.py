"""The programs explain themselves."""

from __future__ import annotations

import pytest

from tests.conftest import script


def test_the_tasks_are_listed_with_their_panels() -> None:
    finished = script("list_envs")
    assert finished.returncode == 0, finished.stderr
    (row,) = [line for line in finished.stdout.splitlines() if line.startswith("LedgerLab-Cartpole")]
    for word in ("rsl_rl", "newton_mjwarp", "ovphysx", "cartpole_v1", "p1-", "256", "90 %"):
        assert word in row


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (
            "train",
            ["--task", "LedgerLab-Cartpole"],
            ["--rl_library", "--cohort_size", "- newton_kamino", "--viz", "reward_hacking:"],
        ),
        ("evaluate", [], ["RUN_OR_CHECKPOINT", "--panel"]),
        ("profile_run", [], ["--trace", "--nsys", "--iterations"]),
        ("play", [], ["--video_length"]),
        ("export_policy", [], ["contract.json", "--tolerance"]),
        ("report", [], ["--json", "--checkpoints", "--prices"]),
        ("import_prices", [], ["--spot", "--region", "catalog.zip"]),
        ("verify_ledger", [], ["--log_root"]),
        ("bench", ["overhead"], ["--pairs"]),
    ],
)
def test_help_teaches(name: str, arguments: list[str], words: list[str]) -> None:
    finished = script(name, *arguments, "--help")
    assert finished.returncode == 0, finished.stderr
    for word in words:
        assert word in finished.stdout
