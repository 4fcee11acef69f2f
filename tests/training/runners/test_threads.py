"""Torch's threads follow the size of the work, and the environment and scores have one thread."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ledger_lab.training import batch as batches
from ledger_lab.training.batch import plan_threads
from ledger_lab.training.runners.threads import Threads, torch_threads
from tests.fakes.observers import Heard
from tests.training.runners.test_adapters import Training, configured, every_library


@every_library
def test_the_widths_are_read_from_the_configuration_of_each_library(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, agent_cfg = configured(library)
    batch = adapter.plan(agent_cfg)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(batches, "usable_cores", lambda: 2)
    with torch_threads(3):
        assert plan_threads(adapter, agent_cfg, batch, 2**20, "cpu") == Threads(act=2, learn=2)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # the user's own number
    with torch_threads(3):
        assert plan_threads(adapter, agent_cfg, batch, 256, "cpu") == Threads(act=1, learn=1)
        assert plan_threads(adapter, agent_cfg, batch, 2**20, "cpu") == Threads(act=3, learn=3)


@every_library
def test_only_the_learner_has_several_threads(library: str, tmp_path: Path) -> None:
    training = Training(library, tmp_path, heard=Heard(), max_iterations=1)
    stepping, learning = [], []
    step = training.env.step

    def watched(actions: torch.Tensor) -> Any:  # noqa: ANN401
        stepping.append(torch.get_num_threads())
        return step(actions)

    training.env.step = watched  # type: ignore[method-assign]
    hook = register_optimizer_step_pre_hook(lambda *_: learning.append(torch.get_num_threads()))
    training.trainer.compute_in(Threads(act=3, learn=2))
    try:
        with torch_threads(1):
            training.train()
            assert torch.get_num_threads() == 1
    finally:
        hook.remove()
    assert set(stepping) == {1} and set(learning) == {2}


def test_an_environment_on_the_cpu_leaves_torch_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.runners import session

    monkeypatch.setattr(session, "import_environment", lambda cfg: None)
    monkeypatch.setattr(session.gym, "make", lambda task, cfg: SimpleNamespace(close=lambda: None))
    cfg = SimpleNamespace(scene=SimpleNamespace(), sim=SimpleNamespace(device="cpu", physics=None))
    with torch_threads(2):
        with session.environment("LedgerLab-Cartpole", cfg):  # type: ignore[arg-type]
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
