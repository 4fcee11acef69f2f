"""A study on a cluster submits what is missing alone, shows it, cancels it, and reports it when all is made."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_lab.clusters.engine import load_site
from ledger_lab.clusters.local import ENGINE
from ledger_lab.clusters.submissions import read_submissions
from ledger_lab.clusters.submit import planned_training
from ledger_lab.errors import UserError
from ledger_lab.ledger import Status, read_ledger
from ledger_lab.studies.commands.study import run_study
from ledger_lab.studies.declared import load_study
from ledger_lab.studies.study import lock_name
from ledger_lab.studies.trainings import only_program
from ledger_lab.training.launch.start import submit_if_asked
from tests.conftest import ROOT
from tests.fakes.ledgers import write_run
from tests.fakes.waiting import wait_until

TRAINER = """
import argparse, secrets, signal, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes.ledgers import write_run
from ledger_lab.ledger import Status

parser = argparse.ArgumentParser()
for flag in ("--cohort", "--log_root", "--grace_s", "--instance"):
    parser.add_argument(flag)
for flag in ("--seed", "--num_envs"):
    parser.add_argument(flag, type=int)
args, _ = parser.parse_known_args()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
if args.num_envs == 2:
    sys.exit(2)
if args.num_envs == 600:
    time.sleep(600)
if args.num_envs == 8:  # another program makes the same training
    write_run(Path(args.log_root), secrets.token_hex(4), status=Status.COMPLETED, cohort=args.cohort, seed=2)
write_run(Path(args.log_root), secrets.token_hex(4), status=Status.COMPLETED, cohort=args.cohort, seed=args.seed)
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Returns the command line of a study of two seeds, whose trainer writes its run at once."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text(TRAINER.format(tests=str(ROOT / "tests")))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "scripts" / "study.py")])
    (tmp_path / "here.toml").write_text(f'version = 1\nengine = "local"\nlog_root = "{tmp_path}/ledger"\n')

    def study(num_envs: int) -> list[str]:
        (tmp_path / "s.toml").write_text(f'version = 1\nseeds = [1, 2]\narguments = ["--num_envs", "{num_envs}"]\n')
        return [str(tmp_path / "s.toml"), "--on", str(tmp_path / "here.toml")]

    return study


def ended(log_root: Path) -> bool:
    return not any(ENGINE.queued(each) for each in read_submissions(log_root, "s"))


