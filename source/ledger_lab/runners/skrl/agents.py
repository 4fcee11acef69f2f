"""SAC and TD3 of SKRL, with gradient steps that the library's own agents can't compute.

Only the update is new: sums of several rewards, critics of distributions, scaled rewards, and weights of transitions.
Networks, optimizers, acting, storing and checkpoints are the library's. Without any of these options, the updates equal
the library's bit for bit on a CPU, which a test proves. Then LedgerLab trains with the library's own agents.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from skrl.agents.torch import Agent
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3

from ledger_lab.runners.reward_scale import RewardScale
from ledger_lab.runners.skrl.critics import CategoricalCritics, Critics, MeanCritics
from ledger_lab.runners.skrl.memory import DISCOUNTS, WEIGHTS
from ledger_lab.runners.skrl.off_policy_dialect import CRITICS
from ledger_lab.runners.skrl.options import Options
from ledger_lab.runners.value_distribution import ValueDistribution

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
    """Factor of each transition's loss, of shape (n, 1); ``None`` if all count alike."""


class ReplayAgent(Agent):
    """What both algorithms share."""

    critic_loss_scale: ClassVar[float]
    """Factor of the sum of both critics' losses, as in the library."""

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
        self._critics: Critics = MeanCritics()
        if options.value_atoms > 1:
            distribution = ValueDistribution(*options.value_range, options.value_atoms, device)
            self._critics = CategoricalCritics([self.models[role] for role in CRITICS], distribution)
        self.reward_scale: RewardScale | None = None
        """Scale of the rewards; ``None`` if they stay as they are stored."""
        if options.reward_normalization:
            self.reward_scale = RewardScale(num_envs, self.cfg.discount_factor, device)
            self.checkpoint_modules["reward_scale"] = self.reward_scale

    def record_transition(self, **transition: Any) -> None:  # noqa: ANN401 - passes through
        """Store a step of all environments, and take in its rewards."""
        super().record_transition(**transition)
        if self.training and self.reward_scale is not None:
            rewards, shaper = transition["rewards"], self.cfg.rewards_shaper
            if shaper is not None:
                rewards = shaper(rewards, transition["timestep"], transition["timesteps"])
            self.reward_scale.watch(rewards, transition["terminated"] | transition["truncated"])

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
                following = {**batch.next_inputs, "taken_actions": next_actions}
                targets = self._critics.targets(
                    self.target_critic_1.act(following, role="target_critic_1"),
                    self.target_critic_2.act(following, role="target_critic_2"),
                    batch.rewards,
                    batch.bootstrap,
                    penalty,
                )
            taken = {**batch.inputs, "taken_actions": batch.actions}
            first = self.critic_1.act(taken, role="critic_1")
            second = self.critic_2.act(taken, role="critic_2")
            losses = [self._critics.losses(estimate, targets) for estimate in (first, second)]
            if batch.weights is not None:
                losses = [batch.weights * each for each in losses]
            loss = self.critic_loss_scale * (losses[0].mean() + losses[1].mean())
        self._descend(self.critic_optimizer, loss, self.critic_1, self.critic_2)
        means = self._critics.means(targets)
        if self._prioritizes:
            errors = [(values.detach() - means).abs() for values, _ in (first, second)]
            self.memory.prioritize(0.5 * (errors[0] + errors[1]))
        self.track_data("Loss / Critic loss", loss.item())
        self.track_data("Q-network / Q1 (mean)", first[0].mean().item())
        self.track_data("Target / Target (mean)", means.mean().item())
        for title, figure in self._critics.figures().items():
            self.track_data(title, figure.item())

    @abstractmethod
    def _next_actions(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor | float]:
        """Return actions for next observations, and what they cost beside their values."""

    @abstractmethod
    def _improve_policy(self, inputs: Inputs) -> None:
        """Take a gradient step of the policy if one is due, and let the target networks follow."""

    def _autocast(self) -> torch.autocast:
        """Return a context in which networks compute in half precision, if this is asked for."""
        return torch.autocast(device_type=self._device_type, enabled=self.cfg.mixed_precision)

    def _descend(self, optimizer: torch.optim.Optimizer, loss: torch.Tensor, *models: torch.nn.Module) -> None:
        """Take a step of an optimizer."""
        optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        if self.cfg.grad_norm_clip > 0:
            self.scaler.unscale_(optimizer)
            parameters = [parameter for model in models for parameter in model.parameters()]
            torch.nn.utils.clip_grad_norm_(parameters, self.cfg.grad_norm_clip)
        self.scaler.step(optimizer)

    def _follow(self, *roles: str) -> None:
        """Let the target networks of roles follow their networks."""
        for role in roles:
            self.models[f"target_{role}"].update_parameters(self.models[role], polyak=self.cfg.polyak)


class ReplaySac(ReplayAgent, SAC):
    """Soft actor-critic."""

    critic_loss_scale = 0.5
    _entropy_coefficient: torch.Tensor | float

    def _next_actions(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor | float]:
        """Sample actions; their cost is their weighted log probability."""
        actions, outputs = self.policy.act(inputs, role="policy")
        return actions, self._entropy_coefficient * outputs["log_prob"]

    def _improve_policy(self, inputs: Inputs) -> None:
        """Take a gradient step of the policy and of the entropy coefficient."""
        with self._autocast():
            actions, outputs = self.policy.act(inputs, role="policy")
            log_prob, chosen = outputs["log_prob"], {**inputs, "taken_actions": actions}
            first, _ = self.critic_1.act(chosen, role="critic_1")
            second, _ = self.critic_2.act(chosen, role="critic_2")
            loss = (self._entropy_coefficient * log_prob - torch.min(first, second)).mean()
        self._descend(self.policy_optimizer, loss, self.policy)
        missing = (log_prob + self._target_entropy).detach()
        entropy_loss = -(self.log_entropy_coefficient * missing).mean()
        self.entropy_optimizer.zero_grad()
        self.scaler.scale(entropy_loss).backward()
        self.scaler.step(self.entropy_optimizer)
        self._entropy_coefficient = self.log_entropy_coefficient.detach().exp()
        self._follow("critic_1", "critic_2")
        self.track_data("Loss / Policy loss", loss.item())
        self.track_data("Loss / Entropy loss", entropy_loss.item())
        self.track_data("Coefficient / Entropy coefficient", self._entropy_coefficient.item())


class ReplayTd3(ReplayAgent, TD3):
    """Twin delayed deterministic policy gradients."""

    critic_loss_scale = 1.0

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
            values, _ = self.critic_1.act({**inputs, "taken_actions": actions}, role="critic_1")
            loss = -values.mean()
        self._descend(self.policy_optimizer, loss, self.policy)
        self._follow("critic_1", "critic_2", "policy")
        self.track_data("Loss / Policy loss", loss.item())


AGENTS: dict[str, type[ReplayAgent]] = {"sac": ReplaySac, "td3": ReplayTd3}
"""The agents, by the library's names."""
