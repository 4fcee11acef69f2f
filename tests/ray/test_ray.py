"""Trainings on a real Ray cluster of three nodes: several at once, lost nodes, cancelling, refusals.

The trainings are those of :mod:`tests.fakes.planned_training` and :mod:`tests.fakes.searches`, which write real rows;
one test trains the cart-pole.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fakes.waiting import wait_until
from tests.ray.cluster import NODES, RAY, Cluster, running_cluster, why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(why_not() is not None, reason=f"no Ray here: {why_not()}"),
]

TRAIN = ("--task", "LedgerLab-Cartpole", "--device", "cpu", "--rl_library", "rsl_rl", "--no_eval")
LONG = ("--max_iterations", "40000")
"""A training that never ends by itself."""
STARTS_S = 240.0
"""Longest time in which a training begins to train on a busy machine [s]."""
ATTEMPTS = """
import json, sys
from pathlib import Path
from ledger_lab.ledger import AttemptStarted, STATE_FILE, read_ledger
found = []
for run in read_ledger(Path(sys.argv[1])).runs:
    for attempt in run.attempts:
        for start in attempt.of(AttemptStarted)[:1]:  # none while the journal is being begun
            job = start.job
            found.append((run.declared.run_id, attempt.status, job.restarts, job.nodes[0], attempt.sums.iterations))
print(json.dumps(found))
"""
"""Prints the attempts of all runs, as a process sees them that can look at their processes."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


