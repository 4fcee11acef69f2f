"""A study runs the missing trainings, continues after failed trainings, and reports all trainings."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.files import file_lock
from ledger_lab.ledger import STATE_FILE, Status, declare_cohort, read_ledger
from ledger_lab.studies.commands.study import _aggregate, run_study
from ledger_lab.studies.declared import load_study
from ledger_lab.training.request import TrainRequest
from tests.conftest import ROOT
from tests.fakes.ledgers import write_run
from tests.fakes.waiting import wait_until
from tests.reports.test_compare import cohort_of, run_of

TRAINER = """
import argparse, os, secrets, signal, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes.ledgers import write_run
from ledger_lab.ledger import AttemptEnded, AttemptStarted, Journal, Status

parser = argparse.ArgumentParser()
for flag in ("--arm", "--cohort", "--cohort_size", "--log_root", "--nproc", "--resume"):
    parser.add_argument(flag)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
if args.resume:
    (run_dir,) = Path(args.log_root).rglob(args.resume)
    if (run_dir / "training_state.pt").read_text() == "damaged":
        sys.exit(2)
    (run_dir / "training_state.pt").unlink()
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id=args.resume, attempt=2, rank=0, pid=1, host="elsewhere", wall_ns=1))
        journal.append(
            AttemptEnded(
                status=Status.COMPLETED, reason=None, wall_ns=2, peak_host_memory_bytes=1, peak_gpu_memory_bytes=None
            )
        )
    sys.exit(0)
if args.arm == "refused":
    sys.exit(2)
if args.arm == "slow":
    for name in ("SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT"):
        signal.signal(signal.Signals[name], lambda *_: (Path(args.log_root, "ended").touch(), sys.exit(143)))
    Path(args.log_root, "begun").touch()
    for _ in range(1200):
        time.sleep(0.05)
if args.arm == "undeclared":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Path(args.log_root, "starts").open("a") as starts:
        starts.write(f"{{os.getpid()}}\\n")
    while not Path(args.log_root, "declare").exists():
        time.sleep(0.05)
