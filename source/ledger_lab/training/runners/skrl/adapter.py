"""SKRL behind the protocol of :mod:`ledger_lab.training.runners.adapter`.

This module corrects the following behaviour of the library: it starts NCCL on import; it resets the environment with
the same seed in every training; after a timeout, it takes the first observation of the next episode for the last one,
even if the horizon is part of the task; it chooses the best checkpoint by training return; its normalizers use only
the samples of their own process; it makes tensors on the first GPU, also in trainings on another device.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.tasks.recipes.settings import one_of, read_setting
from ledger_lab.training.runners.adapter import Adapter, BatchPlan, Step, Trainer
from ledger_lab.training.runners.checkpoint_file import ActingModule, load_networks, loading_policy
from ledger_lab.training.runners.collectives import GradientAveraging, of_all_processes, take_from_first
from ledger_lab.training.runners.recorded_calls import (
    episode_means,
    largest_norm,
    phase_until_call,
    recorded_calls,
    replaced,
)
from ledger_lab.training.runners.skrl.dialect import DIALECT

# In one of several processes, SKRL would start NCCL on import.
_world_size = os.environ.pop("WORLD_SIZE", None)
try:
    import skrl.agents.torch.ppo.ppo as ppo
    from skrl import config
    from skrl.agents.torch import Agent
    from skrl.envs.wrappers.torch.isaaclab_envs import IsaacLabWrapper
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.utils.runner.torch import Runner
    from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space
finally:
    if _world_size is not None:
        os.environ["WORLD_SIZE"] = _world_size
config.torch._world_size = int(_world_size or "1")
config.torch._is_distributed = config.torch._world_size > 1

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

__all__ = ["ADAPTER", "Components", "SkrlAdapter", "SkrlTrainer", "config", "save_interval"]

_EPISODES = 100
"""Number of recent episodes in the mean return."""

_ACTIVATIONS = ("elu", "leaky_relu", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign", "tanh", "")
"""Names that the library knows. It ignores any other name."""


class Components(Runner):
    """The library's builder of components from a configuration, without its seeding.

    The constructor of the library would seed all random streams again, after the environment has seeded them.
    """

    def __init__(self, wrapper: IsaacLabWrapper, cfg: dict[str, Any]) -> None:
        """Store a configuration; the library computes on the device of the environment from now on."""
        _set_device(wrapper.device)
        self._env, self._verbose = wrapper, False
        self._cfg = self._check_cfg_compatibility(copy.deepcopy(cfg))

    def models(self) -> dict[str, Any]:
        """Return new networks, by agent (there is one, ``agent``) and role."""
        agents: dict[str, Any] = self._generate_models(self._env, copy.deepcopy(self._cfg))
        return agents

    def scalers(self) -> dict[str, RunningStandardScaler]:
        """Return new normalizers of the policy's inputs, by what they normalize."""
        spaces = {"observation": self._env.observation_space, "state": self._env.state_space}
        agent = self._cfg["agent"]
        return {
            name: RunningStandardScaler(
                **{**(agent.get(f"{name}_preprocessor_kwargs") or {}), "size": space, "device": self._env.device}
            )
            for name, space in spaces.items()
            if agent.get(f"{name}_preprocessor")
        }

    def agent_and_trainer(self) -> tuple[Any, Any]:
        """Return a new agent with new networks, and the trainer around it.

        The library would send the networks of the first process as pickled objects. All processes would then read them
        on the GPU of the first one.
        """
        models = self.models()
        for model in models["agent"].values():
            model.broadcast_parameters = functools.partial(take_from_first, model)
        agent = self._generate_agent(self._env, copy.deepcopy(self._cfg), models)
        return agent, self._generate_trainer(self._env, copy.deepcopy(self._cfg), agent)


