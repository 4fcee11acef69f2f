"""What rl_games needs to train in several processes: a group that is there, and normalizers that see all of them."""

from __future__ import annotations

from typing import Any

import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd, RunningMeanStdObs

from ledger_lab.runners.collectives import merged_moments, take_from_first


class _SharedMeanStd(RunningMeanStd):
    """The library's normalizer, which learns from the samples of all processes."""

    def _update_mean_var_count_from_moments(
        self,
        mean: torch.Tensor,
        var: torch.Tensor,
        count: torch.Tensor,
        batch_mean: torch.Tensor,
        batch_var: torch.Tensor,
        batch_count: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Take all samples for one batch."""
        batch = merged_moments(batch_mean, batch_var, batch_count, correction=0)
        moments: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = super()._update_mean_var_count_from_moments(
            mean, var, count, *batch
        )
        return moments


def _networks(algo: Any) -> list[Any]:
    """Return the policy's network, and the value function's where it has one of its own."""
    return [algo, algo.central_value_net] if algo.has_central_value else [algo]


def learn_from_all_processes(algo: Any) -> None:
    """Begin with the same networks everywhere, and with normalizers that see all processes.

    The library's own are compiled, and nothing can be put between.

    Args:
        algo: The library's algorithm.
    """
    for owner in _networks(algo):
        model = owner.model
        if model.normalize_value:
            model.value_mean_std = algo.value_mean_std = _SharedMeanStd((model.value_size,))
        if model.normalize_input and isinstance(model.obs_shape, dict):
            model.running_mean_std = RunningMeanStdObs(model.obs_shape)
            shared = {name: _SharedMeanStd(shape) for name, shape in model.obs_shape.items()}
            model.running_mean_std.running_mean_std = torch.nn.ModuleDict(shared)
        elif model.normalize_input:
            model.running_mean_std = _SharedMeanStd(model.obs_shape)
        model.to(algo.ppo_device)
        take_from_first(model)


def reduce_gradients(algo: Any) -> None:
    """Let the library average gradients and divergences, now that its loop runs.

    Had it been told before, it would have started NCCL, on one GPU per process. Each process remains the first one in
    the library's eyes: the schedule of the learning rate then runs everywhere, and statistics go where nobody looks.

    Args:
        algo: The library's algorithm.
    """
    for owner in _networks(algo):
        owner.multi_gpu, owner.world_size = True, torch.distributed.get_world_size()
