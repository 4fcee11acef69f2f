"""SAC and TD3 of SKRL.

Besides what :mod:`ledger_lab.training.runners.skrl.adapter` corrects, this module corrects the following behaviour of
the library: its policies are not bounded; its random actions are drawn from the unbounded action space; it shuffles the
whole replay memory for each batch, and stores each observation twice. SAC: its checkpoints lack the entropy
coefficient; it does not average the gradient of the entropy coefficient over processes. TD3: with noise, it stops with
an error if the action space has no bounds; its noise does not follow the bound of the actions; its checkpoints lack the
count of updates, which decides when the policy is updated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.off_policy.replay_plan import ReplayPlan, ReplayTrainer, require_settings
from ledger_lab.off_policy.skrl.dialect import CRITICS, NOISE, POLICIES
from ledger_lab.off_policy.skrl.dialect import SAC as SAC_DIALECT
from ledger_lab.off_policy.skrl.dialect import TD3 as TD3_DIALECT
from ledger_lab.off_policy.skrl.memory import SkrlMemory, columns_of
from ledger_lab.off_policy.skrl.networks import (
    LOG_STD,
    SquashedDeterministic,
    SquashedGaussian,
    fitting_networks,
    normalize_layers,
    require_outputs,
    squashed,
)
from ledger_lab.tasks.recipes.settings import finite
from ledger_lab.training.runners.adapter import BatchPlan, Step
from ledger_lab.training.runners.checkpoint_file import load_networks
from ledger_lab.training.runners.collectives import average_gradient
from ledger_lab.training.runners.recorded_calls import episode_means, largest_norm
from ledger_lab.training.runners.skrl.adapter import Components, SkrlAdapter, SkrlTrainer, config, save_interval

_MEMORY = {"class": "RandomMemory", "replacement": True}
"""Settings of the replay memory besides its size, and their only values."""
_STORED_GROUPS = {"observations": "policy", "states": "critic"}
"""Observation groups that the library stores if a task has them, by its names."""
_UNUSED_LIMITS = ("clip_log_std", "max_log_std", "min_log_std")
"""Settings of the library's networks that a squashed policy does not use."""
_TEMPERATURE = "log_entropy_coefficient"
"""Part of a state that holds the logarithm of the entropy coefficient."""
_UPDATES = "updates"
"""Part of a state that holds the number of gradient steps of the critics."""
_GOLDEN = 0.6180339887498949
"""The golden ratio, without its whole part. Its multiples, without their whole parts, fill 0 to 1 evenly from the first
few on."""


class ReplayComponents(Components):
    """The library's builder of components, with LedgerLab's replay memory and normalized layers."""

    def models(self) -> dict[str, Any]:
        """Return new networks, by agent and role, with what the library's descriptions do not have.

        Raises:
            UserError: If a network does not fit the observations.
        """
        with fitting_networks(self._env):
            models = super().models()
        for role, model in models["agent"].items():
            is_critic = role in CRITICS
            require_outputs(model, role, 1 if is_critic else model.num_actions)
            if self._cfg.get("critic_layer_norm" if is_critic else "policy_layer_norm", False):
                normalize_layers(model)
        return models

    def _component(self, name: str) -> Any:  # noqa: ANN401 - a class of the library
        """Return a class by its name in a configuration."""
        if name != _MEMORY["class"]:
            return super()._component(name)
        seen = self._env.unwrapped.obs_buf
        return functools.partial(
            SkrlMemory,
            on_host=self._cfg.get("replay_on_host", False),
            columns={what: columns_of(seen[group]) for what, group in _STORED_GROUPS.items() if group in seen},
        )


