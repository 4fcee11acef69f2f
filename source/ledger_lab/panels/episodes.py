"""Held-out episodes inside a simulation: where they start, and what becomes of them."""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import HORIZON, NON_FINITE, Outcomes
from ledger_lab.panels.panel import Panel
from ledger_lab.panels.seeds import episode_stream

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_RUNNING, _AT_HORIZON, _BROKEN = -1, -2, -3


def resolve_success(panel: Panel) -> Callable[..., torch.Tensor]:
    """Import the success function of a panel.

    Args:
        panel: The panel.

    Raises:
        UserError: If it can't be imported, or doesn't take an environment and the panel's parameters.
    """
    module, _, name = panel.success_function.partition(":")
    try:
        function: Callable[..., torch.Tensor] = getattr(importlib.import_module(module), name)
        inspect.signature(function).bind(None, **panel.success_params)
    except Exception as error:
        raise UserError(
            f"panel {panel.name}: success function {panel.success_function!r} cannot be called with "
            f"{panel.success_params}: {error}"
        ) from error
    return function


class StartTable:
    """The state in which each episode of a panel starts, as tensors over the episodes.

    The states come from the task's own reset events, run for one slot at a time under a random stream that depends on
    the episode alone.
    """

    def __init__(self, env: ManagerBasedRLEnv, panel: Panel) -> None:
        """Draw all starts of a panel.

        Args:
            env: An environment with at least one slot; it is reset.
            panel: The panel.
        """
        base = env.unwrapped
        slot = torch.zeros(1, dtype=torch.int32, device=base.device)
        drawn: list[dict[tuple[str, str], torch.Tensor]] = []
        for cell, seed in panel.episodes:
            with _random_stream(episode_stream(panel.task, cell, seed), base.device):
                base._reset_idx(slot)
            drawn.append({key: part[:1].clone() for key, part in _read_state(base).items()})
        self._states = {key: torch.cat([state[key] for state in drawn]) for key in drawn[0]}

    def write(self, env: ManagerBasedRLEnv, repeats: int) -> None:
        """Put the environment at the starts, ``repeats`` times one after another.

        Args:
            env: An environment with ``repeats`` times as many slots as there are episodes.
            repeats: How many policies take the panel.
        """
        base = env.unwrapped
        base._reset_idx(torch.arange(base.num_envs, dtype=torch.int32, device=base.device))
        _write_state(base, {key: part.repeat(repeats, *[1] * (part.dim() - 1)) for key, part in self._states.items()})
        base.scene.write_data_to_sim()
        base.sim.forward()
        base.obs_buf = base.observation_manager.compute(update_history=True)


def _read_state(base: ManagerBasedRLEnv) -> dict[tuple[str, str], torch.Tensor]:
    """Return the scene's state by asset and part, each of shape (num_envs, ...)."""
    state: dict[tuple[str, str], torch.Tensor] = {}
    for name, asset in (*base.scene.articulations.items(), *base.scene.rigid_objects.items()):
        state[name, "root_pose"] = _relative(base, asset.data.root_link_pose_w.torch, -1.0)
        state[name, "root_velocity"] = asset.data.root_com_vel_w.torch
    for name, robot in base.scene.articulations.items():
        state[name, "joint_position"] = robot.data.joint_pos.torch
        state[name, "joint_velocity"] = robot.data.joint_vel.torch
    return state


def _write_state(base: ManagerBasedRLEnv, state: dict[tuple[str, str], torch.Tensor]) -> None:
    """Write what :func:`_read_state` returned.

    Isaac Lab's own ``scene.reset_to`` is no way to do it: it sets the joints' velocity targets to the velocities it
    writes, so that a damped joint is driven on for the whole episode.
    """
    for name, asset in (*base.scene.articulations.items(), *base.scene.rigid_objects.items()):
        asset.write_root_pose_to_sim_index(root_pose=_relative(base, state[name, "root_pose"], 1.0))
        asset.write_root_velocity_to_sim_index(root_velocity=state[name, "root_velocity"])
    for name, robot in base.scene.articulations.items():
        robot.write_joint_position_to_sim_index(position=state[name, "joint_position"])
        robot.write_joint_velocity_to_sim_index(velocity=state[name, "joint_velocity"])


def _relative(base: ManagerBasedRLEnv, pose: torch.Tensor, sign: float) -> torch.Tensor:
    """Move poses of shape (num_envs, 7) into the frames of their slots (sign -1), or out of them (+1)."""
    moved = pose.clone()
    moved[:, :3] += sign * base.scene.env_origins
    return moved