class Site:
    """A file of a cluster, and what was submitted with it."""

    def __init__(self, cluster: Cluster, folder: Path, *, real: bool = False, **keys: object) -> None:
        folder.mkdir(exist_ok=True)
        self.cluster, self.folder, self.log_root, self.path = cluster, folder, folder / "ledger", folder / "three.toml"
        (folder / "scripts").mkdir()
        (folder / "scripts" / "train.py").symlink_to(ROOT / "tests" / "fakes" / "planned_training.py")
        values = {
            "version": 1,
            "engine": "ray",
            "address": cluster.address,
            "python": str(ROOT / ".venv" / "bin" / "python"),
            "project": str(ROOT if real else folder),
            "log_root": str(self.log_root),
            "grace_s": 60,
            **keys,
        }
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        self.path.write_text(f'{text}[environment]\nPYTHONPATH = "{ROOT}:{ROOT / "source"}"\n')

    def script(self, name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the repository on the head, with Ray's Python."""
        program = (str(RAY / "python"), str(ROOT / "scripts" / f"{name}.py"))
        return self.cluster.inside(*program, *arguments, "--on", str(self.path), **environ)

    def submit(self, *arguments: str, **environ: str) -> str:
        """Submit a training, and return the id of its job."""
        finished = self.script("train", *TRAIN, *arguments, **environ)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout.split("as job ")[1].split()[0]

    @property
    def submission(self) -> Path:
        return max(self.log_root.glob("submissions/*/*"))

    def printed(self, index: int = 0) -> str:
        """Return what a training of the last submission has printed."""
        output = self.submission / "output" / f"{index}.log"
        return output.read_text() if output.exists() else ""

    def ended(self) -> bool:
        """Tell whether the last job has left the cluster."""
        job = json.loads((self.submission / "submission.json").read_text())["job"]
        return self.ask("states", job).stdout == "null\n"

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Ask the cluster."""
        return self.cluster.inside(str(RAY / "python"), "-m", "ledger_lab.clusters.ray_commands", *arguments)

    def exits(self) -> dict[int, int]:
        """Return the exit statuses of the latest parts of the trainings that have ended."""
        return {int(path.name): int(path.read_text() or -1) for path in (self.submission / "exits").iterdir()}

    def attempts(self) -> list[tuple[str, str, int, str, int]]:
        """Return run, status, number of the part, node and iterations of each attempt."""
        python = str(ROOT / ".venv" / "bin" / "python")
        said = self.cluster.inside(python, "-c", ATTEMPTS, str(self.log_root))
        assert said.returncode == 0, said.stdout + said.stderr
        return [tuple(each) for each in json.loads(said.stdout)]  # type: ignore[misc]

    def trains(self, attempt: int = 1) -> bool:
        """Tell whether an attempt of the only run trains."""
        found = self.attempts() if self.log_root.is_dir() else []
        return len(found) >= attempt and found[attempt - 1][4] > 1

    def study(self, seeds: int, *arguments: str, **levels: list[str]) -> str:
        """Write a study, and return its path."""
        path = self.folder / "some.toml"
        factor = "".join(f"{name} = {json.dumps(value)}\n" for name, value in levels.items())
        path.write_text(
            f"version = 1\nseeds = {[*range(seeds)]}\narguments = {json.dumps([*TRAIN, *arguments])}\n"
            f"[factors.kind]\n{factor}"
        )
        return str(path)


def wait_for_training(site: Site, attempt: int = 1) -> None:
    wait_until(lambda: site.trains(attempt), f"attempt {attempt} trains", STARTS_S, shown=site.printed)


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_training_whose_node_is_killed_resumes_its_run_on_another(
    cluster: Cluster, tmp_path: Path, real: bool
) -> None:
    site = Site(cluster, tmp_path, real=real)
    settings = ("--num_envs", "16", "--save_state_every", "1") if real else ()
    job = site.submit(*settings, *LONG)
    wait_for_training(site)
    ((_, _, _, node, _),) = site.attempts()
    cluster.kill_node(node)
    wait_for_training(site, attempt=2)
    cluster.start_node(node)
    (run, before, first, _, _), (again, now, second, other, _) = site.attempts()
    assert (run, before, now) == (again, "lost", "running")
    assert (first, second) == (0, 1) and {node, other} == {*NODES}
    assert site.ask("cancel", job).returncode == 0
    wait_until(site.ended, "the job ends", 60)
    assert [each[1] for each in site.attempts()] == ["lost", "preempted"]


def test_a_study_is_trained_two_at_once_and_reported(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path)
    study = site.study(3, "--max_iterations", "20", slow=["--num_envs", "16"], fast=["--num_envs", "32"])
    submitted = site.script("study", study, "--at_once", "2", RAY_ADDRESS="10.0.0.1:1")
    assert "submitted 6 trainings to three as job 127.0.0.1:" in submitted.stdout, submitted.stderr
    shown = site.script("study", study).stdout
    assert "waiting" in shown and "0 of 6 trainings are in" in shown and "6 wait or run" in shown
    assert len(list(site.log_root.glob("submissions/some/*"))) == 1, "nothing is submitted twice"
    wait_until(lambda: len(site.exits()) == 6, "all have ended", STARTS_S)
    wait_until(site.ended, "the job ends", 60)
    reported = site.script("study", study)
    assert reported.returncode == 0, reported.stdout + reported.stderr
    assert re.search(r"^some-fast +0 of 3 ", reported.stdout, re.MULTILINE) and "queue" in reported.stdout
    assert site.exits() == dict.fromkeys(range(6), 0)
    assert len(site.attempts()) == 6


def test_a_cancelled_training_saves_its_state_and_resumes_when_it_is_submitted_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    site = Site(cluster, tmp_path, cpus=2)
    study = site.study(3, *LONG, only=[])
    asked = [study]
    assert site.script("study", *asked).returncode == 0
    wait_until(lambda: len(site.attempts()) == 2, "two run", STARTS_S, shown=site.printed)
    states = site.script("study", *asked, "--status").stdout
    assert states.count("running on") == 2 and states.count("waiting") == 1
    assert "cancelled 3 trainings" in site.script("study", *asked, "--cancel").stdout
    wait_until(site.ended, "the job ends", 60)
    assert site.exits() == dict.fromkeys((0, 1), 75)
    assert [each[1] for each in site.attempts()] == ["preempted"] * 2
    assert "submitted 3 trainings" in site.script("study", *asked).stdout
    wait_until(lambda: len(site.attempts()) == 4, "they resume", STARTS_S, shown=site.printed)
    assert len({run for run, *_ in site.attempts()}) == 2
    site.script("study", *asked, "--cancel")
    wait_until(site.ended, "the job ends", 60)


def test_a_training_that_the_system_ends_starts_again_elsewhere_a_limited_number_of_times(
    cluster: Cluster, tmp_path: Path
) -> None:
    site = Site(cluster, tmp_path, retries=1)
    job = site.submit(*LONG)
    wait_for_training(site)
    cluster.kill(f"^ray::{job.partition('/')[2]}")  # the kernel then sends SIGTERM to the training
    wait_for_training(site, attempt=2)
    cluster.kill(rf"scripts/train\.py .*--log_root {site.log_root}", "TERM")
    wait_until(site.ended, "the job ends", 60)
    (_, first, _, before, _), (_, second, _, after, _) = site.attempts()
    assert (first, second) == ("preempted", "preempted") and {before, after} == {*NODES}
    assert f"ray: on {before}: lost (WorkerCrashedError): the training starts again" in site.printed()
    assert f"ray: on {after}: exit status 75, after 2 parts: submit the training again" in site.printed()
    assert site.ask("cancel", job).returncode == 0, "a job that has ended is no error"


def test_other_ends_of_a_training_are_final(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, retries=1)
    levels = {f"status{status}": [f"env.exit={status}"] for status in (1, 2, 130, 143)}
    study = site.study(1, *LONG, **levels)
    assert site.script("study", study).returncode == 0
    wait_until(site.ended, "the job ends", STARTS_S)
    assert [*dict(sorted(site.exits().items())).values()] == [1, 2, 130, 143]
    parts = [(site.submission / "started" / str(index)).read_text() for index in range(4)]
    assert parts == ["1\n", "1\n", "1\n", "2\n"]
    states = site.script("study", study, "--status").stdout
    assert "some-status2 seed 0: exit status 2: see" in states


def test_a_job_that_is_killed_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path)
    site.submit("--max_iterations", "60")
    wait_for_training(site)
    cluster.kill("^ray::Job")
    wait_until(lambda: site.exits() == {0: 0}, "the training ends", STARTS_S, shown=site.printed)
    first, *_, last = site.attempts()
    assert first[0] == last[0] and last[1] == "completed"


def test_a_training_that_no_node_can_hold_waits_and_says_so(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, gpus=8)
    study = site.study(1, *LONG, only=[])
    assert site.script("study", study).returncode == 0
    wait_until(
        lambda: "waiting (no node of the cluster has what it needs)" in site.script("study", study, "--status").stdout,
        "it says so",
        60,
    )
    again = site.ask("submit", str(site.submission / "job.json"))
    assert again.returncode == 2 and "Ray runs a job ledger_lab-some-001-" in again.stderr, "no job runs twice"
    assert "cancelled 1 trainings" in site.script("study", study, "--cancel").stdout
    wait_until(site.ended, "the job ends", 60)


def test_a_stranger_without_the_token_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path)
    (tmp_path / "token").write_text("0" * 64)
    refused = site.script("train", *TRAIN, *LONG, RAY_AUTH_TOKEN_PATH=str(tmp_path / "token"))
    assert refused.returncode == 2 and refused.stderr.startswith("error: Ray at 127.0.0.1"), refused.stderr
    assert refused.stderr.count("\n") == 1 and not site.log_root.exists()


def test_the_cluster_listens_on_loopback_alone(cluster: Cluster) -> None:
    listening = [line.split()[3] for line in cluster.inside("ss", "-Hltn").stdout.splitlines()]
    assert listening and all(each.startswith(("127.0.0.1:", "[::ffff:127.0.0.1]:")) for each in listening)