class Environment(IsaacLabWrapper):
    """The library's wrapper, without a second reset at the start of a training.

    The library would reset the environment with seed 0 before every training. Here it is reset once, when wrapped.
    """

    def __init__(self, env: ManagerBasedRLEnv) -> None:
        """Reset the environment, with its own seed."""
        super().__init__(env)
        self._env.reset()

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the present observations, because the environment resets its episodes itself."""
        seen = inputs_of(self, self._unwrapped.obs_buf)
        self._observations, self._states = seen["observation"], seen["state"]
        return self._observations, {}

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Step the environment; observations are floats, also those of images of bytes."""
        _, *others = super().step(actions)
        self._observations, self._states = _floats(self._observations), _floats(self._states)
        return (self._observations, *others)


class SkrlTrainer(Trainer):
    """SKRL's own training loop."""

    components: ClassVar[type[Components]] = Components
    """Builds agent and trainer."""

    def _build(self) -> list[Step]:
        """Build agent and trainer."""
        batch, run_dir = self._batch, self._run_dir
        self._finite_horizon = self._env.unwrapped.cfg.is_finite_horizon
        self._returns: collections.deque[float] = collections.deque(maxlen=_EPISODES)
        self._lengths: collections.deque[int] = collections.deque(maxlen=_EPISODES)
        self._figures: dict[str, float] = {}
        cfg = copy.deepcopy(self._agent_cfg)
        cfg["agent"]["experiment"] |= {
            "directory": str(run_dir.parent),
            "experiment_name": run_dir.name,
            "write_interval": batch.horizon,
            "checkpoint_interval": 0,  # also keeps the library from saving a "best" one by training return
        }
        cfg["trainer"] |= {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        self._wrapper = wrapper = Environment(self._env)
        agent, self._trainer = self.components(wrapper, cfg).agent_and_trainer()
        self._agent = agent
        for part in agent.checkpoint_modules.values():
            if isinstance(part, RunningStandardScaler):
                part._parallel_variance = of_all_processes(part._parallel_variance)
        self._library = {name: getattr(agent, name) for name in ("record_transition", "update", "post_interaction")}
        agent.record_transition, agent.update = self._record_transition, self._update
        agent.post_interaction = self._post_interaction
        return [
            Step(agent, "act", Phase.INFER, "act"),
            Step(wrapper, "step", Phase.MANAGE, "environment step"),
            Step(agent, "record_transition", Phase.INFER, "store transition"),
            Step(agent, "update", Phase.LEARN, "update"),
            *self._steps_of_update(),
            *(Step(model, "reduce_parameters", Phase.SYNCHRONIZE) for model in self._networks()),
            Step(agent, "write_tracking_data", Phase.LOG, "log"),
            Step(self, "_remember_episodes", Phase.LOG),
            Step(self, "_read_figures", Phase.LOG),
            Step(self, "_report", Phase.LOG),
        ]

    def _steps_of_update(self) -> list[Step]:
        """Return the callables of an update that are particular to the algorithm."""
        agent = self._agent
        networks = {"policy": agent.policy, "value": agent.value}
        if agent.policy is agent.value:
            networks = {"network": agent.policy}
        return [
            Step(ppo, "compute_gae", title="returns"),
            Step(agent.memory, "sample", title="cut minibatches"),
            *(Step(model, "act", title=f"{name} forward") for name, model in networks.items()),
            Step(agent.optimizer, "step", title="optimizer step"),
        ]

    def _run(self) -> None:
        """Run the library's loop."""
        self._trainer.cfg.timesteps = (self._batch.max_iterations - self.iterations) * self._batch.horizon
        divergences: contextlib.AbstractContextManager[list[float]] = contextlib.nullcontext([])
        if (scheduler := getattr(self._agent, "scheduler", None)) is not None:
            divergences = recorded_calls(scheduler, "step", lambda _, divergence: divergence)
        with (
            recorded_calls(torch.nn.utils, "clip_grad_norm_") as self._norms,
            divergences as self._divergences,
            replaced(Agent, record_transition=self._clock.wrap(Agent.record_transition, Phase.LOG)),  # only statistics
        ):
            self._trainer.train()

    def _close(self) -> None:
        """Close the library's writer."""
        if hasattr(self._agent, "writer"):  # only the first process has a writer
            self._agent.writer.close()

    def state(self) -> dict[str, Any]:
        """Return the agent's own state, and the completed iterations; the schedule is part of the optimizer."""
        return {**{name: part.state_dict() for name, part in self._stateful().items()}, "iterations": self.iterations}

    def begin(self, checkpoint: Path) -> None:
        """Load networks and normalizers."""
        load_networks(self._stateful(), checkpoint, DIALECT.title)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state."""
        for name, part in self._stateful().items():
            part.load_state_dict(state[name])
        self.iterations = state["iterations"]

    def averaging(self) -> GradientAveraging | None:
        """Return the function of each network: together, they average one gradient."""
        calls = [(network, "reduce_parameters") for network in self._networks()]
        return GradientAveraging(calls=calls, scaler=self._agent.scaler)

    def _networks(self) -> list[Any]:
        """Return the networks, each once: policy and value function can be one network."""
        return list({id(model): model for model in self._agent.models.values()}.values())

    def _stateful(self) -> dict[str, Any]:
        """Return the agent's parts with a state; the library does not save the gradient scaler itself."""
        return {**self._agent.checkpoint_modules, "scaler": self._agent.scaler}

    def _write(self, path: Path) -> None:
        """Save the agent."""
        self._agent.save(str(path))

    def _record_transition(self, **transition: Any) -> None:  # noqa: ANN401 - passes through
        """Store a transition; after a timeout, its next observation is the last one of the episode that timed out.

        If the horizon is part of the task, a timeout is a termination, as in the wrappers of the other libraries.
        """
        truncated = transition["truncated"]
        if self._finite_horizon:
            transition |= {"terminated": transition["terminated"] | truncated, "truncated": truncated & False}
        elif getattr(self._agent.cfg, "time_limit_bootstrap", True):  # SAC and TD3 always do
            for seen in ("observations", "states"):
                if transition[seen] is not None:
                    after = transition[f"next_{seen}"]
                    transition[f"next_{seen}"] = torch.where(truncated, transition[seen], after)
        self._library["record_transition"](**transition)

    def _update(self, **when: int) -> None:
        """Update. Before the library samples the first minibatch, it computes the returns."""
        self._remember_episodes()
        with phase_until_call(self._clock, Phase.RETURNS, self._agent.memory, "sample"):
            self._library["update"](**when)
        self._figures = self._read_figures()

    def _remember_episodes(self) -> None:
        """Record the episodes that have ended, because the library clears them when it logs."""
        self._returns.extend(gained for (gained,) in self._agent._track_rewards)
        self._lengths.extend(steps for (steps,) in self._agent._track_timesteps)

    def _post_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Count iterations over all attempts; report and save at the end of an iteration."""
        before = self._batch.max_iterations * self._batch.horizon - timesteps
        self._library["post_interaction"](timestep=before + timestep, timesteps=before + timesteps)
        done, rest = divmod(before + timestep + 1, self._batch.horizon)
        if rest == 0:
            self._agent.tracking_data.clear()  # a process without a writer would never clear it
            self._report(done, self._figures)
            if done % self._batch.save_interval == 0:
                self.save()

    def _read_figures(self) -> dict[str, float]:
        """Return the library's figures of an update, by the ledger's names."""
        agent, tracked = self._agent, self._agent.tracking_data
        figures = {
            "policy_loss": float(tracked["Loss / Policy loss"][-1]),
            "value_loss": float(tracked["Loss / Value loss"][-1]) / (agent.cfg.value_loss_scale or 1.0),
            "entropy": float(agent.policy.get_entropy(role="policy").detach().mean()),
            "action_std": float(tracked["Policy / Standard deviation"][-1]),
            "learning_rate": float(agent.optimizer.param_groups[0]["lr"]),
        }
        if (norm := largest_norm(self._norms, agent.scaler)) is not None:
            figures["grad_norm"] = float(norm)
        if self._divergences:
            figures["kl"] = sum(self._divergences) / len(self._divergences)
            self._divergences.clear()
        return figures | episode_means(self._returns, self._lengths)


class SkrlAdapter(Adapter):
    """SKRL (skrl 2, torch)."""

    dialect = DIALECT
    policy_class: ClassVar[str] = "GaussianMixin"
    """The library's class of the policy's network."""
    trainer_type: type[SkrlTrainer] = SkrlTrainer
    only_here: ClassVar[tuple[str, ...]] = ()
    """Parts of a checkpoint that checkpoints of other algorithms lack."""
    circumstances = ("seed", "trainer", "agent.experiment")

    def _adapt(self, agent_cfg: dict[str, Any], device: str) -> dict[str, Any]:
        """Refuse what LedgerLab cannot train. The agent uses the device of the environment."""
        cfg = copy.deepcopy(agent_cfg)
        for group in ("models", "memory", "agent", "trainer"):
            if not isinstance(cfg.get(group), Mapping):
                raise UserError(f"agent.{group} is missing: a configuration of SKRL needs this group of settings")
        for setting, known in (
            ("agent.agent.class", self.dialect.algorithm.upper()),
            ("agent.models.policy.class", self.policy_class),
            ("agent.trainer.class", "SequentialTrainer"),
        ):
            if (chosen := read_setting(cfg, setting)) != known:
                raise UserError(f"{setting} {chosen!r}: LedgerLab supports only {known}")
        cfg["agent"].setdefault("experiment", {}).setdefault("checkpoint_interval", "auto")
        self._require(cfg)
        return cfg

    def _require(self, cfg: dict[str, Any]) -> None:
        """Refuse settings that are particular to the algorithm, and add its defaults.

        Raises:
            UserError: If the algorithm cannot be trained with them.
        """
        agent = cfg["agent"]
        for name in ("rollouts", "learning_epochs", "mini_batches"):
            agent.setdefault(name, getattr(ppo.PPO_CFG, name))
        if (threshold := agent.get("kl_threshold")) and config.torch.is_distributed:
            raise UserError(
                f"agent.agent.kl_threshold {threshold}: a process that ends its update early would let the other "
                "processes wait forever: set it to 0"
            )
        if (kept := cfg["memory"].get("memory_size")) not in (-1, agent["rollouts"]):
            raise UserError(
                f"agent.memory.memory_size {kept!r}: must be -1, or equal to agent.agent.rollouts, {agent['rollouts']}"
            )

    def _counted(self, agent_cfg: dict[str, Any]) -> int:
        """Return the steps of an iteration; SKRL counts steps."""
        return read_setting(agent_cfg, self.dialect.overrides["horizon"]) or 0

    def refuse_activation(self, value: Any) -> str | None:  # noqa: ANN401 - any value of a configuration
        """Refuse an activation that the library does not have, in a name or a list of them; it would ignore it."""
        known = one_of(*_ACTIVATIONS)
        names = [name or "" for name in value] if isinstance(value, list) else [value]
        return next(filter(None, (known(str(name).lower()) for name in names)), None)

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the batch arithmetic of the agent. SKRL counts environment steps instead of iterations."""
        agent, horizon = agent_cfg["agent"], agent_cfg["agent"]["rollouts"]
        return BatchPlan(
            max_iterations=agent_cfg["trainer"]["timesteps"] // horizon,
            horizon=horizon,
            save_interval=save_interval(agent_cfg, horizon),
            epochs=agent["learning_epochs"],
            minibatches=agent["mini_batches"],
            minibatch_setting=self.dialect.overrides["minibatches"],
        )

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: dict[str, Any]) -> ActingModule:
        """Load the policy of a checkpoint, and the normalizers of its inputs."""
        wrapper = IsaacLabWrapper(env)
        components = self.trainer_type.components(wrapper, agent_cfg)
        drawing = [] if wrapper.device.type == "cpu" else [wrapper.device]
        with torch.random.fork_rng(drawing):  # drawing weights must not advance the learner's random stream
            policy = components.models()["agent"]["policy"]
        scalers = components.scalers()
        learner = f"{self.dialect.title}'s {self.dialect.algorithm.upper()}"
        with loading_policy(checkpoint, learner, wrapper.device) as content:
            policy.load_state_dict(content["policy"])  # that of another algorithm may have other parameters
            for name in self.only_here:
                content[name]
            for name, scaler in scalers.items():
                scaler.load_state_dict(content[f"{name}_preprocessor"])
        policy.eval()
        limited, limits = self._limits(policy, agent_cfg)

        def act(groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
            inputs = {
                name: scalers[name](raw) if name in scalers else raw for name, raw in inputs_of(wrapper, groups).items()
            }
            # policy.act() would also draw a sample, which advances the learner's random stream.
            actions, _ = policy.compute({f"{name}s": value for name, value in inputs.items()}, role="policy")
            return limited(actions)

        return ActingModule(act, policy=policy, **scalers, **limits)

    def _limits(
        self, policy: Any, agent_cfg: dict[str, Any]
    ) -> tuple[Callable[[torch.Tensor], torch.Tensor], dict[str, torch.Tensor]]:
        """Return a function that limits the outputs of a policy's network, and the constants that it uses."""
        if not policy._g_clip_mean_actions:
            return lambda actions: actions, {}
        low, high = policy._g_min_actions, policy._g_max_actions
        return lambda actions: actions.clamp(low, high), {"low": low, "high": high}


ADAPTER = SkrlAdapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""


def save_interval(agent_cfg: dict[str, Any], horizon: int) -> int:
    """Return the iterations between two checkpoints, which SKRL counts in environment steps.

    Args:
        agent_cfg: The library's configuration.
        horizon: Steps of an iteration.
    """
    timesteps, interval = agent_cfg["trainer"]["timesteps"], agent_cfg["agent"]["experiment"]["checkpoint_interval"]
    steps = timesteps // 10 if interval == "auto" else interval if interval > 0 else timesteps
    return max(1, steps // horizon)


def _set_device(device: torch.device) -> None:
    """Set the device that the library uses where it is given none, such as for the observations of each step.

    The library would take ``cuda:0`` if there is a GPU, and make a tensor there each time, to check the device.
    """
    chosen = type(config.torch).parse_device

    def parse_device(asked: torch.device | str | None, validate: bool = True) -> torch.device:
        return device if asked is None else chosen(asked, validate)

    config.torch.device, config.torch.parse_device = device, parse_device


def inputs_of(wrapper: IsaacLabWrapper, groups: Mapping[str, Any]) -> dict[str, torch.Tensor | None]:
    """Return observation groups as inputs of the library's networks: the policy's, and the critic's if there is one.

    Args:
        wrapper: The library's view of the environment.
        groups: Observation groups: tensors of shape (n, ...), or dictionaries of them.

    Returns:
        Floats of shape (n, size), by what they are to the library.
    """
    spaces = {"observation": wrapper.observation_space, "state": wrapper.state_space}
    seen = {"observation": groups["policy"], "state": groups.get("critic")}
    return {
        name: _floats(flatten_tensorized_space(tensorize_space(space, seen[name]))) for name, space in spaces.items()
    }


def _floats(values: torch.Tensor | None) -> torch.Tensor | None:
    """Return bytes of images as floats, which networks need; other values as they are."""
    return values.float() if values is not None and values.dtype == torch.uint8 else values
