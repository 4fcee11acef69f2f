"""Whatever the commands of Slurm answer, no job is lost, submitted twice, or mistaken for another."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.clusters import slurm
from ledger_lab.clusters.engine import UnclearSubmissionError
from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.slurm import ENGINE, SlurmSite
from ledger_lab.clusters.submissions import Submission, new_folder, read_submissions
from ledger_lab.clusters.submit import hand_over, known_submissions
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.studies.declared import load_study
from ledger_lab.studies.study import StudyTrainings
from tests.conftest import ROOT

TRAINING = PlannedTraining(what="s seed 1", start=(), resume=(), program="train.py", directory="/")
PLAN = Plan(name="s", trainings=(TRAINING,))
ANSWERS = {"sbatch": "echo 17", "squeue": "echo '0|PENDING|Priority|'", "scontrol": ":", "scancel": ":"}

type Site = Callable[..., SlurmSite]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Returns a cluster whose commands do what a test says; each notes its arguments in a file of its name."""

    def make(**answers: str) -> SlurmSite:
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        for name, answer in (ANSWERS | answers).items():
            (programs / name).write_text(f'#!/bin/bash\necho "$@" >>{tmp_path}/{name}\n{answer}\n')
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        return SlurmSite(name="lab", log_root=tmp_path / "ledger", environment={}, time="10")

    return make


def submit(site: SlurmSite) -> Submission:
    return hand_over(ENGINE, site, PLAN, new_folder(site.log_root, PLAN.name))


@pytest.mark.parametrize(
    ("sbatch", "said"),
    [
        ("echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv' >&2; exit 1", "Socket"),
        ("[[ $1 == --version ]] || exec sleep 60", "sbatch timed out"),
        ("echo welcome", "sbatch printed 'welcome"),
        ("", "sbatch printed ''"),
    ],
)
def test_a_job_that_may_be_submitted_is_found_by_the_next_call(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sbatch: str, said: str
) -> None:
    monkeypatch.setattr(slurm, "SLURM", replace(slurm.SLURM, answer_s=2.0 if "sleep" in sbatch else 60.0))
    lab = site(sbatch=f"[[ $1 != --version ]] || exit 0\n{sbatch}", squeue="")
    with pytest.raises(UnclearSubmissionError, match=f"{said}.*call again.* ledger_lab-s-001-[0-9a-f]{{8}}$"):
        submit(lab)
    (begun,) = read_submissions(tmp_path / "ledger", "s")
    assert f"#SBATCH --job-name={begun.job_name}\n" in (begun.folder / "job.sbatch").read_text(), "before the job"
    site(squeue="exit 1")
    with pytest.raises(UserError, match="squeue: exit status 1"):
        known_submissions(tmp_path / "ledger", "s")
    (begun.folder / "started" / "0").write_text("17\n")  # a job that has left the queue is known by its tasks
    site(squeue="echo Welcome")
    with pytest.raises(UserError, match="'Welcome' is not the id of"):
        known_submissions(tmp_path / "ledger", "s")
    site(squeue="")
    assert [each.job for each in known_submissions(tmp_path / "ledger", "s")] == ["17"]


