"""The benchmark against an older checkout measures both in turns, each with its own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import regress
from benchmarks.regress import bench_regress


def checkout(folder: Path, sleeps_s: float) -> Path:
    """Write a checkout whose ``--help`` takes a while."""
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "train.py").write_text(f"import time\ntime.sleep({sleeps_s})\n")
    return folder


def test_both_checkouts_are_measured_as_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(regress, "ROOT", checkout(tmp_path / "new", 0.0))
    old = checkout(tmp_path / "old", 0.5)
    assert bench_regress([str(old), "--parts", "help", "--rounds", "2"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    assert row.startswith("train.py --help [s]") and float(row.split()[-1]) < 0.7