def test_a_study_is_submitted_once_and_reported_when_it_is_made(
    asked: Callable[[int], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_root = tmp_path / "ledger"
    write_run(log_root, "0badc0de", status=Status.COMPLETED, cohort="s", seed=2)
    assert run_study([*asked(4), "--dry_run", "--at_once", "3"]) == 0
    said = capfd.readouterr().out
    assert '{"what":"s seed 1","start":["--num_envs","4","--seed","1","--cohort","s","--cohort_size","2",' in said
    assert f"cd {log_root}/submissions/s/001 && bash job.sh" in said
    assert 'ledger_lab.clusters.local "$PWD" 3' in said and "seed 2" not in said
    assert not (log_root / "submissions").exists(), "a dry run writes nothing"

    assert run_study(asked(4)) == 0
    assert "submitted 1 trainings to here as job" in capfd.readouterr().out
    wait_until(lambda: ended(log_root), "all trainings have ended", 120)
    assert run_study(asked(4)) == 0
    assert re.search(r"^s +0 of 2 ", capfd.readouterr().out, re.MULTILINE)
    assert sorted(run.declared.seed for run in read_ledger(log_root).runs) == [1, 2]
    assert [each.name for each in (log_root / "submissions" / "s").iterdir()] == ["001"]
    (submission,) = read_submissions(log_root, "s")
    assert submission.exit_status(0) == 0
    noted = submission.folder / "submission.json"
    noted.write_text(noted.read_text().replace(submission.job, "elsewhere:1:1"))
    assert run_study(asked(4)) == 0, "a study that is made needs no answer of the engine"


def test_trainings_are_not_submitted_twice_and_can_be_cancelled(
    asked: Callable[[int], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_root = tmp_path / "ledger"
    assert run_study(asked(600)) == 0
    try:
        (submission,) = read_submissions(log_root, "s")
        wait_until(lambda: any(each.runs for each in ENGINE.queued(submission).values()), "a training runs", 120)
        capfd.readouterr()
        assert run_study(asked(600)) == 0
        said = capfd.readouterr().out
        assert (
            "0 of 2 trainings are in" in said and "2 wait or run on here" in said and "s seed 2: waiting, job" in said
        )
        assert run_study([asked(600)[0], "--log_root", str(log_root)]) == 0
        said = capfd.readouterr().out
        assert "0 of 2 trainings are in" in said and "2 wait or run on here" in said
        assert "other programs still make trainings of this study" in said and "s seed 2: waiting, job" in said
        assert not read_ledger(log_root).runs, "a study that runs here leaves them alone"
        assert run_study([*asked(600), "--cancel"]) == 0
        assert "cancelled 2 trainings" in capfd.readouterr().out
        wait_until(lambda: ended(log_root), "all trainings have ended", 120)
    finally:
        ENGINE.cancel(submission)
    assert (submission.exit_status(0), submission.exit_status(1)) == (143, None)
    assert run_study([*asked(600), "--status"]) == 0
    said = capfd.readouterr().out
    assert "s seed 1: exit status 143: see" in said and "s seed 2: did not start before its job ended" in said
    assert run_study([*asked(600), "--cancel"]) == 0
    assert "no training is queued" in capfd.readouterr().out


def test_a_training_that_is_made_on_this_machine_is_not_submitted(
    asked: Callable[[int], list[str]], tmp_path: Path
) -> None:
    study = load_study(asked(4)[0])
    training = next(iter(study.trainings()))
    with only_program(tmp_path / "ledger", lock_name(training)) as kept:
        assert kept
        with pytest.raises(UserError, match="s seed 1 is being trained on this machine: wait until it has ended"):
            run_study(asked(4))
    assert not (tmp_path / "ledger" / "submissions" / "s" / "001" / "submission.json").exists()


def test_a_study_here_does_not_repeat_what_another_program_makes_meanwhile(
    asked: Callable[[int], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_root = tmp_path / "ledger"
    assert run_study([asked(8)[0], "--log_root", str(log_root)]) == 0
    said = capfd.readouterr().out
    assert "[2/2] seed 2: another program has made, started or submitted it" in said
    assert re.search(r"^s +0 of 2 ", said, re.MULTILINE)
    assert sorted(run.declared.seed for run in read_ledger(log_root).runs) == [1, 2]


def test_a_refused_training_is_shown_with_its_output_and_a_study_here_asks_about_it_and_does_not_guess(
    asked: Callable[[int], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_study(asked(2)) == 0
    wait_until(lambda: ended(tmp_path / "ledger"), "all trainings have ended", 120)
    assert run_study([*asked(2), "--status"]) == 0
    said = capfd.readouterr().out
    assert f"s seed 1: exit status 2: see {tmp_path}/ledger/submissions/s/001/output/0.log" in said
    (submission,) = read_submissions(tmp_path / "ledger", "s")
    noted = submission.folder / "submission.json"
    noted.write_text(noted.read_text().replace(submission.job, "elsewhere:1:1"))
    with pytest.raises(UserError, match="001 runs on elsewhere: ask there"):
        run_study([asked(4)[0], "--log_root", str(tmp_path / "ledger")])


def test_a_study_is_not_reported_while_a_run_without_a_job_seems_to_run(
    asked: Callable[[int], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "ledger", "0badc0de", status=Status.COMPLETED, cohort="s", seed=2)
    write_run(tmp_path / "ledger", "1badc0de", status=None, pid=os.getpid(), cohort="s", seed=1)
    assert run_study(asked(4)) == 0
    said = capfd.readouterr().out
    assert "s seed 1: run 1badc0de: running" in said and "cohort s" not in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--", "--num_envs", "x"], "--num_envs"),
        (["--", "--task", "Nonne"], "unknown task 'Nonne'"),
        (["--", "--distributed", "--nproc", "2"], "--distributed is for processes"),
        (["--nodes", "2"], "^--nodes 2: with local, a training runs on one machine"),
        (["--log_root", "elsewhere"], "the cluster file sets it"),
        (["--at_once", "0"], "--at_once 0: must be at least 1"),
        (["--status", "--cancel"], "--status and --cancel cannot be used together"),
    ],
)
def test_a_wrong_request_is_refused_and_nothing_is_submitted(
    asked: Callable[[int], list[str]], tmp_path: Path, more: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        run_study([*asked(4), *more])
    assert not (tmp_path / "ledger").exists()


def test_a_dry_run_of_a_single_training_needs_no_scheduler(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as shown:
        submit_if_asked(["--on", "slurm", "--nodes", "2", "--dry_run", "--seed", "3"])
    assert shown.value.code == 0
    said = capfd.readouterr().out
    assert "#SBATCH --nodes=2" in said.splitlines(), "each line of a file is a line of the output"
    assert '"--seed","3"' in said and '"--instance","aws-g6.xlarge"' in said
    assert not Path("/shared/ledger").exists()
    submit_if_asked(["--seed", "3"])  # without --on, it returns


def test_flags_of_each_attempt_are_repeated_when_a_job_resumes_its_run(asked: Callable[[int], list[str]]) -> None:
    asked(4)
    _, site = load_site("slurm")
    given = ["--logger", "tensorboard", "--allow_public_address", "--seed", "3", "--allow_changed_code"]
    planned = planned_training(site, "t", [*given, "--checkpoint", "LedgerLab-Cartpole"], nodes=2)
    assert planned.resume == ("--allow_public_address", "--logger", "tensorboard", *site.arguments)
    assert (planned.nodes, planned.processes) == (2, 1)


def test_trainings_end_with_the_process_that_makes_them(asked: Callable[[int], list[str]], tmp_path: Path) -> None:
    assert run_study(asked(600)) == 0
    (submission,) = read_submissions(tmp_path / "ledger", "s")
    wait_until(lambda: any(each.runs for each in ENGINE.queued(submission).values()), "a training runs", 120)
    wait_until(lambda: programs_of(tmp_path), "its program has started", 120)
    os.kill(int(submission.job.split(":")[1]), signal.SIGKILL)
    wait_until(lambda: not programs_of(tmp_path), "it has ended, too", 120)


def programs_of(folder: Path) -> list[int]:
    """Return the processes of this machine whose command line names a train.py of a folder."""
    program = str(folder / "scripts" / "train.py").encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if program in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def test_train_py_submits_without_loading_the_simulator(tmp_path: Path) -> None:
    (tmp_path / "here.toml").write_text(f'version = 1\nengine = "local"\nlog_root = "{tmp_path}/ledger"\n')
    command = [sys.executable, "-X", "importtime", str(ROOT / "scripts" / "train.py"), "--on"]
    finished = subprocess.run(
        [*command, str(tmp_path / "here.toml"), "--dry_run"], capture_output=True, text=True, env={**os.environ}
    )
    assert finished.returncode == 0, finished.stderr
    assert "| torch\n" not in finished.stderr and "plan.jsonl" in finished.stdout


MACHINES = """
version = 1
seeds = [1, 2]
[machine]
first = {{ cluster = "{folder}/here.toml", arguments = ["--usd_per_hour", "1"] }}
second = {{ cluster = "{folder}/there.toml", instance = "aws-g6.xlarge" }}
[scaling]
kind = "weak"
num_envs = {num_envs}
sizes = [{{ processes = 1 }}]
"""


@pytest.fixture
def on_two(asked: Callable[[int], list[str]], tmp_path: Path) -> Callable[[int], list[str]]:
    """Returns the command line of a study of two machines and two seeds; the clusters share a ledger."""
    asked(4)
    (tmp_path / "there.toml").write_text((tmp_path / "here.toml").read_text())

    def study(num_envs: int) -> list[str]:
        (tmp_path / "s.toml").write_text(MACHINES.format(folder=tmp_path, num_envs=num_envs))
        return [str(tmp_path / "s.toml")]

    return study


def test_the_trainings_of_each_machine_go_to_its_cluster_and_are_reported_together(
    on_two: Callable[[int], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_root = tmp_path / "ledger"
    assert run_study([*on_two(4), "--dry_run"]) == 0
    said = capfd.readouterr().out
    assert f"cd {log_root}/submissions/s/001" in said and f"cd {log_root}/submissions/s/002" in said
    assert not log_root.exists(), "a dry run writes nothing"
    assert run_study(on_two(4)) == 0
    said = capfd.readouterr().out
    assert "submitted 2 trainings to here as job" in said and "submitted 2 trainings to there as job" in said
    first, second = read_submissions(log_root, "s")
    assert (first.site, second.site) == ("here", "there")
    assert {"--usd_per_hour", "1"} < {*first.trainings()[0].start}
    assert {"--instance", "aws-g6.xlarge"} < {*second.trainings()[0].start}
    wait_until(lambda: ended(log_root), "all trainings have ended", 120)
    assert run_study(on_two(4)) == 0
    said = capfd.readouterr().out
    assert "4 of 4 trainings are in" in said
    assert all(re.search(rf"^s-{arm}-1x1x4 +0 of 2 ", said, re.MULTILINE) for arm in ("first", "second"))
    assert "Runs that have only one size" in said, "it shows how the sizes scale"


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("s.toml", ', arguments = ["--usd_per_hour", "1"]', "", r"\[machine\] first: local has no price: set instance"),
        ("s.toml", "aws-g6.xlarge", "aws-g6.xlrge", "unknown instance 'aws-g6.xlrge'; did you mean"),
        ("s.toml", "there.toml", "nowhere.toml", "no cluster"),
        ("there.toml", "/ledger", "/other", "cluster here writes to .*, and cluster there to .*: .* share one ledger"),
        (
            "s.toml",
            "processes = 1",
            "processes = 1, nodes = 2",
            "--nodes 2: with local, a training runs",
        ),
    ],
)
def test_machines_that_cannot_work_are_refused_and_nothing_is_submitted(
    on_two: Callable[[int], list[str]], tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    asked = on_two(4)
    content = (tmp_path / file).read_text()
    assert old in content
    (tmp_path / file).write_text(content.replace(old, new))
    with pytest.raises(UserError, match=said):
        run_study(asked)
    assert not (tmp_path / "ledger").exists()


SIZES = """
version = 1
seeds = [1, 2]
[scaling]
kind = "strong"
num_envs = 64
sizes = [{ processes = 1 }, { processes = 2 }, { processes = 2, nodes = 2 }]
"""


@pytest.fixture
def sizes_on_slurm(asked: Callable[[int], list[str]], tmp_path: Path) -> Callable[[int], list[str]]:
    """Returns the command line of a study of three sizes on a Slurm whose nodes have some GPUs."""
    asked(4)
    (tmp_path / "s.toml").write_text(SIZES)

    def study(gpus: int) -> list[str]:
        lab = f'version = 1\nengine = "slurm"\nlog_root = "{tmp_path}/ledger"\ntime = "10"\ngpus = {gpus}\n'
        (tmp_path / "lab.toml").write_text(lab)
        return [str(tmp_path / "s.toml"), "--on", str(tmp_path / "lab.toml"), "--dry_run"]

    return study


def test_each_number_of_machines_and_gpus_is_a_job_of_its_own(
    sizes_on_slurm: Callable[[int], list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_study(sizes_on_slurm(2)) == 0
    said = capfd.readouterr().out
    asked = [line.removeprefix("#SBATCH --") for line in said.splitlines() if "--nodes=" in line or "--gres=" in line]
    assert [line for line in asked if "srun" not in line] == [
        *("nodes=1", "gres=gpu:1"),
        *("nodes=1", "gres=gpu:2"),
        *("nodes=2", "gres=gpu:2"),
    ]
    assert '"--num_envs","16"' in said and '"nodes":2,"processes":2' in said and "--nproc" not in said
    assert run_study(sizes_on_slurm(0)) == 0
    said = capfd.readouterr().out
    jobs = [line for line in said.splitlines() if line.startswith("cd ")]
    assert len(jobs) == 2 and '"nodes":1,"processes":1' in said, "without GPUs, one job for each number of machines"
