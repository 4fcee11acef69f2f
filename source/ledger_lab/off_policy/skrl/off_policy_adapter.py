"""What all algorithms of SKRL with a replay memory share.

Besides what :mod:`ledger_lab.training.runners.skrl.adapter` corrects, this module corrects the following behaviour of
the library: its policies are not bounded; its random actions are drawn from the unbounded action space; it shuffles the
whole replay memory for each batch, and stores each observation twice.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.cores import own_cores
from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.ledger.meters import Phase
from ledger_lab.ledger.meters.probes import Part
from ledger_lab.off_policy.off_policy import (
    FIRST_UPDATE,
    RANDOM_STEPS,
    first_update,
    require_bound,
    require_continuous,
    require_room,
    short_refill,
)
from ledger_lab.off_policy.overlap import Overlap, require_cpu
from ledger_lab.off_policy.skrl.agents import AGENTS, REWARD_SCALE
from ledger_lab.off_policy.skrl.memory import SkrlMemory, columns_of
from ledger_lab.off_policy.skrl.networks import extend, fitting_networks, require_outputs, see_symlog
from ledger_lab.off_policy.skrl.off_policy_dialect import CRITICS, TARGET
from ledger_lab.off_policy.skrl.options import Options
from ledger_lab.off_policy.skrl.squashed import squashed
from ledger_lab.off_policy.skrl.td3_dialect import POLICIES
from ledger_lab.training.runners.acting_module import ActingModule
from ledger_lab.training.runners.adapter import BatchPlan, OnIteration
from ledger_lab.training.runners.checkpoint_file import load_networks, loading_policy
from ledger_lab.training.runners.recorded_calls import episode_means, largest_norm
from ledger_lab.training.runners.replay_plan import ReplayPlan
from ledger_lab.training.runners.skrl.adapter import (
    Components,
    IsaacLabWrapper,
    SkrlAdapter,
    SkrlTrainer,
    config,
    inputs_of,
)
from ledger_lab.training.runners.skrl.configuration import REPLAY_CLASS, require_replay, require_trainable
from ledger_lab.training.runners.threads import Threads

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.tasks.recipes import Dialect

_CRITIC_CLASS = "DeterministicMixin"
"""The library's class of the critics' networks."""
_STORED_GROUPS = {"observations": "policy", "states": "critic"}
"""Observation groups that the library stores if a task has them, by its names."""


_OVERLAP = "overlap"
"""Setting that lets gradient steps run beside the simulation, and part of a state that holds what this needs."""

_UPDATE_TIME = "Stats / Algorithm update time (ms)"
"""Title of the time of an update in TensorBoard."""


class ReplayComponents(Components):
    """The library's builder of components, with LedgerLab's replay memory, and its options for learners."""

    def __init__(self, wrapper: IsaacLabWrapper, cfg: dict[str, Any]) -> None:
        """Store a configuration, and read the options in it."""
        super().__init__(wrapper, cfg)
        self._options = Options.of(cfg, dialect_of("skrl", cfg["agent"]["class"].lower()))
        described = self._cfg["models"]
        for role in self._options.further_roles:
            first = CRITICS[2] if role.startswith(TARGET) else CRITICS[0]
            described[role] = copy.deepcopy(described[first])

    def models(self) -> dict[str, Any]:
        """Return new networks, by agent and role, with what the library's descriptions do not have.

        Raises:
            UserError: If a network does not fit the observations.
        """
        options = self._options
        with fitting_networks(self._env):
            models = super().models()
        for role, model in models["agent"].items():
            if role in options.critic_roles:
                require_outputs(model, role, 1)
                extend(model, layer_norm=options.critic_layer_norm, outputs=options.value_atoms)
            else:
                if role in POLICIES:
                    require_outputs(model, role, model.num_actions)
                extend(model, layer_norm=options.policy_layer_norm)
            if options.observation_symlog:
                see_symlog(model)
        return models

    def _component(self, name: str) -> Any:  # noqa: ANN401 - a class of the library
        """Return a class by its name in a configuration."""
        options = self._options
        if name == REPLAY_CLASS:
            seen = self._env.unwrapped.obs_buf
            return functools.partial(
                SkrlMemory,
                prioritized=options.prioritized_sampling,
                on_host=options.replay_on_host,
                columns={what: columns_of(seen[group]) for what, group in _STORED_GROUPS.items() if group in seen},
            )
        if name in AGENTS and options.change_updates:
            return functools.partial(AGENTS[name], options=options, num_envs=self._env.num_envs)
        return super()._component(name)


class OffPolicyTrainer(SkrlTrainer):
    """SKRL's own training loop, with a replay memory."""

    components = ReplayComponents
    dialect: ClassVar[Dialect]
    """Names of the library and of the algorithm."""
    critics_per_loss: ClassVar[int]
    """Number of critics whose mean losses the library's figure adds up; the ledger's figure is the mean of all."""
    _overlap: Overlap | None = None
    """Lets gradient steps run beside the simulation; ``None`` if they take turns."""
    _skips = False
    """Whether no update is due at the present step."""

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Check that the replay memory fits, and build agent and trainer."""
        if self._batch.overlaps:
            require_cpu(f"agent.{_OVERLAP}", torch.device(self._env.unwrapped.device))
        env = self._env.unwrapped
        require_continuous(self.dialect, env)
        metered = super()._build()
        memory = self._agent.memory
        require_room(self._batch, env, memory.observation_bytes)
        self.replay = memory.replay
        self._random_steps = self._agent.cfg.random_timesteps
        metered.append((memory, "add_samples", Phase.REPLAY_WRITE))
        assert self._batch.replay is not None
        if self._batch.overlaps or self._batch.replay.update_every > 1:
            self._library["track_data"], self._agent.track_data = self._agent.track_data, self._track_data
        if not self._batch.overlaps:
            rewritten = [(memory, "prioritize", Phase.REPLAY_WRITE)] if self._batch.replay.prioritized else []
            return [*metered, (memory, "sample", Phase.REPLAY_SAMPLE), *rewritten]
        self._overlap = Overlap(self._learn, self._batch.replay.updates_per_step, self.replay, self._clock)
        self.replay.stream = self._overlap.stream
        self._wrapper.step = self._overlap.with_update(self._wrapper.step)  # type: ignore[method-assign]
        return metered  # without what the learner's thread calls: the clock belongs to the main thread

    @property
    def _stream(self) -> torch.Generator | None:
        """Random stream of the gradient steps; ``None`` for that of the process."""
        return None if self._overlap is None else self._overlap.stream

    def compute_in(self, threads: Threads) -> None:
        """Let torch compute each phase in its number of threads."""
        super().compute_in(threads)
        if self._overlap is not None:
            self._overlap.divide_cores(own_cores(), threads.learn)

    def train(self, on_iteration: OnIteration) -> None:
        """Run the library's loop, with a thread for the learner if gradient steps run beside the simulation."""
        with self._overlap or nullcontext():
            super().train(on_iteration)

    def begin(self, checkpoint: Path) -> None:
        """Load networks and normalizers. The critics also get the actions, behind the observations."""
        actions = self._agent.policy.num_actions
        stateful = self._stateful().items()
        parts = {name: part for name, part in stateful if name != REWARD_SCALE}  # that of another task's rewards
        critics = Options.of(self._agent_cfg, self.dialect).critic_roles
        load_networks(parts, checkpoint, self.dialect.title, behind=dict.fromkeys(critics, actions))

    def state(self) -> dict[str, Any]:
        """Return the agent's own state, the completed iterations, and what this class adds."""
        own = {} if self._overlap is None else {_OVERLAP: self._overlap.state()}
        begins = {FIRST_UPDATE: self._agent.cfg.learning_starts, RANDOM_STEPS: self._random_steps}
        return {**super().state(), **begins, **own}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state. If the replay memory is empty, the policy acts until the first update, as before it."""
        super().restore(state)
        if self._overlap is not None:
            self._overlap.restore(state[_OVERLAP], refills=not len(self._agent.memory))
        cfg, done = self._agent.cfg, self._iterations * self._batch.horizon
        if len(self._agent.memory):
            cfg.learning_starts = state.get(FIRST_UPDATE, cfg.learning_starts)  # later, if the memory has refilled
            self._random_steps = state.get(RANDOM_STEPS, self._random_steps)
            cfg.random_timesteps = max(0, self._random_steps - done)  # the library counts in each attempt
        else:
            steps = self._batch.max_iterations * self._batch.horizon
            cfg.learning_starts = first_update(cfg.learning_starts, done, steps)  # the library counts over all attempts
            cfg.random_timesteps = self._random_steps = 0

    def short_refill(self, iterations: int) -> str | None:
        """Tell why the empty memory refills for fewer steps than usual."""
        filled = len(self._agent.memory) > 0
        return None if filled else short_refill(self.dialect, self._agent_cfg, self._batch, iterations)

    def averaging(self) -> None:
        """Return ``None``: critics and policy have separate losses, so there is no single gradient to measure."""
        return None

    def parts(self) -> list[Part]:
        """Return the callables of the library's loop; of two threads, only those of the main thread."""
        agent = self._agent
        if self._overlap is not None:
            return [
                Part(agent, "act", "act"),
                Part(self._wrapper, "step", "environment step"),
                Part(self._overlap, "finish", "wait for the learner"),
                Part(agent, "record_transition", "store transition"),
                Part(agent, "write_tracking_data", "log"),
            ]
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

    def _schedule(self) -> None:
        """Return that there is no learning-rate schedule."""

    def _bootstraps(self) -> bool:
        """Tell that the value after a timeout is estimated; the library stores only terminations."""
        return True

    def _update(self, **when: int) -> None:
        """Update if it is due, now or beside the next step, and keep the figures of an iteration's last update."""
        assert self._batch.replay is not None
        self._skips = (when["timestep"] + 1) % self._batch.replay.update_every != 0
        if not self._skips:
            if self._overlap is None:
                self._library["update"](**when)
            else:
                self._overlap.schedule_update(**when)
        if (when["timestep"] + 1) % self._batch.horizon == 0:
            if self._overlap is None:
                self._figures |= self._read_figures()
            elif self._overlap.has_learned:
                self._figures |= self._read_figures() | self._overlap.take_figures()

    def _track_data(self, tag: str, value: float) -> None:
        """Track a figure for TensorBoard, but not the time of an update that is not due or runs on another thread."""
        true_value: float | None = value
        if tag == _UPDATE_TIME and (self._skips or self._overlap is not None):
            true_value = None if self._overlap is None else self._overlap.update_ms
        if true_value is not None:
            self._library["track_data"](tag, true_value)

    def _learn(self, **when: int) -> None:
        """Update on the learner's thread, in the mode that the library sets around an update."""
        self._agent.enable_models_training_mode(True)
        self._library["update"](**when)
        self._agent.enable_models_training_mode(False)

    def _post_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Keep the figures of episodes before the library clears them at the end of an iteration."""
        if (timestep + 1) % self._batch.horizon == 0:
            self._remember_episodes()
            self._figures = {
                **episode_means(self._returns, self._lengths),
                "replay_fill": self._agent.memory.replay.fill,
            }
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
        if (age := agent.memory.replay.mean_age()) is not None:
            figures["replay_age"] = age
        return figures


class OffPolicyAdapter(SkrlAdapter):
    """An algorithm of SKRL with a replay memory (skrl 2, torch)."""

    optional: ClassVar[Mapping[str, Any]] = {_OVERLAP: False}
    policy_class: ClassVar[str]
    """The library's class of the policy's network."""
    policies: ClassVar[tuple[str, ...]] = ("policy",)
    """Roles of the policies' networks."""

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
        cfg["agent"].setdefault("experiment", {}).setdefault("checkpoint_interval", "auto")
        require_bound(self.dialect, cfg.get("action_bound"))
        every = Options.of(cfg, self.dialect).update_every
        if type(overlaps := cfg.get(_OVERLAP, False)) is not bool:
            raise UserError(f"agent.{_OVERLAP} {overlaps!r}: must be true or false")
        if overlaps and config.torch.is_distributed:
            raise UserError(
                f"agent.{_OVERLAP} True: several processes exchange gradients, which LedgerLab does not do beside the "
                "simulation: leave it out, or train in one process"
            )
        if (schedule := cfg["agent"].get("learning_rate_scheduler")) is not None:
            raise UserError(
                f"agent.agent.learning_rate_scheduler {schedule!r}: {self.name} of SKRL gives a schedule no KL "
                "divergence, so the learning rate would not change: leave it out"
            )
        if seed is not None:
            cfg["seed"] = seed
        require_replay(cfg)
        if (horizon := cfg["agent"]["experiment"]["write_interval"]) % every:
            names = self.dialect.overrides
            raise UserError(f"{names['update_every']} {every}: {names['horizon']} {horizon} is not a multiple of it")
        if max_iterations is not None:
            cfg["trainer"]["timesteps"] = max_iterations * cfg["agent"]["experiment"]["write_interval"]
        return cfg

    def require_learnable(self, agent_cfg: dict[str, Any]) -> None:
        """Refuse networks that the algorithm does not have, and outputs that it would misread."""
        models = agent_cfg["models"]
        if models.get("separate") is not True:
            raise UserError(f"agent.models.separate: {self.name} of SKRL has separate networks: set it to true")
        expected = dict.fromkeys(self.policies, (self.policy_class, "ACTIONS"))
        expected |= dict.fromkeys(CRITICS, (_CRITIC_CLASS, "ONE"))
        for role, values in expected.items():
            for name, known in zip(("class", "output"), values, strict=True):
                if (chosen := models[role].get(name)) != known:
                    raise UserError(f"agent.models.{role}.{name} {chosen!r}: LedgerLab supports only {known}")

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the arithmetic of the updates. SKRL counts environment steps instead of iterations."""
        agent, timesteps = agent_cfg["agent"], agent_cfg["trainer"]["timesteps"]
        horizon, interval = agent["experiment"]["write_interval"], agent["experiment"]["checkpoint_interval"]
        if timesteps < horizon:
            raise UserError(
                f"agent.trainer.timesteps {timesteps}: an iteration has {horizon} steps "
                f"({self.dialect.overrides['horizon']}): raise it, or give --max_iterations"
            )
        steps = timesteps // 10 if interval == "auto" else interval if interval > 0 else timesteps
        settings, every = self.dialect.overrides, Options.of(agent_cfg, self.dialect).update_every
        return BatchPlan(
            max_iterations=timesteps // horizon,
            horizon=horizon,
            epochs=1,
            minibatches=horizon // every * agent["gradient_steps"],
            minibatch_setting=settings["updates_per_step"],
            save_interval=max(1, steps // horizon),
            replay=ReplayPlan(
                steps=agent_cfg["memory"]["memory_size"],
                setting=settings["replay_steps"],
                warm_up_steps=agent["learning_starts"],
                warm_up_setting=settings["warm_up_steps"],
                batch_size=agent["batch_size"],
                updates_per_step=agent["gradient_steps"],
                update_every=every,
                prioritized=agent_cfg.get("prioritized_sampling", False),
                on_host=agent_cfg.get("replay_on_host", False),
                host_setting=settings["replay_on_host"],
            ),
            overlaps=agent_cfg.get(_OVERLAP, False),
        )

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: dict[str, Any]) -> ActingModule:
        """Load the policy of a checkpoint, and the normalizer of its observations."""
        wrapper = IsaacLabWrapper(env)
        components = ReplayComponents(wrapper, agent_cfg)
        drawing = [] if wrapper.device.type == "cpu" else [wrapper.device]
        with torch.random.fork_rng(drawing):  # drawing weights must not advance the learner's random stream
            policy = components.models()["agent"]["policy"]
        scalers = components.scalers()
        with loading_policy(checkpoint, f"{self.dialect.title}'s {self.name}", wrapper.device) as content:
            content["critic_1"]  # a checkpoint of PPO has none
            policy.load_state_dict(content["policy"])  # that of another off-policy algorithm has other parameters
            for name, scaler in scalers.items():
                scaler.load_state_dict(content[f"{name}_preprocessor"])
        policy.eval()
        bound = torch.tensor(agent_cfg["action_bound"], device=wrapper.device)

        def act(groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
            inputs = {
                name: scalers[name](raw) if name in scalers else raw for name, raw in inputs_of(wrapper, groups).items()
            }
            raw, _ = policy.compute({f"{name}s": value for name, value in inputs.items()}, role="policy")
            return squashed(raw, bound)

        return ActingModule(act, policy=policy, **scalers, bound=bound)
