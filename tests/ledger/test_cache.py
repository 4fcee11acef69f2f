"""What a reader knows from the cache never differs from what a reader without a cache finds."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger_lab.errors import UserError
from ledger_lab.ledger import cache as cache_module
from ledger_lab.ledger import content as content_module
from ledger_lab.ledger import declare_cohort, find_journals, read_ledger
from ledger_lab.ledger import reader as reader_module
from ledger_lab.ledger.cache import cache_file
from ledger_lab.reports import summarize_cohorts, summarize_run
from tests.fakes.ledgers import write_run

SETTLED_S = 0.02
"""Age of a change after which the cache keeps it."""

NUMBERS = itertools.count()
"""Numbers of new names."""


@pytest.fixture(autouse=True)
def eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the cache hold small ledgers that were left alone for a moment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(reader_module, "CACHED_FROM", 1)
    monkeypatch.setattr(cache_module, "SETTLED_NS", int(SETTLED_S * 1e9))
    yield


def shown(root: Path) -> object:
    """Return everything that a report can show of a ledger."""
    ledger = read_ledger(root, tolerate_damage=True)
    summaries = [summarize_run(run) for run in ledger.runs]
    journals = [(each.path, each.digest) for each in ledger.journals]
    known = [(run.run_id, run.cohort, run.declared_at, run.rows, run.directory) for run in ledger.runs]
    return summaries, summarize_cohorts(summaries, ledger.cohorts), sorted(map(str, ledger.damage)), journals, known


def shown_without_cache(root: Path, empty: Path) -> object:
    """Return what a reader shows whose cache is empty."""
    with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(empty)}):
        found = shown(root)
    shutil.rmtree(empty, ignore_errors=True)
    return found


def one_of(root: Path, chance: random.Random) -> Path | None:
    journals = [path for path in find_journals(root) if path.is_file()]
    return chance.choice(journals) if journals else None


def grow(root: Path, chance: random.Random) -> None:
    if path := one_of(root, chance):
        with path.open("ab") as file:
            file.write(b'{"v":2,"seq":')


def truncate(root: Path, chance: random.Random) -> None:
    if path := one_of(root, chance):
        os.truncate(path, chance.randrange(path.stat().st_size + 1))


def cut_rows(root: Path, chance: random.Random) -> None:
    if path := one_of(root, chance):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: chance.randrange(len(lines) + 1)]))


def overwrite(root: Path, chance: random.Random) -> None:
    if (path := one_of(root, chance)) and (content := bytearray(path.read_bytes())):
        status = path.stat()
        content[chance.randrange(len(content))] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def delete(root: Path, chance: random.Random) -> None:
    if path := one_of(root, chance):
        path.unlink()


def replace(root: Path, chance: random.Random) -> None:
    path, other = one_of(root, chance), one_of(root, chance)
    if path and other and path != other:
        os.replace(other, path)


def exchange(root: Path, chance: random.Random) -> None:
    path, other = one_of(root, chance), one_of(root, chance)
    if path and other and path != other:
        os.rename(path, root / "aside")
        os.rename(other, path)
        os.rename(root / "aside", other)


def touch(root: Path, chance: random.Random) -> None:
    if path := one_of(root, chance):
        os.utime(path, ns=(0, chance.randrange(1 << 60)))


def rename_run(root: Path, chance: random.Random) -> None:
    if path := one_of(root, chance):
        path.parent.rename(path.parent.with_name(f"renamed-{next(NUMBERS)}"))


def copy_run(root: Path, chance: random.Random) -> None:
    if path := one_of(root, chance):
        shutil.copytree(path.parent, path.parent.with_name(f"copy-{next(NUMBERS)}"), symlinks=True)


def add_run(root: Path, chance: random.Random) -> None:
    write_run(root, f"run-{next(NUMBERS)}", cohort=chance.choice([None, "c"]))


def compress(root: Path, chance: random.Random) -> None:
    if (path := one_of(root, chance)) and path.suffix != ".gz":
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        if chance.random() < 0.5:
            path.unlink()


def declare(root: Path, chance: random.Random) -> None:
    with contextlib.suppress(UserError):  # an earlier edit may have damaged the declaration
        declare_cohort(root, "c", 5)


def make_unreadable(root: Path, chance: random.Random) -> None:
    if (path := one_of(root, chance)) and not (path.parent / "journal-9-0.jsonl").is_symlink():
        (path.parent / "journal-9-0.jsonl").symlink_to(path.parent / "nothing")


def damage_cache(root: Path, chance: random.Random) -> None:
    if (path := cache_file(root)).exists() and (content := bytearray(path.read_bytes())):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)


def cut_cache(root: Path, chance: random.Random) -> None:
    if (path := cache_file(root)).exists():
        os.truncate(path, chance.randrange(path.stat().st_size + 1))


EDITS: list[Callable[[Path, random.Random], None]] = [
    grow, truncate, cut_rows, overwrite, delete, replace, exchange, touch, rename_run, copy_run, add_run, compress,
    declare, make_unreadable, damage_cache, cut_cache,
]  # fmt: skip


@pytest.mark.thorough  # tests below make single edits
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(EDITS), min_size=1, max_size=5), st.randoms(use_true_random=False), st.integers(0, 10**9)
)
def test_a_report_is_that_of_a_reader_without_cache_after_any_edits(
    tmp_path: Path,
    edits: list[Callable[[Path, random.Random], None]],
    chance: random.Random,
    number: int,
) -> None:
    home = tmp_path / f"{number}-{time.monotonic_ns()}"
    root = home / "logs"
    write_run(root, "aa", cohort="c")
    write_run(root, "bb", confirmation=9)
    for edit in [lambda *of: None, *edits]:
        edit(root, chance)
        time.sleep(1.5 * SETTLED_S)
        content_module._recent.clear()
        assert shown(root) == shown_without_cache(root, home / "empty")
    shutil.rmtree(home)


def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list of the journals that are opened for their rows from now on."""
    opened: list[Path] = []
    real = content_module.open_journal
    monkeypatch.setattr(content_module, "open_journal", lambda path, **how: (opened.append(path), real(path, **how))[1])
    return opened


