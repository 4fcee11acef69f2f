"""The script of a pod carries a training out, passes SIGTERM on, and notes how the training ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ledger_lab.clusters.containers import PART_SCRIPT
from ledger_lab.clusters.plans import Plan, PlannedTraining

TRAIN = """\
import json, os, signal, sys
job = json.loads(os.environ["LEDGER_LAB_JOB"])
print("restarts", job["restarts"], "of", job["job"], "with", sys.argv[1:], flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
if sys.argv[1] == "wait":
    open("waits", "w").close()
    signal.pause()
sys.exit(int(sys.argv[1]))
"""
ENVIRON = {**os.environ, "LEDGER_LAB_KUBERNETES_JOB": "lab job", "LEDGER_LAB_NODE": "node-1"}


def start(root: Path, argument: str) -> subprocess.Popen[str]:
    """Starts the script as a pod does, for a training that is called with an argument."""
    (root / "train.py").write_text(TRAIN)
    training = PlannedTraining(what="s", start=(argument,), resume=(), program="train.py", directory=str(root))
    plan, folder = Plan(name="s", trainings=(training,)), root / "it's $HOME"
    for name in ("started", "output", "exits", "runs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "plan.jsonl").write_text(plan.to_lines())
    arguments = [str(folder), "kubernetes", "0", plan.sha256, sys.executable]
    command = ["bash", "-c", PART_SCRIPT, "job.yaml", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRON, umask=0)


def test_a_training_that_is_asked_to_end_passes_its_exit_status_and_counts_its_parts(tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME"
    part = start(tmp_path, "wait")
    while not (tmp_path / "waits").exists():
        assert part.poll() is None, part.communicate()
        time.sleep(0.02)
    assert not (folder / "exits" / "0").exists()
    part.send_signal(signal.SIGTERM)
    said, _ = part.communicate(timeout=60)
    assert part.returncode == 75 and (folder / "exits" / "0").read_text() == "75\n"
    assert said == f"the output goes to {folder}/output/0.log\n"
    (tmp_path / "waits").unlink()
    again = start(tmp_path, "wait")
    while not (tmp_path / "waits").exists():
        assert again.poll() is None, again.communicate()
        time.sleep(0.02)
    again.terminate()
    assert again.wait(60) == 75
    output = (folder / "output" / "0.log").read_text()
    assert "restarts 0 of lab job with ['wait']" in output and "restarts 1 of lab job with ['wait']" in output


def test_the_exit_status_is_that_of_the_training(tmp_path: Path) -> None:
    part = start(tmp_path, "3")
    part.communicate(timeout=60)
    exits = tmp_path / "it's $HOME" / "exits" / "0"
    assert part.returncode == 3 and exits.read_text() == "3\n"
    assert not any(path.stat().st_mode & 0o002 for path in exits.parents[1].glob("*/0")), "whatever the umask"


def test_a_folder_that_the_node_does_not_share_is_refused(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "missing"), "kubernetes", "0", "0", sys.executable]
    part = subprocess.run(["bash", "-c", PART_SCRIPT, "job.yaml", *arguments], capture_output=True, text=True)
    assert part.returncode == 2
    assert f"can't write to {tmp_path}/missing here: the machine that submits and the nodes must share" in part.stdout
    assert not (tmp_path / "missing").exists()
