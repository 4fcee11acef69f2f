"""Programs that read a ledger from a disk that fails, or write beside one."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from ledger_lab.cli.export import export_ledger
from ledger_lab.errors import UserError
from tests.conftest import script
from tests.fakes.ledgers import write_run
from tests.faults.conftest import Disk

READERS = {
    "report": ["report"],
    "sql": ["report", "query", "select * from runs"],
    "verify": ["verify_ledger"],
    "log_run": ["log_run", "--to", "tensorboard", "--once"],
}


def ask(reader: str, ledger: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a reader."""
    name, *flags = READERS[reader]
    which: list[str | Path] = [ledger / "rsl_rl" / "e" / "aa"] if reader == "log_run" else ["--log_root", ledger]
    return script(name, *flags, *which, *more)


@pytest.fixture
def ledger(disk: Disk) -> Path:
    """A ledger with one run."""
    write_run(disk.behind, "aa")
    return disk.path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("fault", [{"error": "EIO", "operations": ["read"]}, {"error": "ESTALE"}])
def test_what_cannot_be_read_is_named_in_one_line(
    disk: Disk, ledger: Path, reader: str, fault: dict[str, str], tmp_path: Path
) -> None:
    disk.fail(**fault)
    done = ask(reader, ledger, *(["--dir", tmp_path / "board"] if reader == "log_run" else []))
    partly = reader == "verify" and fault["error"] == "EIO"  # it names the journal, and checks the rest
    status, said = (1, done.stdout.splitlines()[:1]) if partly else (2, done.stderr.splitlines())
    assert done.returncode == status
    (line,) = said
    assert str(ledger) in line and os.strerror(5 if fault["error"] == "EIO" else 116) in line


@pytest.mark.parametrize("reader", ["report", "sql", "verify"])
def test_a_read_only_ledger_can_be_read(disk: Disk, ledger: Path, reader: str) -> None:
    disk.fail("EROFS")
    done = ask(reader, ledger)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS"])
def test_an_export_that_cannot_write_says_so_in_one_line_and_leaves_nothing(
    disk: Disk, ledger: Path, error: str
) -> None:
    disk.fail(error, operations=["write", "fsync"])
    with pytest.raises(UserError, match=f"runs.parquet: {os.strerror(getattr(errno, error))}") as refused:
        export_ledger(["--log_root", str(disk.behind), "--to", str(disk.path / "tables")])
    assert len(str(refused.value).splitlines()) == 1
    assert list((disk.behind / "tables").iterdir()) == []


@pytest.mark.parametrize("error", ["EDQUOT", "EROFS"])
def test_a_logger_that_cannot_write_says_so_in_one_line(disk: Disk, ledger: Path, error: str) -> None:
    disk.fail(error)
    done = ask("log_run", disk.behind, "--dir", disk.path / "board")
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr and "board" in done.stderr
