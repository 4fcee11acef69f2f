"""A ledger is read again and again: each time only what is new, and always what a new reader would read."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from ledger_lab.ledger import Status, declare_cohort, read_ledger
from ledger_lab.ledger import directories as directories_module
from ledger_lab.ledger.digest import Digest, digest_journal
from ledger_lab.ledger.follow import LedgerFollower
from ledger_lab.reports import summarize_run
from tests.fakes.ledgers import write_run
from tests.fakes.live import LiveTraining


def digests(follower: LedgerFollower, root: Path) -> tuple[dict[Path, Digest], dict[Path, Digest]]:
    """Return the digests of a follower and of a new reader, by journal."""
    followed = {journal.path: journal.digest for journal in follower.read().journals}
    return followed, {journal.path: journal.digest for journal in read_ledger(root).journals}


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Names of the journals that are digested, and the row from which on."""
    seen: list[tuple[str, int]] = []

    def noted(path: Path, *, thorough: bool = True, earlier: Digest | None = None):  # noqa: ANN202 - as the original
        seen.append((f"{path.parent.name}/{path.name}", 0 if earlier is None else earlier.rows))
        return digest_journal(path, thorough=thorough, earlier=earlier)

    monkeypatch.setattr(directories_module, "digest_journal", noted)
    return seen


def test_only_new_rows_are_read_and_unchanged_runs_stay_the_same(
    tmp_path: Path, read_bytes: list[tuple[str, int]]
) -> None:
    write_run(tmp_path, "done")
    with LiveTraining(tmp_path, "live") as training:
        follower = LedgerFollower(tmp_path)
        done, live = follower.read().runs
        read_bytes.clear()
        follower.read()
        assert (read_bytes, follower.changes) == ([], 1)
        training.iterate(3)
        again, grown = follower.read().runs
        assert again is done
        assert (live.rows, grown.rows) == (3, 6)
        assert grown.attempts[0].windows[-1].iteration == 3
        assert read_bytes == [("live/journal-1-0.jsonl", 3)]
        assert live.attempts[0].windows == [grown.attempts[0].windows[0]], "a run that was read before stays as it was"


def test_a_follower_finds_what_a_new_reader_finds_whatever_happens(tmp_path: Path) -> None:
    follower = LedgerFollower(tmp_path)
    assert follower.read().runs == ()
    with LiveTraining(tmp_path, "aa", cohort="c") as training:
        journal = training.directory / "journal-1-0.jsonl"
        for step in range(30):
            training.iterate(40)  # a tally comes now and then
            if step % 7 == 0:
                training.save(5)
            followed, read = digests(follower, tmp_path)
            assert followed == read
        declare_cohort(tmp_path, "c", 3)
        assert follower.read().cohorts == read_ledger(tmp_path).cohorts
        training.end()
    followed, read = digests(follower, tmp_path)
    assert followed == read
    assert asdict(summarize_run(follower.read().runs[0])) == asdict(summarize_run(read_ledger(tmp_path).runs[0]))
    write_run(tmp_path, "bb")
    assert [run.run_id for run in follower.read().runs] == ["aa", "bb"]
    packed = journal.with_name(f"{journal.name}.gz")
    packed.write_bytes(gzip.compress(journal.read_bytes()))
    journal.unlink()
    followed, read = digests(follower, tmp_path)
    assert followed == read and packed in followed
    shutil.rmtree(journal.parent)
    assert [run.run_id for run in follower.read().runs] == ["bb"]


def test_a_torn_last_line_is_read_again_when_it_is_whole(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", status=None)
    path = run_dir / "journal-1-0.jsonl"
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    path.write_bytes(whole[: last + 20])
    follower = LedgerFollower(tmp_path)
    (torn,) = follower.read().journals
    assert torn.torn_bytes == 20
    with path.open("ab") as file:
        file.write(whole[last + 20 :])
    (complete,) = follower.read().journals
    assert (complete.torn_bytes, complete.count) == (0, torn.count + 1)


def test_damage_is_told_and_a_replaced_journal_is_read_as_a_whole(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", status=Status.COMPLETED)
    write_run(tmp_path, "bb")
    follower = LedgerFollower(tmp_path)
    assert len(follower.read().runs) == 2
    path = run_dir / "journal-1-0.jsonl"
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(json.dumps({"not": "a row"}).encode() + b"\n")
    damaged = follower.read()
    assert [run.run_id for run in damaged.runs] == ["bb"]
    assert [each.path for each in damaged.damage] == [path]
    assert len(follower.read().damage) == 1
    path.unlink()
    path.write_bytes(whole)
    assert (len(follower.read().runs), follower.read().damage) == (2, ())


def test_a_journal_that_is_overwritten_with_a_longer_one_is_read_as_a_whole(tmp_path: Path) -> None:
    path = write_run(tmp_path / "followed", "aa") / "journal-1-0.jsonl"
    with LiveTraining(tmp_path / "other", "aa") as training:
        training.iterate(50)
    follower = LedgerFollower(tmp_path / "followed")
    follower.read()
    path.write_bytes((training.directory / path.name).read_bytes())  # the inode stays
    followed, read = digests(follower, tmp_path / "followed")
    assert followed == read and len(follower.read().runs) == 1


def test_a_run_whose_process_has_vanished_is_lost_without_a_new_row(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with LiveTraining(tmp_path, "aa", pid=process.pid) as training:
        training.iterate()
    follower = LedgerFollower(tmp_path)
    assert follower.read().runs[0].attempts[-1].status is Status.RUNNING
    process.communicate(b"\n")
    assert follower.read().runs[0].attempts[-1].status is Status.LOST
    assert follower.changes == 1
