"""Queries can read the whole ledger, and nothing else."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import CheckpointSaved, Journal, Status, read_ledger
from ledger_lab.ledger.rows import AttemptStarted, Health, PhaseWindow
from ledger_lab.ledger.telemetry import HostSample, Telemetry
from ledger_lab.reports import summarize_cohorts, summarize_run
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.ledger_tables import TABLES
from ledger_lab.reports.sql import query
from tests.fakes.ledgers import SECOND, declared, device_sample, write_run
from tests.fakes.limits import little_memory
from tests.fakes.waiting import wait_until


def contents(root: Path) -> Contents:
    runs = read_ledger(root).runs
    summaries = [summarize_run(run) for run in runs]
    return Contents(runs, summaries, summarize_cohorts(summaries))


ROOT = Path(__file__).parents[2]
LIMITED = """
import resource, sys
from pathlib import Path
from ledger_lab.errors import UserError
from ledger_lab.reports.sql import query
from tests.reports.test_sql import contents

ledger, before = contents(Path(sys.argv[1])), resource.getrlimit(resource.RLIMIT_DATA)
try:
    query(ledger, sys.argv[2], memory_bytes=10_000_000)
except UserError as refused:
    print(refused)
print(resource.getrlimit(resource.RLIMIT_DATA) == before)
print(query(ledger, "SELECT count(*) FROM runs").rows)
"""
"""Program that asks a query with little memory, and then another one."""


@pytest.fixture
def ledger(tmp_path: Path) -> Contents:
    """Two runs, one of which reached its target."""
    write_run(tmp_path, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED, cohort="c")
    write_run(tmp_path, "bb", scores=(), status=Status.CRASHED, cohort="c")
    return contents(tmp_path)


@pytest.fixture
def measured(tmp_path: Path) -> Contents:
    """A run with figures, telemetry of two accelerators and of none, and a health event."""
    (tmp_path / "r").mkdir()
    device = device_sample("GPU-1", utilization=0.5, memory_used_bytes=2**40, energy_mj=2**50, temperature_c=60.0)
    host = HostSample(cpu_s=1.5, busiest_thread=None, memory_bytes=10, available_bytes=20)
    with Journal(tmp_path / "r" / "journal-1-0.jsonl") as journal:
        journal.append(declared("cc"))
        journal.append(AttemptStarted(run_id="cc", attempt=1, rank=0, pid=2**22 + 1, host="elsewhere", wall_ns=1))
        for iteration in (1, 2):
            journal.append(
                PhaseWindow(
                    iteration=iteration,
                    env_steps=40 * iteration,
                    phase_ns={"simulate": SECOND, "learn": SECOND // 2},
                    wall_ns=iteration * 3 * SECOND // 2,
                    figures={"mean_return": 1.0 * iteration} if iteration == 1 else {},
                    non_finite=[] if iteration == 1 else ["kl", "value_loss"],
                )
            )
        journal.append(Telemetry(wall_ns=SECOND, host=host, devices=[device, device]))
        journal.append(Telemetry(wall_ns=2 * SECOND, host=None, devices=[]))
        journal.append(
            Health(event="kl_high", iteration=2, wall_ns=SECOND, evidence="kl 9", advice="less", stops=False)
        )
    return contents(tmp_path)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_columns_that_it_declares(ledger: Contents, measured: Contents, name: str) -> None:
    for each in (ledger, measured):
        answer = query(each, f"SELECT * FROM {name}")
        assert answer.columns == tuple(column.name for column in TABLES[name].columns)
        assert answer.rows or name in ("telemetry", "health", "checkpoints", "panel_results", "episodes", "endings")


def test_a_query_returns_the_figures_of_the_report(ledger: Contents) -> None:
    (run,) = query(
        ledger, "SELECT status, heldout_successes, target_reached, wall_s FROM runs WHERE run_id = 'aa'"
    ).rows
    assert run == ("target_reached", 9, True, 9.0)
    assert query(ledger, "SELECT runs, target_reaching_runs, failed_runs FROM cohorts").rows == [(2, 1, 1)]
    assert query(ledger, "SELECT status, host IS NULL, wall_s FROM attempts WHERE run_id = 'bb'").rows == [
        ("crashed", False, 5.0)
    ]


def test_tables_join_and_add_up(ledger: Contents) -> None:
    won = query(
        ledger,
        "SELECT r.purpose, r.successes, count(*) FILTER (WHERE e.success) FROM panel_results r "
        "JOIN episodes e USING (run_id, result) GROUP BY ALL ORDER BY ALL",
    ).rows
    assert won == [("check", 5, 5), ("check", 9, 9), ("proof", 9, 9)]
    split = query(
        ledger,
        "SELECT i.window_s, sum(p.seconds) FROM iterations i JOIN phases p USING (run_id, attempt, window_index) "
        "WHERE run_id = 'aa' GROUP BY i.window_index, i.window_s",
    ).rows
    assert split
    assert all(length == pytest.approx(total) for length, total in split)


def test_endings_of_training_episodes_belong_to_their_checkpoints(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(5,))
    saved = CheckpointSaved(
        path="model_2.pt", sha256="2", size_bytes=1, iteration=2, env_steps=80, wall_ns=SECOND,
        train_ns=3 * SECOND // 2, endings={"fell": 12, "time_out": 30},
    )  # fmt: skip
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id="aa", attempt=2, rank=0, pid=2**22 + 1, host="there", wall_ns=1))
        journal.append(saved)
    found = query(
        contents(tmp_path),
        "SELECT c.attempt, c.path, c.train_s, c.evaluate_s, e.ended_by, e.episodes FROM checkpoints c "
        "LEFT JOIN endings e ON (c.run_id, c.path) = (e.run_id, e.checkpoint) ORDER BY ALL",
    ).rows
    assert found[-2:] == [(2, "model_2.pt", 1.5, None, "fell", 12), (2, "model_2.pt", 1.5, None, "time_out", 30)]
    assert found[0][2:] == (None, None, None, None), "not counted is missing, and not zero"


def test_missing_is_null_and_never_zero(measured: Contents) -> None:
    figures = query(measured, "SELECT mean_return, value_loss, non_finite FROM iterations ORDER BY iteration").rows
    assert figures == [(1.0, None, None), (None, None, "kl, value_loss")]
    samples = query(measured, "SELECT sample, cpu_s, busiest_thread, device, energy_mj, power_w FROM telemetry").rows
    assert samples == [(0, 1.5, None, "GPU-1", 2**50, None)] * 2 + [(1, None, None, None, None, None)]
    assert query(measured, "SELECT event, stops FROM health").rows == [("kl_high", False)]
    assert query(measured, "SELECT heldout_success, billable_usd FROM runs").rows == [(None, None)]
    assert query(measured, "SELECT constraints, contacts_per_env FROM attempts").rows == [(None, None)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM nope", "Table with name nope does not exist! Did you mean"),
        ("SELECT runid FROM runs", 'column "runid" not found in FROM clause! Candidate bindings: "run_id"'),
        ("SELEC 1", "syntax error"),
        ("SELECT r.nope FROM runs r", '"nope"'),
        ("", "one statement that reads"),
        ("SELECT 1; SELECT 2", "one statement that reads"),
        ("DROP TABLE runs", "one statement that reads"),
        ("INSERT INTO runs SELECT * FROM runs", "one statement that reads"),
        ("SET threads = 1", "one statement that reads"),
        ("INSTALL httpfs", "one statement that reads"),
        ("SELECT 'x'::INT", "Could not convert"),
    ],
)
def test_a_bad_query_gives_an_error_of_one_line(ledger: Contents, sql: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        query(ledger, sql)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_query_reaches_no_file_host_or_variable_and_changes_no_limit(ledger: Contents, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    table = {"a": [1]}  # noqa: F841 - DuckDB would find it by its name
    sources = [f"read_csv('{secret}')", f"'{secret}'", f"read_text('{secret}')", f"glob('{tmp_path}/*')", "table"]
    sources += ["read_blob('/etc/passwd')", "sniff_csv('/etc/passwd')", "read_csv('https://localhost/x.csv')"]
    refused = [f"SELECT * FROM {source}" for source in (*sources, "duckdb_secrets()")]
    refused += [f"{verb} runs TO '{tmp_path / 'out.csv'}'" for verb in ("COPY", "EXPLAIN ANALYZE COPY")]
    refused += ["SELECT getenv('HOME')", "LOAD httpfs", "ATTACH '/etc/passwd'", "SET memory_limit = '1 TB'"]
    for statement in (*refused, "SET enable_external_access = true"):
        with pytest.raises(UserError) as error:
            query(ledger, statement)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(range) FROM range(100000000)",  # in a buffer of the database's
        "SELECT a.range, count(*) FROM range(2000000) a, range(10) b GROUP BY ALL ORDER BY ALL",  # could be spilled
        "SELECT repeat('a', 2000000000)",  # in no buffer
        "SELECT range, range::VARCHAR || 'abcdefghij' FROM range(100000000)",  # in the answer
    ],
)
def test_a_query_takes_no_more_memory_than_it_may(ledger: Contents, tmp_path: Path, sql: str) -> None:
    """In a process of its own, as ``report.py``: the limit is that of a process, whose other threads it would hit."""
    files = set(tmp_path.iterdir())
    asked = [sys.executable, "-c", LIMITED, str(tmp_path), sql]
    done = subprocess.run(
        asked, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    refusal, restored, runs = done.stdout.splitlines()
    assert re.search("takes more than 0.0.* GB of memory: select less", refusal)
    assert (restored, runs) == ("True", "[(2,)]")
    assert set(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(range) FROM range(100000000)",
        pytest.param("SELECT range, range::VARCHAR || 'abcdefghij' FROM range(100000000)", marks=pytest.mark.thorough),
    ],
)
def test_a_query_stays_below_the_limit_of_its_control_group(sql: str) -> None:
    program = f"""
from ledger_lab.errors import UserError
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.sql import query
try:
    query(Contents([], [], []), {sql!r})
except UserError as error:
    print(error)
"""
    with little_memory(600 * 2**20) as start:
        done = subprocess.run([*start, sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "GB of memory: select less" in done.stdout


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_long_query_ends_when_it_is_asked_to(signum: signal.Signals) -> None:
    program = """
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.sql import query
print("ready", flush=True)
long = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7"
query(Contents([], [], []), long)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            maps = Path(f"/proc/{process.pid}/maps")
            wait_until(lambda: b"duckdb" in maps.read_bytes(), "the library of the database is there", 60, 0.05)
            time.sleep(1.0)
            assert process.poll() is None
            process.send_signal(signum)
            assert process.wait(20) == -signum
            assert process.stderr is not None and process.stderr.read() == ""
        finally:
            process.kill()
