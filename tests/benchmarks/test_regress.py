"""The benchmark against an older checkout measures both in turns, each with its own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import regress
from benchmarks.regress import Checkout, bench_regress, ratios
from ledger_lab.errors import UserError


def checkout(folder: Path, sleeps_s: float) -> Path:
    """Write a checkout whose ``--help`` takes a while."""
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "train.py").write_text(f"import time\ntime.sleep({sleeps_s})\n")
    return folder


def test_the_ratio_of_the_medians_tells_which_is_slower(tmp_path: Path) -> None:
    new, old = Checkout(tmp_path / "new"), Checkout(tmp_path / "old")
    for value in (1.0, 9.0, 2.0):
        new.note("a", value)
    old.note("a", 4.0)
    assert ratios(new, old) == [("a", 4.0, 2.0, 0.5)]


def test_both_checkouts_are_measured_as_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(regress, "ROOT", checkout(tmp_path / "new", 0.0))
    old = checkout(tmp_path / "old", 0.5)
    assert bench_regress([str(old), "--parts", "help", "--rounds", "2"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    assert row.startswith("train.py --help [s]") and float(row.split()[-1]) < 0.7


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no scripts/train\.py"):
        bench_regress([str(tmp_path)])
