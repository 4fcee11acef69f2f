"""SAC and TD3 of SKRL, with gradient steps that the library's own agents can't compute.

Only the update is new: sums of several rewards, critics of distributions, more than two critics, scaled rewards, and
weights of transitions. Networks, optimizers, acting, storing and checkpoints are the library's. Without any of these
options, the updates equal the library's bit for bit on a CPU, which a test proves. Then LedgerLab trains with the
library's own agents.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ledger_lab.training.runners.skrl.adapter import config  # isort: skip - imports SKRL so that it starts no NCCL
from skrl.agents.torch import Agent
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3
from skrl.models.torch import Model

from ledger_lab.off_policy.reward_scale import RewardScale
from ledger_lab.off_policy.skrl.critics import CategoricalCritics, Critics, Estimate, MeanCritics
from ledger_lab.off_policy.skrl.memory import DISCOUNTS, WEIGHTS
from ledger_lab.off_policy.skrl.off_policy_dialect import TARGET
from ledger_lab.off_policy.skrl.options import Options
from ledger_lab.off_policy.value_distribution import ValueDistribution

REWARD_SCALE = "reward_scale"
"""Name of the scale of the rewards, as an attribute and in checkpoints."""

type Inputs = dict[str, torch.Tensor | None]
"""Normalized inputs of the library's networks."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Transitions of one gradient step."""

    inputs: Inputs
    next_inputs: Inputs
    """After the last reward."""
    actions: torch.Tensor
    """Shape (n, actions)."""
    rewards: torch.Tensor
    """Sums of discounted rewards, of shape (n, 1)."""
    bootstrap: torch.Tensor
    """Factor of the value of the next observation; 0 after a termination. Shape (n, 1)."""
    weights: torch.Tensor | None
    """Factor of each transition's loss of the critics, of shape (n, 1); ``None`` if all count alike."""


