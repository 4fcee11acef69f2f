"""The examples of trainers that have an environment of their own train, and are reported beside Isaac Lab's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, one_run_dir, script

PYTHON = ROOT / ".venv-trainers" / "bin" / "python"
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs .venv-trainers, which .ci/run builds"),
]
# The network of the example has no way out, and nobody else is in it: Ray listens on all of its interfaces.
ALONE = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]


def alone(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a network that has nothing but loopback."""
    return subprocess.run(
        [*ALONE, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "source"), "HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "example, library, options, status",
    [
        pytest.param("rllib", "rllib", ("--max_iterations", "4", "--eval_every", "2"), "completed", id="rllib"),
        pytest.param("brax_mjx", "brax", ("--eval_every", "5"), "target_reached", id="brax"),
    ],
)
def test_a_trainer_with_an_environment_of_its_own(
    example: str, library: str, options: tuple[str, ...], status: str, tmp_path: Path
) -> None:
    if subprocess.run([*ALONE, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces are not allowed here")
    ledger = tmp_path / "ledger"
    command = [str(PYTHON), str(ROOT / "docs" / "examples" / f"{example}.py"), "--log_root", str(ledger), *options]
    done = alone([*command, "--usd_per_hour", "3.6"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(script("report", "--log_root", ledger, "--json", "-").stdout)["runs"]
    assert (run["rl_library"], run["status"]) == (library, status)
    assert run["heldout_episodes"] % 128 == 0
    assert {"startup", "evaluate", "checkpoint"} <= set(run["phases"])
    assert ({"simulate", "infer", "learn"} <= set(run["phases"])) == (library == "rllib"), (
        "those of Brax are one program"
    )
    assert sum(run["phases"].values()) == pytest.approx(run["wall_s"])
    assert run["billable_usd"] >= run["wall_s"] * 0.001
    assert script("verify_ledger", "--log_root", one_run_dir(ledger / library)).returncode == 0