class OffPolicyTrainer(ReplayTrainer, SkrlTrainer):
    """SKRL's own training loop, with a replay memory."""

    components = ReplayComponents
    critics_per_loss: ClassVar[int]
    """Number of critics whose mean losses the library's figure adds up; the ledger's figure is the mean of all."""

    def _build(self) -> list[Step]:
        """Check that the replay memory fits, and build agent and trainer."""
        self._require_continuous()
        steps = super()._build()
        agent, memory = self._agent, self._agent.memory
        self._require_memory(memory.observation_bytes)
        self.replay = memory.replay
        if (n_step := self._agent_cfg.get("n_step", 1)) > 1:
            memory.sum_rewards(n_step, agent.cfg)
        self._random_steps, self._first_update = agent.cfg.random_timesteps, agent.cfg.learning_starts
        return steps

    def _steps_of_update(self) -> list[Step]:
        """Return the callables of an update that are particular to these algorithms."""
        agent = self._agent
        return [
            Step(agent.memory, "add_samples", Phase.REPLAY_WRITE),
            Step(agent.memory, "sample", Phase.REPLAY_SAMPLE, "sample the replay memory"),
            *(Step(model, "act", title=f"{role} forward") for role, model in agent.models.items()),
            Step(agent.critic_optimizer, "step", title="optimizer step of the critics"),
            Step(agent.policy_optimizer, "step", title="optimizer step of the policy"),
        ]

    def begin(self, checkpoint: Path) -> None:
        """Load networks and normalizers. The critics also get the actions, behind the observations."""
        behind = dict.fromkeys(CRITICS, self._agent.policy.num_actions)
        load_networks(self._stateful(), checkpoint, self.dialect.title, behind)

    def state(self) -> dict[str, Any]:
        """Return the agent's own state, the completed iterations, and when random acting ends and updates begin."""
        return {**super().state(), **self._beginnings()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state."""
        super().restore(state)
        self._restore_beginnings(state)
        self._agent.cfg.learning_starts = self._first_update  # the library counts over all attempts
        done = self.iterations * self._batch.horizon
        self._agent.cfg.random_timesteps = max(0, self._random_steps - done)  # the library counts in each attempt

    def averaging(self) -> None:
        """Return ``None``: critics and policy have separate losses, so there is no single gradient to measure."""
        return None

    def _update(self, **when: int) -> None:
        """Update if it is due, and keep the figures of an iteration's last update."""
        if (when["timestep"] + 1) % self._plan.update_every == 0:
            self._library["update"](**when)
        if (when["timestep"] + 1) % self._batch.horizon == 0:
            self._figures |= self._read_figures()

    def _post_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Keep the figures of episodes before the library clears them at the end of an iteration."""
        if (timestep + 1) % self._batch.horizon == 0:
            self._remember_episodes()
            self._figures = {**episode_means(self._returns, self._lengths), "replay_fill": self.replay.fill}
        super()._post_interaction(timestep=timestep, timesteps=timesteps)

    def _read_figures(self) -> dict[str, float]:
        """Return the library's figures of an update, by the ledger's names. Leaves out what no update computed."""
        agent = self._agent
        figures = {"learning_rate": float(agent.policy_optimizer.param_groups[0]["lr"])}
        for name, title in (("policy_loss", "Loss / Policy loss"), ("value_loss", "Loss / Critic loss")):
            if tracked := agent.tracking_data.get(title):
                figures[name] = float(tracked[-1])
        if "value_loss" in figures:
            figures["value_loss"] /= self.critics_per_loss
        if (norm := largest_norm(self._norms, agent.scaler)) is not None:
            figures["grad_norm"] = float(norm)
        if (age := self.replay.mean_age()) is not None:
            figures["replay_age"] = age
        return figures


class OffPolicyAdapter(SkrlAdapter):
    """An algorithm of SKRL with a replay memory (skrl 2, torch)."""

    policies: ClassVar[tuple[str, ...]] = POLICIES[:1]
    """Roles of the policies' networks."""
    only_here = CRITICS[:1]

    @property
    def name(self) -> str:
        """Name of the algorithm in prose, and of the library's agent."""
        return self.dialect.algorithm.upper()

    def _require(self, cfg: dict[str, Any]) -> None:
        """Refuse settings that an algorithm with a replay memory can't use."""
        models = cfg["models"]
        if models.get("separate") is not True:
            raise UserError(f"agent.models.separate: {self.name} of SKRL has separate networks: set it to true")
        expected = dict.fromkeys(self.policies, (self.policy_class, "ACTIONS"))
        expected |= dict.fromkeys(CRITICS, ("DeterministicMixin", "ONE"))
        for role, values in expected.items():
            if role not in models:
                raise UserError(f"agent.models.{role} is missing: {self.name} of SKRL needs this network")
            for name, known in zip(("class", "output"), values, strict=True):
                if (chosen := models[role].get(name)) != known:
                    raise UserError(f"agent.models.{role}.{name} {chosen!r}: LedgerLab supports only {known}")
        require_settings(self.dialect, cfg, "action_bound")
        if (schedule := cfg["agent"].get("learning_rate_scheduler")) is not None:
            raise UserError(
                f"agent.agent.learning_rate_scheduler {schedule!r}: {self.name} of SKRL gives a schedule no KL "
                "divergence, so the learning rate would not change: leave it out"
            )
        for name, value in {**_MEMORY, "class": None, **cfg["memory"]}.items():
            if name != "memory_size" and value != (only := _MEMORY.get(name)):
                way_out = "leave it out" if only is None else f"LedgerLab supports only {only}"
                raise UserError(f"agent.memory.{name} {value!r}: {way_out}")

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the arithmetic of the updates. SKRL counts environment steps instead of iterations."""
        timesteps, settings, replay = (
            agent_cfg["trainer"]["timesteps"],
            self.dialect.overrides,
            ReplayPlan.of(self.dialect, agent_cfg),
        )
        horizon = agent_cfg["agent"]["experiment"]["write_interval"]
        if timesteps < horizon:
            raise UserError(
                f"agent.trainer.timesteps {timesteps}: an iteration has {horizon} steps "
                f"({settings['horizon']}): raise it, or give --max_iterations"
            )
        if horizon % replay.update_every:
            raise UserError(
                f"{settings['update_every']} {replay.update_every}: {settings['horizon']} {horizon} is not a multiple "
                "of it"
            )
        return replay.batch(timesteps // horizon, horizon, save_interval(agent_cfg, horizon))

    def _limits(
        self, policy: Any, agent_cfg: dict[str, Any]
    ) -> tuple[Callable[[torch.Tensor], torch.Tensor], dict[str, torch.Tensor]]:
        """Return a function that squashes the outputs of a policy's network, and the bound."""
        bound = torch.tensor(agent_cfg["action_bound"], device=policy.device)
        return lambda raw: squashed(raw, bound), {"bound": bound}


class SacTrainer(OffPolicyTrainer):
    """SKRL's own training loop, with a squashed Gaussian policy."""

    dialect = SAC_DIALECT
    critics_per_loss = 1

    def _build(self) -> list[Step]:
        """Build agent and trainer, and bound the policy."""
        steps = super()._build()
        scaler = self._agent.scaler
        self._library["step"], scaler.step = scaler.step, self._step
        actions = self._agent.policy.num_actions
        if (target := self._agent_cfg.get("entropy_target")) is not None:
            self._agent._target_entropy = target * actions
        self.entropy_target = float(self._agent._target_entropy) / actions
        self._policy = SquashedGaussian(self._agent.policy, self._agent_cfg["action_bound"])
        return steps

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state, and the entropy coefficient in it."""
        super().restore(state)
        agent = self._agent
        with torch.no_grad():
            agent.log_entropy_coefficient.copy_(state[_TEMPERATURE])
        if agent.entropy_optimizer.state:  # until the first update, the initial value counts, which is not rounded
            agent._entropy_coefficient = agent.log_entropy_coefficient.detach().exp()

    def state(self) -> dict[str, Any]:
        """Return the agent's own state, the entropy coefficient, and the completed iterations."""
        return {**super().state(), _TEMPERATURE: self._agent.log_entropy_coefficient.detach().clone()}

    def _step(self, optimizer: torch.optim.Optimizer) -> float | None:
        """Take a step of an optimizer; that of the entropy coefficient takes the average gradient of all processes."""
        if optimizer is self._agent.entropy_optimizer:
            average_gradient(self._agent.log_entropy_coefficient)
        result: float | None = self._library["step"](optimizer)
        return result

    def _read_figures(self) -> dict[str, float]:
        """Return the library's figures of an update, and those of the policy's distribution."""
        return super()._read_figures() | {"entropy": self._policy.entropy_of_last(), "action_std": self._policy.std()}


class SacAdapter(OffPolicyAdapter):
    """Soft actor-critic of SKRL (skrl 2, torch)."""

    dialect = SAC_DIALECT
    trainer_type = SacTrainer
    policy_class = "GaussianMixin"

    def _require(self, cfg: dict[str, Any]) -> None:
        """Refuse a fixed entropy coefficient, the library's own target, and deviations that it would not learn."""
        super()._require(cfg)
        if not cfg["agent"].get("learn_entropy", True):
            raise UserError("agent.agent.learn_entropy False: LedgerLab supports only a learned entropy coefficient")
        if (target := cfg["agent"].get("target_entropy")) is not None:
            raise UserError(
                f"agent.agent.target_entropy {target!r}: it is the entropy of all actions together: leave it out, and "
                f"set {self.dialect.overrides['entropy_target']}, the entropy per action"
            )
        policy, (low, high) = cfg["models"]["policy"], LOG_STD
        initial = policy.get("initial_log_std", 0.0)
        if finite(initial) or not low <= initial <= high:
            raise UserError(
                f"agent.models.policy.initial_log_std {initial!r}: must lie between {low:g} and {high:g}. LedgerLab "
                "keeps it within this range, and a value outside is never learned"
            )
        for name in (name for name in _UNUSED_LIMITS if name in policy):
            raise UserError(f"agent.models.policy.{name}: the limits are always {low:g} and {high:g}: leave it out")


class ExplorationNoise:
    """Gaussian noise whose standard deviation each environment keeps, spread evenly over a range.

    It is the mixed exploration of Li et al. 2023 (arXiv:2307.12983), with another order: there, the standard deviation
    rises with the number of the environment. Isaac Lab assigns kinds of terrain in this order, so here, environments
    that follow one another have values from all over the range.
    """

    def __init__(self, *, low: float, high: float, num_envs: int, device: torch.device, first: int = 0) -> None:
        """Spread the range over the environments.

        Args:
            low: Smallest standard deviation.
            high: Largest standard deviation.
            num_envs: Number of environments.
            device: Where noise is drawn.
            first: Number of the first of them, counted over the environments of all processes.
        """
        shares = [index * _GOLDEN % 1.0 for index in range(first, first + num_envs)]
        self.std = torch.tensor([[low + (high - low) * share] for share in shares], device=device)
        """Standard deviation in each environment, of shape (num_envs, 1)."""

    def sample(self, size: torch.Size | list[int]) -> torch.Tensor:
        """Draw noise.

        Args:
            size: Numbers of environments and of actions.
        """
        return self.std * torch.randn(size, device=self.std.device)


class Td3Trainer(OffPolicyTrainer):
    """SKRL's own training loop, with a squashed deterministic policy, and noise within the bound."""

    dialect = TD3_DIALECT
    critics_per_loss = 2

    def _build(self) -> list[Step]:
        """Build agent and trainer with LedgerLab's noise, and bound the policies."""
        cfg, num_envs = self._agent_cfg, self._env.unwrapped.num_envs
        bound, (low, high), target = cfg["action_bound"], cfg["exploration_noise"], cfg["target_noise"]
        first = config.torch.rank * num_envs if config.torch.is_distributed else 0
        ranges = {"low": low * bound, "high": high * bound, "num_envs": num_envs, "first": first}
        noise = {
            "exploration_noise": ExplorationNoise,
            "exploration_noise_kwargs": ranges,
            "smooth_regularization_noise": ExplorationNoise,
            "smooth_regularization_noise_kwargs": {"low": target * bound, "high": target * bound, "num_envs": 1},
            "smooth_regularization_clip": cfg["target_noise_clip"] * bound,
        }
        self._agent_cfg = {**cfg, "agent": {**cfg["agent"], **noise}}
        steps = super()._build()
        agent = self._agent
        agent._min_actions, agent._max_actions = -bound, bound
        for model in (agent.policy, agent.target_policy):
            SquashedDeterministic(model, bound)
        return steps

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state, and the count of updates in it."""
        super().restore(state)
        self._agent._update_counter = state[_UPDATES]

    def state(self) -> dict[str, Any]:
        """Return the agent's own state, the count of updates, and the completed iterations."""
        return {**super().state(), _UPDATES: self._agent._update_counter}


class Td3Adapter(OffPolicyAdapter):
    """TD3 of SKRL (skrl 2, torch)."""

    dialect = TD3_DIALECT
    trainer_type = Td3Trainer
    policy_class = "DeterministicMixin"
    policies = POLICIES

    def _require(self, cfg: dict[str, Any]) -> None:
        """Refuse the library's own noise."""
        super()._require(cfg)
        for name, value in cfg["agent"].items():
            if name.startswith(("exploration_", "smooth_regularization_")):
                settings = ", ".join(self.dialect.overrides[field] for field in NOISE)
                raise UserError(
                    f"agent.agent.{name} {value!r}: leave it out, and set {settings}, which are shares of "
                    f"{self.dialect.overrides['action_bound']}"
                )


SAC, TD3 = SacAdapter(), Td3Adapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""
