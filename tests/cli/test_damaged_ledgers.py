"""For a damaged ledger, ``report.py`` prints one line with file and line, and exits with status 2."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.cli.verify import verify_ledger
from ledger_lab.errors import UserError
from ledger_lab.ledger import Journal, LedgerDamageError, SupervisionStarted, TelemetryStarted, declare_cohort
from ledger_lab.ledger.encoding import GENESIS, encode_line
from tests.fakes.ledgers import write_run


def tampered(run_dir: Path) -> str:
    path = run_dir / "journal-1-0.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"env_steps":40', b'"env_steps":99', 1))
    return r"journal-1-0\.jsonl:4: the row does not match its hash"


def rechained(run_dir: Path) -> str:
    path = run_dir / "journal-1-0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    return r"journal-1-0\.jsonl:4: the row does not follow the row before it"


def claimed_twice(run_dir: Path) -> str:
    lines = (run_dir / "journal-1-0.jsonl").read_bytes().splitlines()
    data = re.search(rb'"data":(.*),"prev"', lines[1])
    assert data is not None
    line = encode_line(0, "2026-01-01T00:00:00.000+00:00", "AttemptStarted", data[1], GENESIS)
    (run_dir / "journal-2-0.jsonl").write_bytes(line)
    return r"journal-2-0\.jsonl:1: journal-1-0\.jsonl claims to be rank 0 of attempt 1, too"


def declared_twice(run_dir: Path) -> str:
    lines = (run_dir / "journal-1-0.jsonl").read_bytes().splitlines()
    data = re.search(rb'"data":(.*),"prev"', lines[0])
    assert data is not None
    line = encode_line(0, "2026-01-01T00:00:00.000+00:00", "RunDeclared", data[1], GENESIS)
    (run_dir / "journal-2-0.jsonl").write_bytes(line)
    return r"journal-2-0\.jsonl:1: run aa is declared here already"


def from_the_future(run_dir: Path) -> str:
    path = run_dir / "journal-1-0.jsonl"
    path.write_bytes(path.read_bytes().replace(b'{"v":2,', b'{"v":3,"sharded":true,'))
    return r"journal-1-0\.jsonl:1: format version 3 is not 2, which this LedgerLab reads"


def rubbish(run_dir: Path) -> str:
    (run_dir / "journal-9-0.jsonl").write_bytes(random.Random(1).randbytes(100_000))
    return r"journal-9-0\.jsonl:1: the line is not JSON"


def rubbish_without_lines(run_dir: Path) -> str:
    (run_dir / "journal-9-0.jsonl").write_bytes(random.Random(1).randbytes(100_000).replace(b"\n", b""))
    return r"journal-9-0\.jsonl:1: the line has no end, and is not what a stopped writer leaves behind"


def unended(run_dir: Path) -> str:
    path = run_dir / "journal-1-0.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b" ")
    return rf"journal-1-0\.jsonl:{len(content.splitlines())}: the line has no end"


def other_json(run_dir: Path) -> str:
    (run_dir / "journal-9-0.jsonl").write_text('{"level": "info"}\n')
    return r"journal-9-0\.jsonl:1: the line is not a row"


@pytest.mark.parametrize(
    "damage",
    [
        tampered,
        rechained,
        claimed_twice,
        declared_twice,
        from_the_future,
        rubbish,
        rubbish_without_lines,
        unended,
        other_json,
    ],
)
def test_report_describes_damage_in_one_line(tmp_path: Path, damage: Callable[[Path], str]) -> None:
    complaint = damage(write_run(tmp_path / "logs", "aa"))
    with pytest.raises((UserError, LedgerDamageError), match=complaint) as refused:
        build_report(["--log_root", str(tmp_path / "logs")])
    assert "\n" not in str(refused.value)


def two_sizes(run_dir: Path) -> str:
    for size, root in enumerate(("one", "two"), start=1):
        declare_cohort(run_dir.parent / root, "c", size)
    return r"cohort c has 2 runs here, and 1 in "


@pytest.mark.parametrize("contradiction", [claimed_twice, declared_twice, two_sizes])
def test_verification_reports_journals_that_contradict_each_other(
    tmp_path: Path, contradiction: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    complaint = contradiction(write_run(tmp_path / "logs", "aa"))
    assert verify_ledger(["--log_root", str(tmp_path / "logs")]) == 1
    damaged, total = capsys.readouterr().out.splitlines()
    assert re.search(f"damaged: .*{complaint}", damaged), damaged
    assert total.endswith("1 damaged, 0 wrong scores")


def test_verification_continues_after_damage_and_counts_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tampered(write_run(tmp_path / "logs", "aa"))
    torn = write_run(tmp_path / "logs", "bb") / "journal-1-0.jsonl"
    torn.write_bytes(torn.read_bytes()[:-10])
    write_run(tmp_path / "logs", "cc")
    assert verify_ledger(["--log_root", str(tmp_path / "logs")]) == 1
    damaged, unfinished, total = capsys.readouterr().out.splitlines()
    assert damaged.endswith("aa/journal-1-0.jsonl:4: the row does not match its hash")
    assert re.fullmatch(r"torn: .*bb/journal-1-0\.jsonl:11: the writer was stopped within .*", unfinished)
    assert total == "3 journals, 21 rows, 1 torn, 1 damaged, 0 wrong scores"


def test_verification_reports_telemetry_that_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = write_run(tmp_path / "logs", "aa")
    for name in ("journal-1", "journal-evaluation-00"):
        with Journal(run_dir / f"{name}-supervisor.jsonl") as journal:
            attempt = 1 if name == "journal-1" else None
            journal.append(SupervisionStarted(run_id="aa", attempt=attempt, pid=2**22 + 2, host="h", wall_ns=0))
        with Journal(run_dir / f"{name}-telemetry.jsonl") as journal:
            journal.append(TelemetryStarted(run_id="aa", attempt=attempt, rank=0))
    assert verify_ledger(["--log_root", str(tmp_path / "logs")]) == 0
    assert "telemetry" not in capsys.readouterr().out
    for path in run_dir.glob("*-telemetry.jsonl"):
        path.unlink()
    assert verify_ledger(["--log_root", str(tmp_path / "logs")]) == 0
    missing, total = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"telemetry left out: of 2 supervised processes; .*journal-1-supervisor\.jsonl", missing)
    assert total == "3 journals, 13 rows, 0 torn, 0 damaged, 0 wrong scores"
