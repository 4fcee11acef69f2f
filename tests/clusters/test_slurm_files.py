"""The files of a Slurm job are pure functions of the site and the plan, and hold no text of the user as code."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
from pathlib import Path

import pytest

from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.slurm import (
    ENGINE,
    SlurmSite,
    explain_ending,
    queue_seconds,
    read_squeue,
)

GOLDEN = Path(__file__).parent / "golden"
SIMPLE = SlurmSite(name="simple", log_root=Path("/shared/ledger"), environment={}, time="01:00:00", python="python3")
FULL = SlurmSite(
    name="full",
    log_root=Path("/shared/ledger"),
    environment={"WARP_CACHE_PATH": "/shared/cache; rm -rf $HOME", "QUOTED": 'it\'s "here"'},
    time="2-00:00:00",
    grace_s=300,
    partition="gpu",
    account="robots",
    gpus=4,
    cpus=32,
    memory="64G",
    modules=("cuda/12.4", "apptainer"),
    container=Path("/shared/ledger lab.sif"),
    python="python3",
    options=("--qos=long", "--exclusive"),
)


def plan(count: int, at_once: int | None = None, **changes: object) -> Plan:
    training = PlannedTraining(
        what="cohort seed 1",
        start=("--task", "LedgerLab-Cartpole", "env.name='; touch /tmp/owned #"),
        resume=("--log_root", "/shared/ledger"),
        program="/shared/lab/scripts/train.py",
        directory="/shared/lab",
    )
    return Plan(name="study", trainings=(dataclasses.replace(training, **changes),) * count, at_once=at_once)


@pytest.mark.parametrize(
    ("name", "site", "planned"),
    [("simple.sbatch", SIMPLE, plan(1)), ("full.sbatch", FULL, plan(15, 4, nodes=2, processes=4))],
)
def test_the_script_is_the_golden_one(name: str, site: SlurmSite, planned: Plan) -> None:
    files = ENGINE.files(site, planned, "ledger_lab-study-001")
    assert files == {"job.sbatch": (GOLDEN / name).read_text()}


@pytest.mark.parametrize("site", [SIMPLE, FULL])
def test_bash_accepts_the_script_and_users_values_stay_in_the_plan(site: SlurmSite, tmp_path: Path) -> None:
    script = ENGINE.files(site, plan(3), "ledger_lab-study-001")["job.sbatch"]
    assert "owned" not in script and "Cartpole" not in script
    (tmp_path / "job.sbatch").write_text(script)
    subprocess.run(["bash", "-n", tmp_path / "job.sbatch"], check=True)


def test_values_of_the_environment_are_quoted(tmp_path: Path) -> None:
    script = ENGINE.files(FULL, plan(1), "name")["job.sbatch"]
    exports = "\n".join(line for line in script.splitlines() if line.startswith("export ") and "=" in line)
    printed = subprocess.run(
        ["bash", "-c", f'{exports}\nprintf "%s\\n" "$WARP_CACHE_PATH" "$QUOTED"'], capture_output=True, text=True
    )
    assert printed.stdout.splitlines() == [*FULL.environment.values()]


def test_the_time_in_the_queue_is_from_the_last_submission_to_the_start() -> None:
    job = "JobId=7 SubmitTime=2026-01-01T10:00:00 EligibleTime=2026-01-01T10:00:00 StartTime=2026-01-01T10:01:30 End=x"
    assert queue_seconds(job) == 90.0
    assert queue_seconds("JobId=7 StartTime=Unknown SubmitTime=2026-01-01T10:00:00") is None
    assert queue_seconds("JobId=7 StartTime=2026-01-01T09:59:59 SubmitTime=2026-01-01T10:00:00") is None
    assert queue_seconds("") is None


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("AssocGrpCPUMinutesLimit", "has used up its share"),
        ("QOSGrpWallLimit", "has used up its share"),
        ("JobHeldUser", "is held: scontrol release lets it start"),
        ("launch failed requeued held", "is held: scontrol release lets it start"),
    ],
)
def test_what_a_waiting_job_needs_is_told(reason: str, said: str) -> None:
    assert said in read_squeue(f"0|PENDING|{reason}|")[0].said


def test_endings_without_a_row_are_explained() -> None:
    line = "JobId=7 ArrayJobId=6 JobState={} Reason={} Dependency=(null) ExitCode={} NodeList=node2 BatchHost=node2"
    assert explain_ending(line.format("TIMEOUT", "TimeLimit", "0:0")) == "timeout (TimeLimit)"
    unshared = explain_ending(line.format("FAILED", "RaisedSignal:53(Real-time_signal_19)", "0:53"))
    assert unshared is not None and "node2: log_root must be a folder that all nodes share" in unshared


def test_a_process_learns_its_place_from_slurm() -> None:
    environ = {
        "SLURM_JOB_ID": "20004",
        "SLURM_ARRAY_JOB_ID": "19999",
        "SLURM_RESTART_COUNT": "2",
        "SLURM_JOB_PARTITION": "gpu",
        "LEDGER_LAB_NODES": "node1\nnode2",
        "LEDGER_LAB_SLURM_JOB": "SubmitTime=2026-01-01T10:00:00 StartTime=2026-01-01T10:00:05",
    }
    place = ENGINE.place(environ, 4, 2)
    assert (place.job.job, place.job.index, place.job.restarts) == ("19999", 4, 2)
    assert (place.job.partition, place.job.nodes, place.job.queue_s) == ("gpu", ["node1", "node2"], 5.0)
    assert place.rendezvous == f"node1:{20000 + (20004 + 2 * 997) % 10000}" and place.rendezvous_id == "20004-2"
    again = ENGINE.place({**environ, "SLURM_RESTART_COUNT": "3"}, 4, 2)
    assert again.rendezvous != place.rendezvous and again.rendezvous_id != place.rendezvous_id


STEPS = {
    # exit status of the step, job as scontrol shows it, USR1 before the end, state saved -> what is requeued
    "done": (0, "RUNNING PreemptTime=None", False, True, False),
    "failed": (1, "RUNNING PreemptTime=None", False, True, False),
    "refused": (2, "RUNNING PreemptTime=None", False, True, False),
    "interrupted": (130, "RUNNING PreemptTime=None", False, True, False),
    "time is up": (75, "RUNNING PreemptTime=None", True, True, True),
    "time is up without progress": (75, "RUNNING PreemptTime=None", True, False, False),
    "time is up without a state": (143, "RUNNING PreemptTime=None", True, False, False),
    "time is up and cancelled": (75, "COMPLETING PreemptTime=None", True, True, False),
    "preempted": (75, "RUNNING PreemptTime=2026-01-01T10:00:00", False, True, True),
    "preempted before a state": (143, "RUNNING PreemptTime=2026-01-01T10:00:00", False, False, True),
    "preempted and cancelled": (75, "COMPLETING PreemptTime=2026-01-01T10:00:00", False, True, False),
    "cancelled": (75, "COMPLETING PreemptTime=None", False, True, False),
    "cancelled before a state": (143, "COMPLETING PreemptTime=None", False, False, False),
}


@pytest.mark.parametrize("name", STEPS)
def test_only_jobs_that_the_system_ended_are_requeued(name: str, tmp_path: Path) -> None:
    status, shown, signalled, saved, requeued = STEPS[name]
    folder, programs = tmp_path / "001", tmp_path / "bin"
    for each in (folder / "output", folder / "started", folder / "exits", folder / "runs", programs):
        each.mkdir(parents=True)
    (folder / "runs" / "3").write_text(str(tmp_path))
    state = f"sleep 0.05; touch {shlex.quote(str(tmp_path / 'training_state.pt'))};" if saved else ""
    wait = "trap 'heard=1' USR1; kill -USR1 $PPID; until [[ ${heard-} ]]; do sleep 0.05; done" if signalled else ""
    (programs / "srun").write_text(f"#!/bin/bash\n{wait}\n{state}\nexit {status}\n")
    (programs / "scontrol").write_text(
        f'#!/bin/bash\n[[ $1 == requeue ]] && echo "$2" >{tmp_path}/requeued\n'
        f'[[ "$*" == "show job --oneliner 19_3" ]] && echo "JobId=22 JobState={shown} x=1"\nexit 0\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    (folder / "job.sbatch").write_text(ENGINE.files(SIMPLE, plan(4), "name")["job.sbatch"])
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_ARRAY_JOB_ID": "19",
        "SLURM_JOB_ID": "19",
        "SLURM_JOB_NODELIST": "node1",
    }
    finished = subprocess.run(
        ["bash", "job.sbatch"], cwd=folder, env=environ, capture_output=True, text=True, timeout=60
    )
    assert finished.returncode == status, finished.stderr
    assert (folder / "exits" / "3").read_text() == f"{status}\n"
    asked = tmp_path / "requeued"
    assert (asked.read_text() if asked.exists() else None) == ("19_3\n" if requeued else None)
