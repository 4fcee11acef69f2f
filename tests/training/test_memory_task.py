"""An LSTM learns what has to be remembered; its run is proven, resumed, scored again, played and exported."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.ledger import Status
from tests.conftest import ROOT, fake, one_run_dir, script
from tests.fakes.held_out import Trial, runtime, still, task_cfg
from tests.fakes.memory_task import HELD_STEPS, PANEL, TASK, agent_cfg, installed
from tests.fakes.supervised import run_of

_runtime = runtime(TASK)


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let programs find the task."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(installed(tmp_path_factory.mktemp("site"))), str(ROOT)]))
        yield


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger with a training that was interrupted after its first iteration, and resumed."""
    root = tmp_path_factory.mktemp("proven")
    panel = root / "memory.toml"
    panel.write_text(PANEL)
    asked = ["--task", TASK, "--panel", panel, "--num_envs", "256", "--device", "cpu", "--seed", "1"]
    stopped = fake("interrupted", *asked, "--max_iterations", "30", "--log_root", root, "1:SIGTERM")
    assert stopped.returncode == 75, stopped.stdout + stopped.stderr
    finished = script("train", "--resume", one_run_dir(root))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return root


def test_without_a_memory_nothing_tells_the_side() -> None:
    """When the cart can move at last, what is observed is the same in all episodes, whatever a policy did."""
    from ledger_lab.training.runners.session import environment

    cfg = task_cfg(TASK)
    cfg.seed, cfg.scene.num_envs = 1, 16
    with environment(TASK, cfg) as env, torch.inference_mode():
        seen, _ = env.reset()
        assert len(seen["policy"].unique(dim=0)) == 2
        for _ in range(HELD_STEPS):
            seen, *_ = env.step(torch.randn(16, 1))
            assert len(seen["policy"].unique(dim=0)) == 1


def test_the_same_policy_fails_if_it_forgets(proven: Path) -> None:
    from ledger_lab.panels import load_panel
    from ledger_lab.panels.scoring import score_policies
    from ledger_lab.training.runners.adapter import load_adapter

    panel, adapter = load_panel(str(proven / "memory.toml")), load_adapter("rsl_rl")
    checkpoint = one_run_dir(proven) / run_of(proven).results[-1].checkpoint
    with Trial(panel, still, still, lambda: task_cfg(TASK)).simulation(2) as (env, slots):
        slots.reset()
        policy = adapter.load_policy(checkpoint, env, adapter.prepare(agent_cfg(), "cpu"))

        def forgetful(seen: dict[str, torch.Tensor]) -> torch.Tensor:
            return policy(seen, *policy.memory(len(seen["policy"])))[0]

        remembering, forgetting = score_policies(slots, [policy, forgetful])
    assert remembering.outcomes.successes >= 48 > forgetting.outcomes.successes
    assert remembering.invalid is forgetting.invalid is None


def test_a_training_with_a_memory_is_resumed_and_proven(proven: Path) -> None:
    run = run_of(proven)
    assert [attempt.status for attempt in run.attempts] == [Status.PREEMPTED, Status.TARGET_REACHED]
    assert run.results[-1].proves


def test_evaluate_repeats_the_recorded_outcomes(proven: Path) -> None:
    recorded = next(row for row in run_of(proven).results if row.purpose == "check" and row.outcomes.successes > 50)
    finished = script("evaluate", one_run_dir(proven) / recorded.checkpoint, "--device", "cpu", "--trust_run")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (again,) = (row for row in run_of(proven).results if row.purpose == "evaluation")
    assert again.outcomes == recorded.outcomes and again.invalid is None


def test_it_is_played_over_several_episodes(proven: Path) -> None:
    finished = script("play", one_run_dir(proven), "--action_range", "--video_length", "60", "--num_envs", "4",
                      "--device", "cpu", "--log_root", proven)  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "of the absolute values of all 240 actions" in finished.stdout


def test_an_exported_policy_takes_and_gives_its_memory(proven: Path, tmp_path: Path) -> None:
    import onnx

    finished = script("export_policy", one_run_dir(proven), "--to", tmp_path, "--device", "cpu", "--log_root", proven)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    contract = json.loads((tmp_path / "contract.json").read_text())
    parts = contract["files"]["memory"]
    assert [(part["input"], part["output"], part["shape"], part["initial"]) for part in parts] == [
        (f"memory_{n}", f"next_memory_{n}", [1, "batch", 16], 0.0) for n in (0, 1)
    ]
    graph = onnx.load(tmp_path / "policy.onnx").graph
    assert [each.name for each in graph.input] == ["obs", "memory_0", "memory_1"]
    assert [each.name for each in graph.output] == ["actions", "next_memory_0", "next_memory_1"]
    policy: Any = torch.jit.load(tmp_path / "policy.pt")
    memory = [torch.zeros(1, 1, 16)] * 2
    assert len(contract["examples"]) == 4
    for example in contract["examples"]:
        actions, *memory = policy(torch.tensor([example["obs"]]), *memory)
        assert torch.allclose(actions[0], torch.tensor(example["actions"]), atol=1e-5)