def test_a_study_whose_call_was_killed_is_not_submitted_again(
    elsewhere: Callable[[], StudyTrainings], site: Site, tmp_path: Path
) -> None:
    site(sbatch="[[ $1 != --version ]] || exit 0\nkill -KILL $PPID")
    program = (
        "import sys; from pathlib import Path; from tests.clusters.test_slurm_answers import *\n"
        "lab = SlurmSite(name='lab', log_root=Path(sys.argv[1]) / 'ledger', environment={}, time='10')\n"
        "study = StudyTrainings(load_study(sys.argv[1] + '/s.toml'), lab.log_root, {None: (ENGINE, lab)})\n"
        "study.submit([], make_console(), nodes=1, at_once=None, dry_run=False)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    asked = f'[[ $* == *%F* ]] && echo 17 || echo "0|RUNNING|None|n"; echo "$*" >>{tmp_path}/formats'
    site(squeue=asked)
    now = elsewhere()
    assert now.missing() == [] and len(now.queued()) == 1
    assert [each.job for each in read_submissions(tmp_path / "ledger", "s")] == ["17"]


FAILED = "sbatch: error: Batch job submission failed: "
POLICY = f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}", "AssocMaxSubmitJobLimit; .*: each training counts as one"),
        (f"sbatch: error: AssocMaxWallDurationPerJobLimit\n{POLICY}", "correct account, time, gpus"),
        (f"{FAILED}Invalid qos specification", "Invalid qos specification: correct this key or option in"),
        (f"{FAILED}Invalid job array specification", r"\(MaxArraySize\): make smaller studies"),
    ],
)
def test_refusals_become_one_line_with_the_way_out_and_leave_nothing(
    site: Site, tmp_path: Path, printed: str, said: str
) -> None:
    lab = site(sbatch=f"[[ $1 != --version ]] || exit 0\ncat >&2 <<'END'\n{printed}\nEND\nexit 1", squeue="")
    with pytest.raises(UserError, match=said) as refused:
        submit(lab)
    assert not isinstance(refused.value, UnclearSubmissionError) and "\n" not in str(refused.value)
    assert [*(tmp_path / "ledger" / "submissions" / "s").iterdir()] == []


def test_variables_of_the_shell_do_not_change_what_slurm_is_asked(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SBATCH_ARRAY_INX", "SQUEUE_STATES", "SCANCEL_STATE", "SLURM_CLUSTERS", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "strange")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    lab = site(sbatch=f"env >>{tmp_path}/seen; echo 17", squeue=f"env >>{tmp_path}/seen; echo '0|RUNNING|None|n'")
    assert ENGINE.queued(submit(lab))[0].said == "running on n"
    seen = (tmp_path / "seen").read_text()
    assert "strange" not in seen and "SLURM_CONF=/etc/slurm.conf" in seen


def test_a_job_of_another_name_with_the_same_id_is_not_ours(site: Site, tmp_path: Path) -> None:
    submission = submit(site(scontrol="echo JobId=17 JobName=other JobState=FAILED Reason=None"))
    name = submission.job_name
    assert ENGINE.ending(submission, 0) is None
    site(scontrol=f"echo JobId=17 JobName={name} JobState=FAILED Reason=None")
    assert ENGINE.ending(submission, 0) == "failed"
    ENGINE.queued(submission)
    assert f" --name={name} " in (tmp_path / "squeue").read_text().splitlines()[-1]


@pytest.mark.parametrize(("squeue", "said"), [("printf '\\377'", "squeue printed"), ("exit 3", "exit status 3")])
def test_strange_answers_end_in_one_line(site: Site, squeue: str, said: str) -> None:
    submission = submit(site())
    site(squeue=squeue)
    with pytest.raises(UserError, match=said) as refused:
        ENGINE.queued(submission)
    assert "\n" not in str(refused.value)


@pytest.fixture
def elsewhere(site: Site, tmp_path: Path) -> Callable[[], StudyTrainings]:
    """Returns what one call of study.py knows of a study of one seed."""
    (tmp_path / "s.toml").write_text("version = 1\nseeds = [1]\n")
    lab = site()
    return lambda: StudyTrainings(load_study(str(tmp_path / "s.toml")), lab.log_root, {None: (ENGINE, lab)})


def test_two_calls_at_once_submit_once(elsewhere: Callable[[], StudyTrainings], tmp_path: Path) -> None:
    first, second = elsewhere(), elsewhere()
    first.submit([], make_console(), nodes=1, at_once=None, dry_run=False)
    with pytest.raises(UserError, match="another program submitted at the same time: call again"):
        second.submit([], make_console(), nodes=1, at_once=None, dry_run=False)
    assert (tmp_path / "sbatch").read_text().count("job.sbatch") == 1
    assert elsewhere().missing() == []
