"""Trainings of the cart-pole on a real Slurm of two nodes: arrays, requeueing, cancelling, lost nodes, several nodes.

The tests run in their order and share one cluster. A run on a lost node counts as lost only after minutes, so a later
test looks at what became of it.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_lab.ledger import STATE_FILE, AttemptStarted, LearnerHashed, Run, Status, read_ledger
from ledger_lab.reports import summarize_run
from tests.conftest import ROOT
from tests.fakes.waiting import wait_until
from tests.slurm.cluster import NODES, Cluster, running_cluster, why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(why_not() is not None, reason=f"no Slurm here: {why_not()}"),
]

TINY = ("--device", "cpu", "--num_envs", "16", "--rl_library", "rsl_rl")
"""A training that costs little."""
LONG = (*TINY, "--no_eval", "--save_state_every", "1", "--max_iterations", "4000")
"""A training that never ends by itself, and can be resumed after each iteration."""
STARTS_S = 400.0
"""Longest time in which a training begins to train on a busy machine [s]."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


class Site:
    """A file of a cluster, and the trainings that were submitted with it."""

    def __init__(self, cluster: Cluster, folder: Path, text: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.cluster, self.log_root, self.path = cluster, folder / "ledger", folder / "two.toml"
        keys = {"partition": '"low"', "time": '"00:50:00"', "grace_s": "60", "cpus": "2"}
        keys |= dict(line.split(" = ") for line in text.splitlines() if line)
        self.path.write_text(
            f'version = 1\nengine = "slurm"\nlog_root = "{self.log_root}"\n'
            + "".join(f"{key} = {value}\n" for key, value in keys.items())
        )

    def script(self, name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the repository on the controller, with further environment variables."""
        program = str(ROOT / "scripts" / f"{name}.py")
        return self.cluster.script(sys.executable, program, *arguments, cwd=ROOT, environ=environ)

    def train(self, *arguments: str) -> str:
        """Submit a training, and return the id of its job."""
        finished = self.script("train", *arguments, "--on", str(self.path))
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout.split("as job ")[1].split()[0]

    @property
    def submission(self) -> Path:
        (folder,) = self.log_root.glob("submissions/*/*")
        return folder

    def printed(self) -> str:
        """Return what the only training has printed."""
        output = self.submission / "output" / "0.log"
        return output.read_text() if output.exists() else ""

    def runs(self) -> tuple[Run, ...]:
        return read_ledger(self.log_root).runs

    def trains(self, attempt: int = 1) -> bool:
        """Tell whether an attempt of the only run trains, and has saved a state."""
        (*runs,) = self.runs() if self.log_root.is_dir() else ()
        if not runs or len(runs[0].attempts) < attempt:
            return False
        return runs[0].attempts[attempt - 1].sums.iterations > 0 and (runs[0].directory / STATE_FILE).is_file()


def wait_for_training(site: Site, attempt: int = 1) -> None:
    wait_until(lambda: site.trains(attempt), f"attempt {attempt} trains", STARTS_S, 1, site.printed)


def jobs_of(run: Run) -> list[tuple[int, list[str]]]:
    """Return restart count and nodes of each attempt."""
    rows = [attempt.of(AttemptStarted)[0].job for attempt in run.attempts]
    return [(row.restarts, row.nodes) for row in rows if row is not None]


@pytest.fixture(scope="module")
def lost(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A training of two processes whose node loses its power in mid-training, and comes back later."""
    site = Site(cluster, tmp_path_factory.mktemp("lost"))
    job = site.train(*LONG, "--nproc", "2")
    wait_for_training(site)
    node = cluster.job(f"{job}_0")["NodeList"]
    cluster.kill_node(node)
    # It starts on the other node: when the dead node comes back, its former processes are known to be gone.
    wait_until(lambda: cluster.job(f"{job}_0").get("NodeList") in {*NODES} - {node}, "it is requeued", 120)
    cluster.start_node(node)
    return site


def test_a_node_that_dies_has_its_training_requeued(lost: Site) -> None:
    wait_until(lambda: "has no recorded end: waiting until it counts as lost" in lost.printed(), "it waits", STARTS_S)
    (run,) = lost.runs()
    assert len(run.attempts) == 1, "nothing writes before the lost attempt counts as lost"
    lost.path.with_name("waits").touch()


def test_an_array_of_four_is_trained_two_at_once_and_reported(cluster: Cluster, tmp_path: Path) -> None:
    """The first call is killed when Slurm has taken the job, and before it can note the job."""
    site = Site(cluster, tmp_path, 'instance = "aws-g6.xlarge"')
    study = tmp_path / "four.toml"
    study.write_text(
        f"version = 1\nseeds = [1, 2]\narguments = {[*TINY, '--no_eval', '--max_iterations', '2']}\n"
        '[factors.rate]\nslow = ["agent.algorithm.learning_rate=1e-4"]\nfast = ["agent.algorithm.learning_rate=1e-3"]\n'
    )
    asked = [str(study), "--on", str(site.path)]
    killer = tmp_path / "bin" / "sbatch"
    killer.parent.mkdir()
    killer.write_text(
        f'#!/bin/bash\n{shutil.which("sbatch")} "$@" || exit\n[[ $1 == --version ]] || kill -KILL $PPID\n'
    )
    killer.chmod(0o755)
    killed = site.script("study", *asked, "--at_once", "2", PATH=f"{killer.parent}:{os.environ['PATH']}")
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    shown = site.script("study", *asked, "--status").stdout
    assert "0 of 4 trainings are in" in shown and "4 wait or run" in shown, "the job is found"
    wait_until(
        lambda: "pending (JobArrayTaskLimit)" in site.script("study", *asked, "--status").stdout,
        "Slurm's scheduler has looked at the whole array",
        60,
    )
    assert "4 wait or run" in site.script("study", *asked).stdout, "nothing is submitted twice"
    here = site.script("study", str(study), "--log_root", str(site.log_root))
    assert "4 wait or run on two" in here.stdout and "training, iteration" not in here.stdout, here.stderr
    job = json.loads((site.submission / "submission.json").read_text())["job"]
    wait_until(lambda: cluster.has_ended(job), "all have ended", 900, 2)
    reported = site.script("study", *asked)
    assert reported.returncode == 0, reported.stdout + reported.stderr
    assert re.search(r"^four-fast .* 2 of 2 ", reported.stdout, re.MULTILINE) and "queue" in reported.stdout
    assert len(list(site.log_root.glob("submissions/four/*"))) == 1
    runs = site.runs()
    assert {(run.declared.cohort, run.declared.seed) for run in runs} == {
        (f"four-{arm}", seed) for arm in ("slow", "fast") for seed in (1, 2)
    }
    rows = [run.attempts[0].of(AttemptStarted)[0].job for run in runs]
    assert sorted(row.index for row in rows if row) == [0, 1, 2, 3]
    assert {(row.engine, row.partition) for row in rows if row} == {("slurm", "low")}
    waits = {row.index: row.queue_s for row in rows if row}
    assert all(waits[last] > waits[first] for first in (0, 1) for last in (2, 3)), "two at a time"
    assert [summarize_run(run).queue_s for run in runs] == [row.queue_s for row in rows if row]


def test_the_run_on_the_lost_node_is_resumed_on_the_other(cluster: Cluster, lost: Site) -> None:
    wait_for_training(lost, attempt=2)
    job = json.loads((lost.submission / "submission.json").read_text())["job"]
    cluster.tried("scancel", job)
    (run,) = lost.runs()
    assert run.attempts[0].status is Status.LOST
    (first, (before,)), (second, (after,)) = jobs_of(run)
    assert (first, second) == (0, 1) and {before, after} == {"node1", "node2"}
    assert run.attempts[0].wall_ns > 0, "it is billed to its last sign of life"
    part_started, waited_until = (lost.submission / "started" / "0").stat(), lost.path.with_name("waits").stat()
    waited_ns = waited_until.st_mtime_ns - part_started.st_mtime_ns
    starts = [journal.of(AttemptStarted)[0] for journal in run.attempts[1].ranks]
    assert len(starts) == 2 and all(start.wall_ns > waited_ns for start in starts), "the wait is billed"


def test_a_preempted_training_is_requeued_and_resumed_and_a_cancelled_one_stays_cancelled(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The partition ``patient`` gives preempted jobs time; the script requeues its job. In ``low``, Slurm does that."""
    places = {"low": "node1", "patient": "node2"}
    sites = {
        partition: Site(cluster, tmp_path / partition, f'partition = "{partition}"\noptions = ["--nodelist={node}"]')
        for partition, node in places.items()
    }
    jobs = {partition: site.train(*LONG) for partition, site in sites.items()}
    for site in sites.values():
        wait_for_training(site)
    high = ("--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    assert "Submitted" in cluster.tried("sbatch", *high)
    for partition, site in sites.items():
        wait_for_training(site, attempt=2)
        (run,) = site.runs()
        assert run.attempts[0].status is Status.PREEMPTED
        assert jobs_of(run) == [(0, [places[partition]]), (1, [places[partition]])]
        assert summarize_run(run).queue_s is not None
        assert f"resumes run {run.run_id}" in site.printed()
        assert ("job.sbatch: preempted; requeueing" in site.printed()) == (partition == "patient")
    cluster.tried("scancel", *jobs.values())
    for partition, site in sites.items():
        task = f"{jobs[partition]}_0"
        wait_until(lambda task=task: cluster.job(task)["JobState"] == "CANCELLED", "it is cancelled", 120)
        assert (site.submission / "exits" / "0").read_text() == "75\n"
        assert site.printed().rstrip().endswith("Slurm has ended the job, or requeues it by itself")
        (run,) = site.runs()
        assert [attempt.status for attempt in run.attempts] == [Status.PREEMPTED] * 2
    assert cluster.tried("squeue", "--noheader") == "", "nothing comes back"


def test_a_training_that_a_site_cancels_is_submitted_again_by_the_study(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, 'partition = "cancelling"\noptions = ["--nodelist=node1"]')
    study = tmp_path / "one.toml"
    arguments = [*TINY, "--no_eval", "--save_state_every", "1", "--max_iterations", "40"]
    study.write_text(f"version = 1\nseeds = [1]\narguments = {arguments}\n")
    asked = [str(study), "--on", str(site.path)]
    job = site.script("study", *asked).stdout.split("as job ")[1].split()[0]
    wait_for_training(site)
    high = ("--partition=high", "--nodelist=node1", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    cluster.tried("sbatch", *high)
    wait_until(lambda: cluster.has_ended(job), "it is cancelled", 120)
    again = site.script("study", *asked)
    assert "submitted 1 trainings" in again.stdout, again.stdout + again.stderr
    wait_until(lambda: site.runs()[0].attempts[-1].status is Status.COMPLETED, "it goes on", STARTS_S, 2)
    (run,) = site.runs()
    assert [attempt.status for attempt in run.attempts] == [Status.PREEMPTED, Status.COMPLETED]


def test_a_training_whose_time_is_up_is_requeued_and_resumed(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, 'grace_s = 150\noptions = ["--nodelist=node1"]')
    job = site.train(*LONG)
    wait_for_training(site)
    # Shorter than grace_s, so that Slurm sends its signal at its next look, and longer than it takes until then.
    ran_s = time.time() - (site.submission / "started" / "0").stat().st_mtime
    cluster.inside("control", "scontrol", "update", f"JobId={job}_0", f"TimeLimit={math.ceil(ran_s / 60) + 1}")
    wait_until(lambda: "the time is up; requeueing" in site.printed(), "the time is up", STARTS_S)
    wait_until(lambda: "resumes run" in site.printed(), "it resumes", STARTS_S)
    cluster.tried("scancel", job)
    (run,) = site.runs()
    assert run.attempts[0].status is Status.PREEMPTED
    assert run.attempts[0].ended is not None and "SIGUSR1" in str(run.attempts[0].ended.reason)


def test_two_nodes_reach_a_proven_target_with_equal_parameters(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, "cpus = 1")
    arguments = ("--device", "cpu", "--num_envs", "128", "--rl_library", "rsl_rl", "--target", "0.5")
    finished = site.script("train", *arguments, "--on", str(site.path), "--nodes", "2")
    assert finished.returncode == 0, finished.stderr
    exit_status = site.submission / "exits" / "0"
    wait_until(exit_status.exists, "it ends", 900, 2, site.printed)
    assert exit_status.read_text() == "0\n", site.printed()[-4000:]
    (run,) = site.runs()
    assert run.proven and run.attempts[0].status is Status.TARGET_REACHED
    starts = run.attempts[0].of(AttemptStarted)
    assert [(start.rank, start.host) for start in starts] in (
        [(0, "node1"), (1, "node2")],
        [(0, "node2"), (1, "node1")],
    )
    assert (run.declared.world_size, run.declared.machines) == (2, 2)
    hashes = [{row.iteration: row.sha256 for row in journal.of(LearnerHashed)} for journal in run.attempts[0].ranks]
    assert hashes[0] == hashes[1] and len(hashes[0]) >= 2


def test_a_study_of_sizes_trains_on_one_and_on_two_nodes(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, "cpus = 1")
    study = tmp_path / "sizes.toml"
    arguments = ["--device", "cpu", "--rl_library", "rsl_rl", "--no_eval", "--max_iterations", "2"]
    study.write_text(
        f"version = 1\nseeds = [1]\narguments = {arguments}\n"
        '[scaling]\nkind = "weak"\nnum_envs = 16\nsizes = [{ processes = 1 }, { processes = 1, nodes = 2 }]\n'
    )
    asked = [str(study), "--on", str(site.path)]
    submitted = site.script("study", *asked)
    assert submitted.stdout.count("submitted 1 trainings to two as job") == 2, submitted.stdout + submitted.stderr
    assert "2 wait or run" in site.script("study", *asked).stdout
    folders = [site.log_root / "submissions" / "sizes" / number for number in ("001", "002")]
    exits = [folder / "exits" / "0" for folder in folders]
    wait_until(lambda: all(each.exists() for each in exits), "both end", 900, 2)
    assert [each.read_text() for each in exits] == ["0\n"] * 2, (folders[1] / "output" / "0.log").read_text()[-4000:]
    reported = site.script("study", *asked)
    assert reported.returncode == 0 and "weak scaling: 16 environments in each process" in reported.stdout
    sizes = {run.declared.cohort: (run.declared.world_size, run.declared.machines) for run in site.runs()}
    assert sizes == {"sizes-1x1x16": (1, 1), "sizes-1x2x16": (2, 2)}


def test_what_would_never_run_is_refused_and_nothing_stays_submitted(cluster: Cluster, tmp_path: Path) -> None:
    for text, said in (
        ('partition = "gone"', "Invalid partition name specified: correct this key"),
        ('partition = "closed"\naccount = "poor"', "would never start"),
        ('time = "10:00:00"', "would never start"),
        ("cpus = 64", "would never start"),
        ('container = "/shared/none.sif"', "no container /shared/none.sif"),
    ):
        site = Site(cluster, tmp_path / "refused", text)
        finished = site.script("train", *TINY, "--on", str(site.path))
        assert finished.returncode == 2 and said in finished.stderr, finished.stderr
        assert finished.stderr.count("\n") == 1
        assert not list(site.log_root.glob("submissions/*/*")), "no folder looks like a submission"
        assert "refused" not in cluster.tried("squeue", "--format=%Z")


def test_a_log_root_that_the_nodes_do_not_share_is_told(cluster: Cluster, tmp_path: Path) -> None:
    cluster.inside("node1", "mount", "-t", "tmpfs", "none", str(tmp_path))
    try:
        site = Site(cluster, tmp_path, 'options = ["--nodelist=node1"]')
        study = tmp_path / "one.toml"
        study.write_text(f"version = 1\nseeds = [1]\narguments = {[*TINY]}\n")
        asked = [str(study), "--on", str(site.path)]
        job = site.script("study", *asked).stdout.split("as job ")[1].split()[0]
        wait_until(lambda: cluster.has_ended(job), "it has ended", 120)
        assert "log_root must be a folder that all nodes share" in site.script("study", *asked, "--status").stdout
    finally:
        cluster.inside("node1", "umount", str(tmp_path))
