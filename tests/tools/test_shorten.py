"""Evaluations of a record are shortened to the proven checkpoint, and nothing else changes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ledger_lab.cli.verify import verify_ledger
from ledger_lab.errors import UserError
from ledger_lab.ledger import CapacityUsed, PanelResult, read_ledger
from tests.fakes.ledgers import write_run
from tests.tools.test_records import FIELDS, evaluated
from tools.shorten import shorten


def results(root: Path) -> list[PanelResult]:
    """Return the scores of all evaluations."""
    return [row for run in read_ledger(root).runs for each in run.evaluations for row in each.of(PanelResult)]


def size_of(folder: Path) -> int:
    """Return the size of the files in a folder [B]."""
    return sum(path.stat().st_size for path in folder.iterdir())


def test_only_the_scores_of_the_proven_checkpoint_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir, other = (write_run(tmp_path, run_id, proof=9) for run_id in ("aa", "bb"))
    evaluated(run_dir, {"model_1.pt": 3, "model_2.pt": 9}, FIELDS)
    evaluated(run_dir, {"model_1.pt": 4, "model_2.pt": 8}, FIELDS)
    path = run_dir / "journal-evaluation-1-0.jsonl"
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    evaluated(other, {"model_2.pt": 7}, FIELDS)
    untouched = {path: path.read_bytes() for path in (run_dir / "journal-1-0.jsonl", *other.iterdir())}
    whole, size = results(tmp_path), size_of(run_dir)

    lost = shorten(tmp_path)

    assert results(tmp_path) == [row for row in whole if row.checkpoint == "model_2.pt"]
    assert len(results(tmp_path)) == 3
    assert lost == size - size_of(run_dir) > 0
    assert {path: path.read_bytes() for path in untouched} == untouched
    assert all(len(each.of(CapacityUsed)) == 1 for run in read_ledger(tmp_path).runs for each in run.evaluations)
    verify_ledger(["--log_root", str(tmp_path)])
    assert "5 journals, 33 rows, 0 torn, 0 damaged" in capsys.readouterr().out
    assert shorten(tmp_path) == 0, "nothing is left to shorten"


def test_a_run_without_a_proven_checkpoint_is_refused(tmp_path: Path) -> None:
    run_dir, proven = write_run(tmp_path, "aa"), write_run(tmp_path, "bb", proof=9)
    for each in (run_dir, proven):
        evaluated(each, {"model_1.pt": 3, "model_2.pt": 9}, FIELDS)
    whole = results(tmp_path)
    with pytest.raises(UserError, match="aa has an evaluation without scores of a proven checkpoint"):
        shorten(tmp_path)
    assert results(tmp_path) == whole
    with pytest.raises(UserError, match="no runs below"):
        shorten(tmp_path / "nowhere")
