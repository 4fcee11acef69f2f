"""Training with rl_games in several processes: an existing process group, and normalizers over all processes."""

from __future__ import annotations

from typing import Any

import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd, RunningMeanStdObs

from ledger_lab.training.runners.collectives import merged_moments, take_from_first


class _SharedMeanStd(RunningMeanStd):
    """The library's normalizer, updated with the samples of all processes."""

    def _update_mean_var_count_from_moments(
        self,
        mean: torch.Tensor,
        var: torch.Tensor,
        count: torch.Tensor,
        batch_mean: torch.Tensor,
        batch_var: torch.Tensor,
        batch_count: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Use the samples of all processes as one batch."""
        batch = merged_moments(batch_mean, batch_var, batch_count, correction=0)
        moments: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = super()._update_mean_var_count_from_moments(
            mean, var, count, *batch
        )
        return moments


def _networks(algo: Any) -> list[Any]:
    """Return the owners of networks: the algorithm, and its central value function if it has one."""
    return [algo, algo.central_value_net] if algo.has_central_value else [algo]


def learn_from_all_processes(algo: Any) -> None:
    """Start with equal networks in all processes, and with normalizers over all processes.

    The library's own normalizers are compiled, so they cannot be modified.

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
    """Make the library average gradients and divergences, once its loop runs.

    Before that, this setting would make the library start NCCL, on one GPU per process. The library treats each process
    as the first one: so the learning-rate schedule runs in all, and each writes statistics, to a folder of its own.

    Args:
        algo: The library's algorithm.
    """
    for owner in _networks(algo):
        owner.multi_gpu, owner.world_size = True, torch.distributed.get_world_size()
