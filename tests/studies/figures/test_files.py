"""``report.py scaling --figures`` writes the figures of scaling studies, or says why there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.studies.figures.scaling import draw_ledger
from tests.conftest import script
from tests.fakes.ledgers import write_further_rank, write_run


def write_sizes(root: Path, sizes: tuple[int, ...] = (1, 2), **changes: object) -> None:
    for processes in sizes:
        run_dir = write_run(root, f"r{processes}", confirmation=10, world_size=processes, **changes)  # type: ignore[arg-type]
        for rank in range(1, processes):
            write_further_rank(run_dir, rank)


def test_the_program_writes_and_lists_the_figures(tmp_path: Path) -> None:
    write_sizes(tmp_path / "logs")
    finished = script("report", "scaling", "--log_root", tmp_path / "logs", "--figures", tmp_path / "new" / "figures")
    assert (finished.returncode, finished.stderr) == (0, "")
    names = [f"t-rsl-rl-{what}" for what in ("weak-rate", "weak-time", "weak-phases", "steps-against-batch")]
    written = {path.name for path in (tmp_path / "new" / "figures").iterdir()}
    assert written == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert all(name in finished.stdout for name in written)
    assert "not fitted: Gustafson's law needs 3 sizes, and there are 2" in finished.stdout


def test_a_ledger_with_one_size_has_no_figure_and_no_folder(tmp_path: Path) -> None:
    write_sizes(tmp_path / "logs", (1,))
    with pytest.raises(UserError, match="no figure: .* several numbers of processes"):
        build_report(["scaling", "--log_root", str(tmp_path / "logs"), "--figures", str(tmp_path / "figures")])
    assert not (tmp_path / "figures").exists()


def test_a_file_is_no_folder_for_figures(tmp_path: Path) -> None:
    write_sizes(tmp_path, (1, 2))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--figures .*file: it is no folder: name a folder"):
        build_report(["scaling", "--log_root", str(tmp_path), "--figures", str(tmp_path / "file")])


def test_figures_and_json_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be used"):
        build_report(["scaling", "--figures", str(tmp_path), "--json", "-"])


def test_runs_for_other_targets_are_no_sizes_of_a_study(tmp_path: Path) -> None:
    write_sizes(tmp_path, (1,))
    write_run(tmp_path, "other", num_envs=20, target_success=0.5)
    runs = read_ledger(tmp_path).runs
    assert draw_ledger(runs, [summarize_run(run) for run in runs]) == []