status = Status.CRASHED if args.arm == "bad" and args.seed == 2 else Status.COMPLETED
write_run(Path(args.log_root), secrets.token_hex(4), status=status, cohort=args.cohort, seed=args.seed)
sys.exit(0 if status is Status.COMPLETED else 1)
"""

STUDY = """
version = 1
seeds = [1, 2]
[factors.arm]
{levels}
"""


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of scripts with a trainer that writes its run at once; the study's runs come from there."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER.format(tests=str(ROOT / "tests")))
    monkeypatch.setattr(sys, "argv", [str(folder / "study.py")])
    return folder


def study(folder: Path, *arms: str) -> str:
    path = folder / "s.toml"
    path.write_text(STUDY.format(levels="\n".join(f'{arm} = ["--arm", "{arm}"]' for arm in arms)))
    return str(path)


def made(log_root: Path) -> list[tuple[str | None, int]]:
    return sorted((run.declared.cohort, run.declared.seed) for run in read_ledger(log_root).runs)


def test_each_arm_is_trained_with_each_seed_once(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_root = tmp_path / "logs"
    asked = [study(tmp_path, "good", "fine"), "--log_root", str(log_root)]
    assert run_study(asked) == 0
    assert made(log_root) == [("s-fine", 1), ("s-fine", 2), ("s-good", 1), ("s-good", 2)]
    said = capfd.readouterr().out
    assert "[4/4] good seed 2" in said
    assert re.search(r"^s-fine +0 of 2 ", said, re.MULTILINE)
    assert "2 seeds per arm are too few to compare arms: use at least 5" in said
    assert "A = s-good · B = s-fine · n = 2 (A) and 2 (B)\n" in said
    assert "sooner" not in said

    assert run_study(asked) == 0
    assert len(made(log_root)) == 4
    assert "4 of 4 trainings are in" in capfd.readouterr().out


def test_a_failed_training_is_kept_and_a_killed_training_is_repeated(scripts: Path, tmp_path: Path) -> None:
    log_root = tmp_path / "logs"
    write_run(log_root, "0badc0de", status=Status.KILLED, cohort="s-bad", seed=1)
    asked = [study(tmp_path, "bad"), "--log_root", str(log_root)]
    assert run_study(asked) == 1
    assert made(log_root) == [("s-bad", 1), ("s-bad", 1), ("s-bad", 2)]
    assert run_study(asked) == 1
    assert len(made(log_root)) == 3


def test_a_training_with_a_saved_state_is_resumed(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_root = tmp_path / "logs"
    write_run(log_root, "0badc0de", status=Status.PREEMPTED, state=True, cohort="s-good", seed=1)
    write_run(log_root, "0badc0d2", status=Status.PREEMPTED, cohort="s-good", seed=2)
    asked = [study(tmp_path, "good"), "--log_root", str(log_root)]

    extra = ["--usd_per_hour", "1", "--logger=mlflow", "--cpu_threads=1", "--grace_s=9"]
    assert run_study([*asked, "--dry_run", "--", *extra]) == 0
    repeated = "--cpu_threads 1 --logger mlflow --grace_s 9"
    assert f"train.py --resume 0badc0de {repeated} --log_root {log_root}" in capfd.readouterr().out
    assert run_study(asked) == 0
    runs = {run.declared.run_id: run for run in read_ledger(log_root).runs}
    assert len(runs) == 3, "a run with a state continues; a run without a state starts again"
    assert [len(run.attempts) for run in runs.values() if run.declared.seed == 1] == [2]


@pytest.mark.parametrize(
    ("limit_s", "said"),
    [
        (100, "--limit_s 100 --seed 1 --cohort s --cohort_size 1 --limit_s 91.000 --log_root"),
        (9, "1 of 1 trainings are in"),
    ],
)
def test_a_repeated_training_has_the_time_that_its_earlier_run_left(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], limit_s: int, said: str
) -> None:
    limit = ["--limit_s", str(limit_s)]
    (tmp_path / "s.toml").write_text(f"version = 1\nseeds = [1]\narguments = {limit}\n")
    request = TrainRequest.parse(limit).to_data()
    write_run(tmp_path, "0badc0de", status=Status.KILLED, cohort="s", seed=1, request=request)  # took 9 s
    assert run_study([str(tmp_path / "s.toml"), "--log_root", str(tmp_path), "--dry_run"]) == 0
    assert said in capfd.readouterr().out


def test_a_training_that_cannot_be_resumed_is_reported_with_the_ways_out(scripts: Path, tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "0badc0de", status=Status.KILLED, state=True, cohort="s-good", seed=1)
    (run_dir / STATE_FILE).write_text("damaged")
    with pytest.raises(
        UserError, match=f"train.py --resume 0badc0de, or remove {run_dir / STATE_FILE} to start it again"
    ):
        run_study([study(tmp_path, "good"), "--log_root", str(tmp_path)])


def test_a_training_killed_after_its_target_is_complete(scripts: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path, f"0badc0d{seed}", status=Status.KILLED, state=True, proof=10, cohort="s-good", seed=seed)
    run_study([study(tmp_path, "good"), "--log_root", str(tmp_path)])
    assert len(made(tmp_path)) == 2


def test_a_refused_training_ends_the_study(scripts: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the training of refused seed 1 was refused"):
        run_study([study(tmp_path, "refused", "good"), "--log_root", str(tmp_path)])
    assert made(tmp_path) == []


@pytest.mark.parametrize(
    ("signum", "exit_status"),
    [(signal.SIGTERM, 75), (signal.SIGINT, 130)],
)
def test_a_signal_to_a_study_ends_its_training(
    scripts: Path, tmp_path: Path, signum: signal.Signals, exit_status: int
) -> None:
    (scripts / "study.py").write_text((ROOT / "scripts" / "study.py").read_text())
    command = [sys.executable, str(scripts / "study.py"), study(tmp_path, "slow"), "--log_root", str(tmp_path)]
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signum)
        assert process.wait(timeout=60) == exit_status
    assert (tmp_path / "ended").exists()


def is_free(lock: Path) -> bool:
    with file_lock(lock) as (_, is_locked):
        return is_locked


@pytest.mark.parametrize("its_training", ["takes a while to end", "was killed, too"])
def test_a_training_whose_first_program_was_killed_before_its_run_was_declared(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], its_training: str
) -> None:
    """It must not be started twice before it has ended; if nothing of it is left, it is repeated."""
    (scripts / "study.py").write_text((ROOT / "scripts" / "study.py").read_text())
    (tmp_path / "s.toml").write_text('version = 1\nseeds = [1]\narguments = ["--arm", "undeclared"]\n')
    asked, starts = [str(tmp_path / "s.toml"), "--log_root", str(tmp_path)], tmp_path / "starts"
    with subprocess.Popen([sys.executable, str(scripts / "study.py"), *asked]) as first:
        wait_until(lambda: starts.exists() and starts.read_text().endswith("\n"), "the training runs", 60, every_s=0.05)
        first.kill()
    training = int(starts.read_text())
    try:
        if its_training == "takes a while to end":
            assert run_study(asked) == 0
            said = capfd.readouterr().out
            assert "seed 1: another program has made, started or submitted it" in said
            assert "other programs still make trainings of this study" in said
            (tmp_path / "declare").touch()
            wait_until(lambda: made(tmp_path) == [("s", 1)], "its run is declared", 60, every_s=0.05)
        else:
            os.kill(training, signal.SIGKILL)
            wait_until(lambda: is_free(tmp_path / "studies" / "s" / "1.lock"), "it has ended", 60, every_s=0.05)
            (tmp_path / "declare").touch()
        assert run_study(asked) == 0
    finally:
        with suppress(ProcessLookupError):
            os.kill(training, signal.SIGKILL)
    assert made(tmp_path) == [("s", 1)]
    assert len(starts.read_text().split()) == (1 if its_training == "takes a while to end" else 2)


def test_a_study_needs_no_locks(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert run_study([study(tmp_path, "good"), "--log_root", str(tmp_path / "logs")]) == 0
    assert "good/1.lock: No locks available: use a log root on a file system with locks; " in capfd.readouterr().err
    assert len(made(tmp_path / "logs")) == 2


def finished(folder: Path, name: str, factors: str, cohorts: dict[str, list[int]], **changes: object) -> list[str]:
    """Write a study whose trainings are all in the ledger; negative seconds are of runs that missed the target."""
    folder.mkdir(exist_ok=True)
    (count,) = {len(seconds) for seconds in cohorts.values()}
    (folder / f"{name}.toml").write_text(f"version = 1\nseeds = {[*range(1, count + 1)]}\n{factors}")
    for cohort, seconds in cohorts.items():
        task = {"task": cohort.split("-")[1]} if "--task" in factors else {}
        cohort_of(folder / "logs", cohort, seconds, **task, **changes)
    return [str(folder / f"{name}.toml"), "--log_root", str(folder / "logs")]


def test_all_arms_are_compared_as_report_compares_them_and_corrected_together(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    slow, quick, middling = [60, 70, 80, 90, 100], [10, 12, 14, 16, 18], [61, 69, 82, 88, 99]
    factors = '[factors.arm]\na = ["--x", "1"]\nb = ["--x", "2"]\nc = ["--x", "3"]\n'
    asked = finished(tmp_path, "s", factors, {"s-a": slow, "s-b": quick, "s-c": middling})
    assert run_study(asked) == 0
    said = capfd.readouterr().out
    assert "too few" not in said
    assert said.count("p (Holm, 4 tests)") == 2
    compared = said[said.index("A = s-a · B = s-b") :].splitlines()
    assert compared[2].split()[:3] == ["time", "to", "target"] and "0.032" in compared[2]
    for cohort in ("s-a", "s-b"):
        declare_cohort(tmp_path / "logs", cohort, 5)
    build_report(["compare", "s-a", "s-b", "--log_root", str(tmp_path / "logs")])
    alone = capfd.readouterr().out.splitlines()
    assert compared[4 : len(alone)] == alone[4:], "but for the p-values, as report.py compare shows it"


def test_the_number_of_arms_may_ask_for_more_seeds(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arms = "\n".join(f'arm{number} = ["--x", "{number}"]' for number in range(5))
    (tmp_path / "s.toml").write_text(f"version = 1\nseeds = [1, 2, 3, 4, 5]\n[factors.arm]\n{arms}\n")
    assert run_study([str(tmp_path / "s.toml"), "--log_root", str(tmp_path / "logs"), "--dry_run"]) == 0
    assert (
        "5 seeds per arm are too few for 8 tests (time and cost of 4 arms, if the runs have a price)"
        in capfd.readouterr().out
    )


def test_arms_are_compared_within_their_task(scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    factors = '[factors.task]\nT = ["--task", "T"]\nU = ["--task=U"]\n[factors.arm]\na = []\nb = ["--x", "2"]\n'
    times = {"s-T-a": [60, 70, 80, 90, 100], "s-T-b": [10, 12, 14, 16, 18]}
    asked = finished(tmp_path, "s", factors, times | {"s-U-a": [600] * 5, "s-U-b": [200, 210, 220, 230, 240]})
    assert run_study(asked) == 0
    said = capfd.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("A = ")] == [
        "A = s-T-a · B = s-T-b · n = 5 (A) and 5 (B)",
        "A = s-U-a · B = s-U-b · n = 5 (A) and 5 (B)",
    ]
    assert "over 2 tasks; speed: shortest time to target of all runs on the task" in said
    # Speeds of a: 10 / 60 to 10 / 100 on T, 200 / 600 on U; of b: 1 to 10 / 18, and 1 to 200 / 240.
    (arm_a, arm_b) = (line.split() for line in said.splitlines()[-2:])
    assert arm_a[:3] == ["a", "10", "0.24"]  # the middle six are 0.125, 0.143, 0.167 and three times 0.333
    assert arm_b[:3] == ["b", "10", "0.85"]
    assert arm_b[-1] == "1.00"  # every run is faster than every run of the other arm, so there is no interval
    assert "no intervals" not in said


def test_across_tasks_a_run_that_was_ended_from_outside_has_missed_the_target_unless_it_was_repeated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    factors = '[factors.task]\nT = ["--task", "T"]\nU = ["--task=U"]\n'
    path, _, root = finished(tmp_path, "s", factors, {"s-T": [60, 60], "s-U": [60, 60]})
    for task in "TU":
        run_of(Path(root), f"s-{task}", 3, 10, reached=False, lost=True, task=task)
    _aggregate(load_study(path), read_ledger(Path(root)).runs)
    assert capfd.readouterr().out.splitlines()[-1].split()[1] == "6", "two of them missed the target"
    for task in "TU":
        run_of(Path(root), f"s-{task}", 3, 60, task=task)
    _aggregate(load_study(path), read_ledger(Path(root)).runs)
    assert capfd.readouterr().out.splitlines()[-1].split() == ["s", "6", "1.00", "1.00", "1.00", "1.00"]


def test_few_seeds_have_no_intervals_across_tasks(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    factors = '[factors.task]\nT = ["--task", "T"]\nU = ["--task=U"]\n'
    assert run_study(finished(tmp_path, "s", factors, {"s-T": [60, 80], "s-U": [600, -700]})) == 0
    said = capfd.readouterr().out
    assert "no intervals below 5 runs of each arm on each task" in said
    assert said.splitlines()[-1].split() == ["s", "4", "0.88", "0.75", "0.75", "0.50"]
    assert "faster than" not in said
    assert run_study(finished(tmp_path / "never", "s", factors, {"s-T": [60, 80], "s-U": [-600, -700]})) == 0
    assert "no figures over all tasks: on some task, no run reached the target" in capfd.readouterr().out