class ReplayAgent(Agent):
    """What both algorithms share."""

    critic_loss_scale: ClassVar[float]
    """Factor of the sum of the critics' losses, as in the library."""
    policy_critics: ClassVar[int]
    """If there are two critics, the policy learns from the lowest value of this many, as in the library."""

    def __init__(self, *, options: Options, num_envs: int, **library: Any) -> None:  # noqa: ANN401 - passes through
        """Build the library's agent.

        Args:
            options: What it learns with.
            num_envs: Number of environments.
            library: Arguments of the library's own agent.
        """
        super().__init__(**library)
        self._n_step, self._prioritizes = options.n_step, options.prioritized_sampling
        device = torch.device(self.device)
        self._roles = options.critic_roles[: options.critics]
        """Roles of the critics, without those of their target networks."""
        self._in_target = options.critics_in_target
        for role in self._roles:
            if role in options.further_roles:
                self._add_critic(role)
        self._critics: Critics = MeanCritics()
        if options.value_atoms > 1:
            distribution = ValueDistribution(*options.value_range, options.value_atoms, device)
            self._critics = CategoricalCritics([self.models[role] for role in options.critic_roles], distribution)
        self.reward_scale: RewardScale | None = None
        """Scale of the rewards; ``None`` if they stay as they are stored."""
        if options.reward_normalization:
            self.reward_scale = RewardScale(num_envs, self.cfg.discount_factor, device)
            self.checkpoint_modules[REWARD_SCALE] = self.reward_scale

    def _add_critic(self, role: str) -> None:
        """Do with a critic and its target network what the library does with its two."""
        critic, target = self.models[role], self.models[TARGET + role]
        if config.torch.is_distributed:
            critic.broadcast_parameters()
        target.freeze_parameters(True)
        target.update_parameters(critic, polyak=1)
        self.critic_optimizer.add_param_group({"params": list(critic.parameters())})
        self.checkpoint_modules |= {role: critic, TARGET + role: target}

    def record_transition(self, **transition: Any) -> None:  # noqa: ANN401 - passes through
        """Store a step of all environments, and take in its rewards."""
        super().record_transition(**transition)
        if self.training and self.reward_scale is not None:
            rewards, shaper = transition["rewards"], self.cfg.rewards_shaper
            if shaper is not None:
                rewards = shaper(rewards, transition["timestep"], transition["timesteps"])
            self.reward_scale.update(rewards, transition["terminated"] | transition["truncated"])

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Make the gradient steps of an environment step.

        Args:
            timestep: The step.
            timesteps: Steps of the training.
        """
        for _ in range(self.cfg.gradient_steps):
            batch = self._draw()
            self._improve_critics(batch)
            self._improve_policy(batch.inputs)
            self.scaler.update()

    def _draw(self) -> Batch:
        """Draw transitions, and normalize them."""
        names = (*self._tensors_names, DISCOUNTS, WEIGHTS)
        (drawn,) = self.memory.sample(
            names, batch_size=self.cfg.batch_size, n_step=self._n_step, discount=self.cfg.discount_factor
        )
        held = dict(zip(names, drawn, strict=True))
        with self._autocast():
            inputs, next_inputs = (
                {
                    "observations": self._observation_preprocessor(held[f"{when}observations"], train=True),
                    "states": self._state_preprocessor(held[f"{when}states"], train=True),
                }
                for when in ("", "next_")
            )
        rewards = held["rewards"]
        return Batch(
            inputs=inputs,
            next_inputs=next_inputs,
            actions=held["actions"],
            rewards=rewards if self.reward_scale is None else self.reward_scale(rewards),
            bootstrap=held[DISCOUNTS] * held["terminated"].logical_not(),
            weights=held[WEIGHTS],
        )

    def _improve_critics(self, batch: Batch) -> None:
        """Take a gradient step of the critics."""
        with self._autocast():
            with torch.no_grad():
                next_actions, penalty = self._next_actions(batch.next_inputs)
                following = self._estimates(self._target_roles(), batch.next_inputs, next_actions)
                targets = self._critics.targets(following, batch.rewards, batch.bootstrap, penalty)
            estimates = self._estimates(self._roles, batch.inputs, batch.actions)
            losses = [self._critics.losses(estimate, targets) for estimate in estimates]
            if batch.weights is not None:
                losses = [batch.weights * each for each in losses]
            loss = self.critic_loss_scale * torch.stack([each.mean() for each in losses]).sum()
        self._descend(self.critic_optimizer, loss, *(self.models[role] for role in self._roles))
        means, values = self._critics.means(targets), [each.detach() for each, _ in estimates]
        if self._prioritizes:
            self.memory.prioritize(torch.stack([(each - means).abs() for each in values]).mean(dim=0))
        self.track_data("Loss / Critic loss", 2.0 / len(values) * loss.item())  # comparable for any number of critics
        self.track_data("Q-network / Q1 of stored actions (mean)", values[0].mean().item())
        self.track_data("Target / Target (mean)", means.mean().item())
        for title, figure in self._critics.figures().items():
            self.track_data(title, figure.item())

    def _target_roles(self) -> Sequence[str]:
        """Return the roles of the target critics that count in this gradient step; draw them if these are not all.

        Each process draws its own.
        """
        roles = [TARGET + role for role in self._roles]
        if self._in_target == len(roles):
            return roles
        drawn = torch.randperm(len(roles), generator=self.memory.replay.stream)[: self._in_target]
        return [roles[index] for index in drawn.tolist()]

    def _estimates(self, roles: Sequence[str], inputs: Inputs, actions: torch.Tensor) -> list[Estimate]:
        """Return what networks estimate for actions."""
        asked = {**inputs, "taken_actions": actions}
        return [self.models[role].act(asked, role=role) for role in roles]

    def _values(self, inputs: Inputs, actions: torch.Tensor) -> torch.Tensor:
        """Return the values of actions that the policy learns from, of shape (n, 1).

        More than two critics are averaged, as in REDQ (Chen et al. 2021, arXiv:2101.05982).
        """
        averages = len(self._roles) > 2
        roles = self._roles if averages else self._roles[: self.policy_critics]
        values = [each for each, _ in self._estimates(roles, inputs, actions)]
        return torch.stack(values).mean(dim=0) if averages else functools.reduce(torch.minimum, values)

    @abstractmethod
    def _next_actions(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor | float]:
        """Return actions for next observations, and what they cost beside their values."""

    @abstractmethod
    def _improve_policy(self, inputs: Inputs) -> None:
        """Take a gradient step of the policy if one is due, and let the target networks follow."""

    def _autocast(self) -> torch.autocast:
        """Return a context in which networks compute in half precision, if this is asked for."""
        return torch.autocast(device_type=self._device_type, enabled=self.cfg.mixed_precision)

    def _descend(self, optimizer: torch.optim.Optimizer, loss: torch.Tensor, *models: Model) -> None:
        """Take a step of an optimizer, along the average gradient of all processes."""
        optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        if config.torch.is_distributed:
            for model in models:
                model.reduce_parameters()
        if self.cfg.grad_norm_clip > 0:
            self.scaler.unscale_(optimizer)
            parameters = [parameter for model in models for parameter in model.parameters()]
            torch.nn.utils.clip_grad_norm_(parameters, self.cfg.grad_norm_clip)
        self.scaler.step(optimizer)

    def _follow(self, *roles: str) -> None:
        """Let the target networks of roles follow their networks."""
        for role in roles:
            self.models[TARGET + role].update_parameters(self.models[role], polyak=self.cfg.polyak)


class ReplaySac(ReplayAgent, SAC):
    """Soft actor-critic."""

    critic_loss_scale = 0.5
    policy_critics = 2
    _entropy_coefficient: torch.Tensor | float

    def _next_actions(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor | float]:
        """Sample actions; their cost is their weighted log probability."""
        actions, outputs = self.policy.act(inputs, role="policy")
        return actions, self._entropy_coefficient * outputs["log_prob"]

    def _improve_policy(self, inputs: Inputs) -> None:
        """Take a gradient step of the policy and of the entropy coefficient."""
        with self._autocast():
            actions, outputs = self.policy.act(inputs, role="policy")
            log_prob = outputs["log_prob"]
            loss = (self._entropy_coefficient * log_prob - self._values(inputs, actions)).mean()
        self._descend(self.policy_optimizer, loss, self.policy)
        missing = (log_prob + self._target_entropy).detach()
        entropy_loss = -(self.log_entropy_coefficient * missing).mean()
        self.entropy_optimizer.zero_grad()
        self.scaler.scale(entropy_loss).backward()
        self.scaler.step(self.entropy_optimizer)
        self._entropy_coefficient = self.log_entropy_coefficient.detach().exp()
        self._follow(*self._roles)
        self.track_data("Loss / Policy loss", loss.item())
        self.track_data("Loss / Entropy loss", entropy_loss.item())
        self.track_data("Coefficient / Entropy coefficient", self._entropy_coefficient.item())


class ReplayTd3(ReplayAgent, TD3):
    """Twin delayed deterministic policy gradients."""

    critic_loss_scale = 1.0
    policy_critics = 1

    def _next_actions(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor | float]:
        """Return the target policy's actions with noise; they cost nothing."""
        actions, _ = self.target_policy.act(inputs, role="target_policy")
        limit = self.cfg.smooth_regularization_clip
        noise = self._smooth_regularization_noise.sample(actions.shape).clamp(-limit, limit)
        return (actions + noise).clamp(self._min_actions, self._max_actions), 0.0

    def _improve_policy(self, inputs: Inputs) -> None:
        """Take a gradient step of the policy after its delay."""
        self._update_counter += 1
        if self._update_counter % self.cfg.policy_delay:
            return
        with self._autocast():
            actions, _ = self.policy.act(inputs, role="policy")
            loss = -self._values(inputs, actions).mean()
        self._descend(self.policy_optimizer, loss, self.policy)
        self._follow(*self._roles, "policy")
        self.track_data("Loss / Policy loss", loss.item())


AGENTS: dict[str, type[ReplayAgent]] = {"sac": ReplaySac, "td3": ReplayTd3}
"""The agents, by the library's names."""
