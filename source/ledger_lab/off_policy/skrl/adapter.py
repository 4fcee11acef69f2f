"""SAC and TD3 of SKRL.

Besides what :mod:`ledger_lab.training.runners.skrl.adapter` corrects, this module corrects the following behaviour of
the library: its policies are not bounded; its random actions are drawn from the unbounded action space; it shuffles the
whole replay memory for each batch, and stores each observation twice. SAC: its checkpoints lack the entropy
coefficient; it does not average the gradient of the entropy coefficient over processes. TD3: with noise, it stops with
an error if the action space has no bounds; its noise does not follow the bound of the actions; its checkpoints lack the
count of updates, which decides when the policy is updated.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.ledger.meters.probes import Part
from ledger_lab.off_policy.replay_plan import ReplayPlan, ReplayTrainer, require_bound
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
from ledger_lab.tasks.recipes.rules import finite
from ledger_lab.training.runners.adapter import BatchPlan
from ledger_lab.training.runners.checkpoint_file import load_networks
from ledger_lab.training.runners.collectives import average_gradient
from ledger_lab.training.runners.recorded_calls import episode_means, largest_norm
from ledger_lab.training.runners.skrl.adapter import Components, SkrlAdapter, SkrlTrainer, config, save_interval
from ledger_lab.training.runners.skrl.configuration import require_trainable

_MEMORY = {"class": "RandomMemory", "replacement": True}
"""Settings of the replay memory besides its size, and their only values."""
_STORED_GROUPS = {"observations": "policy", "states": "critic"}
"""Observation groups that the library stores if a task has them, by its names."""
_UPDATE_TIME = "Stats / Algorithm update time (ms)"
"""Title of the time of an update in TensorBoard."""
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
    _skips = False
    """Whether no update is due at the present step."""

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Check that the replay memory fits, and build agent and trainer."""
        self._require_continuous()
        metered = super()._build()
        agent, memory = self._agent, self._agent.memory
        self._require_memory(memory.observation_bytes)
        self.replay = memory.replay
        if (n_step := self._agent_cfg.get("n_step", 1)) > 1:
            memory.sum_rewards(n_step, agent.cfg)
        self._random_steps, self._first_update = agent.cfg.random_timesteps, agent.cfg.learning_starts
        if self._plan.update_every > 1:
            self._library["track_data"], agent.track_data = agent.track_data, self._track_data
        return [*metered, (memory, "add_samples", Phase.REPLAY_WRITE), (memory, "sample", Phase.REPLAY_SAMPLE)]

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
        done = self._iterations * self._batch.horizon
        self._agent.cfg.random_timesteps = max(0, self._random_steps - done)  # the library counts in each attempt

    def averaging(self) -> None:
        """Return ``None``: critics and policy have separate losses, so there is no single gradient to measure."""
        return None

    def parts(self) -> list[Part]:
        """Return the callables of the library's loop."""
        agent = self._agent
        return [
            Part(agent, "act", "act"),
            Part(self._wrapper, "step", "environment step"),
            Part(agent, "record_transition", "store transition"),
            Part(agent, "update", "update"),
            Part(agent.memory, "sample", "sample the replay memory"),
            *(Part(model, "act", f"{role} forward") for role, model in agent.models.items()),
            Part(agent.critic_optimizer, "step", "optimizer step of the critics"),
            Part(agent.policy_optimizer, "step", "optimizer step of the policy"),
            Part(agent, "write_tracking_data", "log"),
        ]

    def _update(self, **when: int) -> None:
        """Update if it is due, and keep the figures of an iteration's last update."""
        self._skips = (when["timestep"] + 1) % self._plan.update_every != 0
        if not self._skips:
            self._library["update"](**when)
        if (when["timestep"] + 1) % self._batch.horizon == 0:
            self._figures |= self._read_figures()

    def _track_data(self, tag: str, value: float) -> None:
        """Track a figure for TensorBoard, but not the time of an update that is not due."""
        if tag != _UPDATE_TIME or not self._skips:
            self._library["track_data"](tag, value)

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

    policy_class: ClassVar[str]
    """The library's class of the policy's network."""
    policies: ClassVar[tuple[str, ...]] = POLICIES[:1]
    """Roles of the policies' networks."""
    only_here = CRITICS[:1]

    @property
    def name(self) -> str:
        """Name of the algorithm in prose, and of the library's agent."""
        return self.dialect.algorithm.upper()

    def prepare(
        self, agent_cfg: dict[str, Any], device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> dict[str, Any]:
        """Set the requested values. The agent uses the device of the environment."""
        cfg = copy.deepcopy(agent_cfg)
        require_trainable(cfg, self.name, policy=self.policy_class, several_processes=config.torch.is_distributed)
        for role in (*self.policies, *CRITICS):
            if role not in cfg["models"]:
                raise UserError(f"agent.models.{role} is missing: {self.name} of SKRL needs this network")
        require_bound(self.dialect, cfg.get("action_bound"))
        if (schedule := cfg["agent"].get("learning_rate_scheduler")) is not None:
            raise UserError(
                f"agent.agent.learning_rate_scheduler {schedule!r}: {self.name} of SKRL gives a schedule no KL "
                "divergence, so the learning rate would not change: leave it out"
            )
        for name, value in {**_MEMORY, "class": None, **cfg["memory"]}.items():
            if name != "memory_size" and value != (known := _MEMORY.get(name)):
                way_out = "leave it out" if known is None else f"LedgerLab supports only {known}"
                raise UserError(f"agent.memory.{name} {value!r}: {way_out}")
        if seed is not None:
            cfg["seed"] = seed
        if max_iterations is not None:
            cfg["trainer"]["timesteps"] = max_iterations * (cfg["agent"]["experiment"].get("write_interval") or 0)
        return cfg

    def require_learnable(self, agent_cfg: dict[str, Any]) -> None:
        """Refuse networks that the algorithm does not have, and outputs that it would misread."""
        models = agent_cfg["models"]
        if models.get("separate") is not True:
            raise UserError(f"agent.models.separate: {self.name} of SKRL has separate networks: set it to true")
        expected = dict.fromkeys(self.policies, (self.policy_class, "ACTIONS"))
        expected |= dict.fromkeys(CRITICS, ("DeterministicMixin", "ONE"))
        for role, values in expected.items():
            for name, known in zip(("class", "output"), values, strict=True):
                if (chosen := models[role].get(name)) != known:
                    raise UserError(f"agent.models.{role}.{name} {chosen!r}: LedgerLab supports only {known}")

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the arithmetic of the updates. SKRL counts environment steps instead of iterations."""
        agent, timesteps, settings = agent_cfg["agent"], agent_cfg["trainer"]["timesteps"], self.dialect.overrides
        horizon, every = agent["experiment"]["write_interval"], agent_cfg.get("update_every", 1)
        if timesteps < horizon:
            raise UserError(
                f"agent.trainer.timesteps {timesteps}: an iteration has {horizon} steps "
                f"({settings['horizon']}): raise it, or give --max_iterations"
            )
        if horizon % every:
            raise UserError(
                f"{settings['update_every']} {every}: {settings['horizon']} {horizon} is not a multiple of it"
            )
        return BatchPlan(
            max_iterations=timesteps // horizon,
            horizon=horizon,
            save_interval=save_interval(agent_cfg, horizon),
            epochs=1,
            minibatches=horizon // every * agent["gradient_steps"],
            minibatch_setting=settings["updates_per_step"],
            replay=ReplayPlan(
                steps=agent_cfg["memory"]["memory_size"],
                setting=settings["replay_steps"],
                warm_up_steps=agent["learning_starts"],
                warm_up_setting=settings["warm_up_steps"],
                batch_size=agent["batch_size"],
                updates_per_step=agent["gradient_steps"],
                update_every=every,
                on_host=agent_cfg.get("replay_on_host", False),
                host_setting=settings["replay_on_host"],
            ),
        )

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

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Build agent and trainer, and bound the policy."""
        metered = super()._build()
        scaler = self._agent.scaler
        self._library["step"], scaler.step = scaler.step, self._step
        actions = self._agent.policy.num_actions
        if (target := self._agent_cfg.get("entropy_target")) is not None:
            self._agent._target_entropy = target * actions
        self.entropy_target = float(self._agent._target_entropy) / actions
        self._policy = SquashedGaussian(self._agent.policy, self._agent_cfg["action_bound"])
        return metered

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

    def prepare(
        self, agent_cfg: dict[str, Any], device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> dict[str, Any]:
        """Set the requested values. The agent uses the device of the environment."""
        cfg = super().prepare(agent_cfg, device, seed=seed, max_iterations=max_iterations)
        if not cfg["agent"].get("learn_entropy", True):
            raise UserError("agent.agent.learn_entropy False: LedgerLab supports only a learned entropy coefficient")
        if (target := cfg["agent"].get("target_entropy")) is not None:
            raise UserError(
                f"agent.agent.target_entropy {target!r}: it is the entropy of all actions together: leave it out, and "
                f"set {self.dialect.overrides['entropy_target']}, the entropy per action"
            )
        return cfg

    def require_learnable(self, agent_cfg: dict[str, Any]) -> None:
        """Refuse networks that SAC does not have, and standard deviations that it would not learn."""
        super().require_learnable(agent_cfg)
        policy, (low, high) = agent_cfg["models"]["policy"], LOG_STD
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

    def _build(self) -> list[tuple[object, str, Phase]]:
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
        metered = super()._build()
        agent = self._agent
        agent._min_actions, agent._max_actions = -bound, bound
        for model in (agent.policy, agent.target_policy):
            SquashedDeterministic(model, bound)
        return metered

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

    def require_learnable(self, agent_cfg: dict[str, Any]) -> None:
        """Refuse networks that TD3 does not have, and the library's own noise."""
        super().require_learnable(agent_cfg)
        for name, value in agent_cfg["agent"].items():
            if name.startswith(("exploration_", "smooth_regularization_")):
                settings = ", ".join(self.dialect.overrides[field] for field in NOISE)
                raise UserError(
                    f"agent.agent.{name} {value!r}: leave it out, and set {settings}, which are shares of "
                    f"{self.dialect.overrides['action_bound']}"
                )


SAC, TD3 = SacAdapter(), Td3Adapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""