def test_no_journal_of_a_known_run_is_opened_until_a_row_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("aa", "bb"):
        write_run(tmp_path / "logs", run_id, cohort="c")
    time.sleep(1.5 * SETTLED_S)
    first = read_ledger(tmp_path / "logs")
    opened = reads(monkeypatch)
    ledger = read_ledger(tmp_path / "logs")
    assert [(run.run_id, run.cohort, run.rows, run.declared_at) for run in ledger.runs] == [
        (run.run_id, run.cohort, run.rows, run.declared_at) for run in first.runs
    ]
    assert not opened
    assert ledger.runs[1].declared.seed == 1
    assert {path.parent.name for path in opened} == {"bb"}
    assert ledger == first


@pytest.mark.parametrize("mode", [0o622, 0o602])
def test_a_cache_that_others_can_write_is_not_trusted(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "logs", "aa")
    time.sleep(1.5 * SETTLED_S)
    read_ledger(tmp_path / "logs")
    cache_file(tmp_path / "logs").chmod(mode)
    opened = reads(monkeypatch)
    read_ledger(tmp_path / "logs")
    assert opened


def test_a_damaged_size_of_the_table_does_not_exhaust_memory(tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "aa")
    time.sleep(1.5 * SETTLED_S)
    ledger = read_ledger(tmp_path / "logs")
    path = cache_file(tmp_path / "logs")
    content = bytearray(path.read_bytes())
    begin = len(content) - cache_module._END_LENGTH
    content[begin : begin + 16] = b"9" * 16  # digits of the table's size
    path.write_bytes(content)
    assert read_ledger(tmp_path / "logs") == ledger


def test_a_cache_of_other_code_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "logs", "aa")
    time.sleep(1.5 * SETTLED_S)
    read_ledger(tmp_path / "logs")
    monkeypatch.setattr(cache_module, "_code", lambda: b"a later version")
    opened = reads(monkeypatch)
    read_ledger(tmp_path / "logs")
    assert opened


def test_a_journal_that_is_lost_after_it_was_listed_is_told(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "logs", "aa")
    time.sleep(1.5 * SETTLED_S)
    read_ledger(tmp_path / "logs")
    (run,) = read_ledger(tmp_path / "logs").runs
    shutil.rmtree(run_dir)
    for _ in range(2):
        with pytest.raises(Exception, match="its run was removed while the ledger was read"):
            _ = run.declared


@pytest.mark.parametrize("ending", [KeyboardInterrupt, OSError])
def test_an_interrupted_reader_leaves_no_unfinished_cache(tmp_path: Path, ending: type[BaseException]) -> None:
    def entries() -> Iterator[tuple[str, cache_module.Entry]]:
        raise ending
        yield

    with contextlib.suppress(KeyboardInterrupt):
        cache_module.keep(tmp_path, entries())
    assert list(cache_file(tmp_path).parent.iterdir()) == []


def test_the_next_reader_removes_what_a_killed_reader_left(tmp_path: Path) -> None:
    folder = cache_file(tmp_path).parent
    folder.mkdir(parents=True)
    abandoned, written = folder / ".digests-killed", folder / ".digests-being-written"
    abandoned.touch()
    written.touch()
    os.utime(abandoned, (0, 0))
    cache_module.keep(tmp_path, [])
    assert sorted(folder.iterdir()) == sorted([written, cache_file(tmp_path)])