@contextmanager
def _random_stream(seed: int, device: str) -> Iterator[None]:
    """Draw from a stream of its own, and give the global streams back as they were."""
    cuda = [torch.device(device)] if "cuda" in device else []
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


class EpisodeProbe:
    """Follows one episode per slot, from inside ``env.step``.

    It looks between the terminations and the resets of each step, where the state that decides is still there.
    """

    def __init__(self, env: ManagerBasedRLEnv, panel: Panel) -> None:
        """Start following; all slots are at the start of their episodes.

        Args:
            env: The environment.
            panel: The panel.
        """
        self._base = base = env.unwrapped
        self._panel = panel
        self._success = resolve_success(panel)
        self.horizon = round(panel.episode_length_s / base.step_dt)
        self._hold_steps = max(1, round(panel.hold_s / base.step_dt))
        count, device = base.num_envs, base.device
        self._ended = torch.full((count,), _RUNNING, dtype=torch.long, device=device)
        self._steps = torch.zeros(count, dtype=torch.long, device=device)
        self._held = torch.zeros(count, dtype=torch.long, device=device)
        self._best = torch.zeros(count, dtype=torch.long, device=device)
        self._return = torch.zeros(count, dtype=torch.float64, device=device)
        self.steps_done = 0
        self._terms = base.termination_manager.active_terms
        self._compute = base.termination_manager.compute
        base.termination_manager.compute = self._observe

    def detach(self) -> None:
        """Stop looking into the environment."""
        self._base.termination_manager.compute = self._compute

    @property
    def running(self) -> bool:
        """Whether any episode still goes on."""
        return bool((self._ended == _RUNNING).any())

    def _observe(self) -> torch.Tensor:
        """Compute the terminations, and note what they and the success function say of the running episodes."""
        done = self._compute()
        self.steps_done += 1
        at_horizon = self.steps_done == self.horizon
        manager = self._base.termination_manager
        running = self._ended == _RUNNING
        self._counted = running
        holds = self._success(self._base, **self._panel.success_params) & running
        self._held = torch.where(holds, self._held + 1, torch.where(running, 0, self._held))
        self._best = torch.maximum(self._best, self._held)
        self._steps += running
        for index, name in enumerate(self._terms):
            if at_horizon and manager.get_term_cfg(name).time_out:
                continue
            self._ended[manager.get_term(name) & (self._ended == _RUNNING)] = index
        if at_horizon:
            self._ended[self._ended == _RUNNING] = _AT_HORIZON
        return done

    def after_step(self, observations: dict[str, torch.Tensor], rewards: torch.Tensor) -> None:
        """Note the rewards of the step, and episodes whose figures are not finite.

        Args:
            observations: Observation groups of shape (num_envs, ...).
            rewards: Shape (num_envs,).
        """
        self._return += torch.where(self._counted, rewards, 0.0)
        finite = torch.isfinite(rewards)
        for group in observations.values():
            finite &= torch.isfinite(group.flatten(1)).all(dim=1)
        self._ended[self._counted & ~finite] = _BROKEN

    def outcomes(self, first: int) -> Outcomes:
        """Return what became of the panel's episodes in the slots from ``first`` on.

        Raises:
            RuntimeError: If one of them is still running.
        """
        episodes = self._panel.episodes
        slots = slice(first, first + len(episodes))
        ended = self._ended[slots].tolist()
        if _RUNNING in ended:
            raise RuntimeError(f"panel {self._panel.name}: an episode has not ended")
        names = {_AT_HORIZON: HORIZON, _BROKEN: NON_FINITE, **dict(enumerate(self._terms))}
        held, best = self._held[slots].tolist(), self._best[slots].tolist()
        returns = self._return[slots]
        return Outcomes(
            cell=[cell for cell, _ in episodes],
            seed=[seed for _, seed in episodes],
            success=[end == _AT_HORIZON and steps >= self._hold_steps for end, steps in zip(ended, held, strict=True)],
            success_any=[end != _BROKEN and steps >= self._hold_steps for end, steps in zip(ended, best, strict=True)],
            steps=self._steps[slots].tolist(),
            episode_return=[
                value if finite else None
                for value, finite in zip(returns.tolist(), torch.isfinite(returns).tolist(), strict=True)
            ],
            ended_by=[names[end] for end in ended],
        )
