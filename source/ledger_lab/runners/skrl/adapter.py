"""SKRL behind the contract of :mod:`ledger_lab.runners.adapter`.

What the library gets wrong is put right here, and nowhere else: it starts NCCL when it is imported; it resets the
environment with a seed of its own, the same for every training; it takes the first observation after a timeout for the
last one before, even where the horizon is a part of the task; it keeps the checkpoint with the best training return as
the best one; its normalizers know one process alone.
"""

from __future__ import annotations

import collections
import contextlib
import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.files import whole_file
from ledger_lab.ledger import CheckpointSaved
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.meters.probes import Part
from ledger_lab.recipes import SKRL
from ledger_lab.runners.acting_module import ActingModule
from ledger_lab.runners.adapter import BatchPlan, OnIteration, RecordCheckpoint, Stop
from ledger_lab.runners.checkpoint_file import load_networks, loading_policy
from ledger_lab.runners.collectives import of_all_processes
from ledger_lab.runners.gradient_norms import largest_norm, recorded_gradient_norms
from ledger_lab.runners.skrl.configuration import refuse_activation, require_counts, require_trainable
from ledger_lab.runners.skrl.lone_import import lone_import

with lone_import() as _world_size:
    import skrl.agents.torch.ppo.ppo as ppo
    from skrl import config
    from skrl.envs.wrappers.torch.isaaclab_envs import IsaacLabWrapper
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.utils.model_instantiators.torch.common import _get_activation_function
    from skrl.utils.runner.torch import Runner
    from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space
config.torch._world_size, config.torch._is_distributed = _world_size, _world_size > 1

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_EPISODES = 100
"""Episodes that the mean return is taken over."""


class SkrlAdapter:
    """SKRL (skrl 2, torch)."""

    library = "skrl"
    dialect = SKRL
    optional: Mapping[str, Any] = {}
    circumstances = ("seed", "trainer", "agent.experiment")

    def prepare(
        self, agent_cfg: dict[str, Any], device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> dict[str, Any]:
        """Set what is asked for; the agent computes where the environment does."""
        cfg = copy.deepcopy(agent_cfg)
        require_trainable(cfg, several_processes=config.torch.is_distributed)
        agent = cfg["agent"]
        for name in ("rollouts", "learning_epochs", "mini_batches"):
            agent.setdefault(name, getattr(ppo.PPO_CFG, name))
        agent.setdefault("experiment", {}).setdefault("checkpoint_interval", "auto")
        if seed is not None:
            cfg["seed"] = seed
        if max_iterations is not None:
            cfg["trainer"]["timesteps"] = max_iterations * (agent["rollouts"] or 0)
        require_counts(cfg)
        return cfg

    def refuse_activation(self, value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
        """Let the library tell which it has."""
        return refuse_activation(value, _get_activation_function)

    def require_memoryless(self, agent_cfg: dict[str, Any]) -> None:
        """Do nothing: the library's configurations describe no other networks."""

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the batch arithmetic of the agent; SKRL counts environment steps where we count iterations."""
        agent, timesteps = agent_cfg["agent"], agent_cfg["trainer"]["timesteps"]
        horizon, interval = agent["rollouts"], agent["experiment"]["checkpoint_interval"]
        steps = timesteps // 10 if interval == "auto" else interval if interval > 0 else timesteps
        return BatchPlan(
            max_iterations=timesteps // horizon,
            horizon=horizon,
            epochs=agent["learning_epochs"],
            minibatches=agent["mini_batches"],
            minibatch_setting=self.dialect.overrides["minibatches"],
            save_interval=max(1, steps // horizon),
        )

    def seed(self, agent_cfg: dict[str, Any]) -> int:
        """Read the runner's seed."""
        return agent_cfg["seed"]

    def with_seed(self, agent_cfg: dict[str, Any], seed: int) -> dict[str, Any]:
        """Set the runner's seed."""
        return {**agent_cfg, "seed": seed}

    def experiment(self, agent_cfg: dict[str, Any]) -> str:
        """Read the experiment's directory."""
        return agent_cfg["agent"]["experiment"].get("directory", "")

    def trainer(
        self,
        env: ManagerBasedRLEnv,
        agent_cfg: dict[str, Any],
        run_dir: Path,
        clock: PhaseClock,
        record: RecordCheckpoint,
    ) -> SkrlTrainer:
        """Build agent and trainer."""
        return SkrlTrainer(env, agent_cfg, self.plan(agent_cfg), run_dir, clock, record)

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: dict[str, Any]) -> ActingModule:
        """Load the policy of a checkpoint, and what it normalizes its inputs by."""
        wrapper = IsaacLabWrapper(env)
        components = _Components(wrapper, agent_cfg)
        drawing = [] if wrapper.device.type == "cpu" else [wrapper.device]
        with torch.random.fork_rng(drawing):  # its first weights are thrown away, and the learner must not notice
            policy = components.models()["agent"]["policy"]
        scalers = components.scalers()
        with loading_policy(checkpoint, SKRL.title):
            content = torch.load(checkpoint, weights_only=True, map_location=wrapper.device)
            policy.load_state_dict(content["policy"])
            for name, scaler in scalers.items():
                scaler.load_state_dict(content[f"{name}_preprocessor"])
        policy.eval()

        def act(groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
            inputs = {
                name: scalers[name](raw) if name in scalers else raw for name, raw in _inputs(wrapper, groups).items()
            }
            # Not policy.act(), which draws a sample, too: the learner would notice.
            actions, _ = policy.compute({f"{name}s": value for name, value in inputs.items()}, role="policy")
            limited: torch.Tensor = (
                actions.clamp(policy._g_min_actions, policy._g_max_actions) if policy._g_clip_mean_actions else actions
            )
            return limited

        limits = {"low": policy._g_min_actions, "high": policy._g_max_actions} if policy._g_clip_mean_actions else {}
        return ActingModule(act, policy=policy, **scalers, **limits)


class _Components(Runner):
    """The library's own way from a configuration to its components, without its seeds.

    Its constructor would seed everything once more, with the rank added: the environment has done that.
    """

    def __init__(self, wrapper: IsaacLabWrapper, cfg: dict[str, Any]) -> None:
        """Read a configuration."""
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
        """Return a new agent with new networks, and the trainer around it."""
        agent = self._generate_agent(self._env, copy.deepcopy(self._cfg), self.models())
        return agent, self._generate_trainer(self._env, copy.deepcopy(self._cfg), agent)


class _Environment(IsaacLabWrapper):
    """The library's wrapper, whose training begins where the environment stands.

    The library's own reset seeds the environment with 0 before every training. Here it was reset when it was wrapped.
    """

    def __init__(self, env: ManagerBasedRLEnv) -> None:
        """Reset the environment, by the seed that it was made with."""
        super().__init__(env)
        self._env.reset()

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the current observations: the environment resets itself."""
        seen = _inputs(self, self._unwrapped.obs_buf)
        self._observations, self._states = seen["observation"], seen["state"]
        return self._observations, {}


class SkrlTrainer:
    """SKRL's own training loop with phases around its callables; no step of it is copied."""

    def __init__(
        self,
        env: ManagerBasedRLEnv,
        agent_cfg: dict[str, Any],
        batch: BatchPlan,
        run_dir: Path,
        clock: PhaseClock,
        record: RecordCheckpoint,
    ) -> None:
        """Build agent and trainer, and put the meter around them."""
        self._batch, self._run_dir, self._clock, self._record = batch, run_dir, clock, record
        self._iterations = 0
        self._saved: CheckpointSaved | None = None
        self._finite_horizon = env.unwrapped.cfg.is_finite_horizon
        self._returns: collections.deque[float] = collections.deque(maxlen=_EPISODES)
        self._lengths: collections.deque[int] = collections.deque(maxlen=_EPISODES)
        self._figures: dict[str, float] = {}
        self._divergences: list[float] = []
        cfg = copy.deepcopy(agent_cfg)
        cfg["agent"]["experiment"] |= {
            "directory": str(run_dir.parent),
            "experiment_name": run_dir.name,
            "write_interval": batch.horizon,
            "checkpoint_interval": 0,  # the library would keep a "best" one beside them, by its training return
        }
        cfg["trainer"] |= {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        self._wrapper = wrapper = _Environment(env)
        agent, self._trainer = _Components(wrapper, cfg).agent_and_trainer()
        self._agent = agent
        for part in agent.checkpoint_modules.values():
            if isinstance(part, RunningStandardScaler):
                part._parallel_variance = of_all_processes(part._parallel_variance)
        self._library = {name: getattr(agent, name) for name in ("record_transition", "update", "post_interaction")}
        agent.record_transition, agent.update = self._record_transition, self._update
        agent.post_interaction = self._post_interaction
        for owner, name, phase in (
            (wrapper, "step", Phase.MANAGE),
            (env.unwrapped.sim, "step", Phase.SIMULATE),
            (agent, "act", Phase.INFER),
            (agent, "record_transition", Phase.INFER),
            (agent, "update", Phase.LEARN),
            (agent, "write_tracking_data", Phase.LOG),
            (self, "_report_iteration", Phase.LOG),
            (self, "_write", Phase.CHECKPOINT),
        ):
            clock.instrument(owner, name, phase)
        for model in {id(model): model for model in agent.models.values()}.values():
            clock.instrument(model, "reduce_parameters", Phase.SYNCHRONIZE)

    def train(self, on_iteration: OnIteration) -> None:
        """Run the library's loop."""
        self._on_iteration = on_iteration
        self._trainer.cfg.timesteps = (self._batch.max_iterations - self._iterations) * self._batch.horizon
        with self._recorded_update(), contextlib.suppress(Stop):
            self._trainer.train()
        self.save()
        if hasattr(self._agent, "writer"):  # of several processes, only the first one has it
            self._agent.writer.close()

    def save(self) -> CheckpointSaved:
        """Save under the name that RSL-RL gives the iteration's checkpoint, which counts from 0."""
        if self._saved is None or self._saved.iteration != self._iterations:
            self._saved = self._write(self._run_dir / f"model_{self._iterations - 1}.pt")
        return self._saved

    def state(self) -> dict[str, Any]:
        """Return what the agent saves, and the iterations completed; the schedule is in the optimizer."""
        return {**{name: part.state_dict() for name, part in self._stateful().items()}, "iterations": self._iterations}

    def begin(self, checkpoint: Path) -> None:
        """Load networks and normalizers."""
        load_networks(self._stateful(), checkpoint, SKRL.title)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load it."""
        for name, part in self._stateful().items():
            part.load_state_dict(state[name])
        self._iterations = state["iterations"]

    def carried(self) -> list[tuple[object, list[str]]]:
        """Return the sums of running episodes, and what those that ended lately came to."""
        sums = ["_track_rewards", "_track_timesteps", "_cumulative_rewards", "_cumulative_timesteps"]
        return [(self._agent, sums), (self, ["_returns", "_lengths"])]

    def parts(self) -> list[Part]:
        """Return the callables of the library's loop."""
        agent = self._agent
        networks = (
            [Part(agent.policy, "act", "network forward")]
            if agent.policy is agent.value
            else [Part(agent.policy, "act", "policy forward"), Part(agent.value, "act", "value forward")]
        )
        return [
            Part(agent, "act", "act"),
            Part(self._wrapper, "step", "environment step"),
            Part(agent, "record_transition", "store transition"),
            Part(agent, "update", "update"),
            Part(ppo, "compute_gae", "returns"),
            Part(agent.memory, "sample", "cut minibatches"),
            *networks,
            Part(agent.optimizer, "step", "optimizer step"),
            Part(agent, "write_tracking_data", "log"),
        ]

    def _stateful(self) -> dict[str, Any]:
        """Return everything of the agent that has a state between two iterations; it forgets to save the last."""
        return {**self._agent.checkpoint_modules, "scaler": self._agent.scaler}

    def _write(self, path: Path) -> CheckpointSaved:
        """Save the whole checkpoint, or none."""
        with whole_file(path) as unfinished:
            self._agent.save(str(unfinished))
        return self._record(path, self._iterations)

    def _record_transition(self, **transition: Any) -> None:  # noqa: ANN401 - handed through
        """Let an episode that ran out of time be valued by where it stood, not by where the next one begins.

        Where the horizon is a part of the task, it has ended; the other libraries' wrappers know that by themselves.
        """
        truncated = transition["truncated"]
        if self._finite_horizon:
            transition |= {"terminated": transition["terminated"] | truncated, "truncated": truncated & False}
        elif self._agent.cfg.time_limit_bootstrap:
            for seen in ("observations", "states"):
                if transition[seen] is not None:
                    after = transition[f"next_{seen}"]
                    transition[f"next_{seen}"] = torch.where(truncated, transition[seen], after)
        self._library["record_transition"](**transition)

    def _update(self, **when: int) -> None:
        """Take the episodes that have ended, which the library forgets when it logs; then learn."""
        self._returns.extend(gained for (gained,) in self._agent._track_rewards)
        self._lengths.extend(steps for (steps,) in self._agent._track_timesteps)
        self._library["update"](**when)
        self._figures = self._read_figures()

    def _post_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Count iterations, of this attempt and those before it."""
        before = self._batch.max_iterations * self._batch.horizon - timesteps
        self._library["post_interaction"](timestep=before + timestep, timesteps=before + timesteps)
        self._iterations, rest = divmod(before + timestep + 1, self._batch.horizon)
        if rest == 0:
            self._agent.tracking_data.clear()  # which a process without a writer never does
            self._report_iteration()
            if self._iterations % self._batch.save_interval == 0:
                self.save()

    def _report_iteration(self) -> None:
        """Tell of an iteration."""
        if not self._on_iteration(self._iterations, self._figures):
            raise Stop

    def _read_figures(self) -> dict[str, float]:
        """Return what the library tracks of an update, by our names."""
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
        if self._returns:
            figures["mean_return"] = sum(self._returns) / len(self._returns)
            figures["mean_episode_steps"] = sum(self._lengths) / len(self._lengths)
        return figures

    @contextlib.contextmanager
    def _recorded_update(self) -> Iterator[None]:
        """Keep what the update computes and does not log, and meter the advantages, which are a function of theirs."""
        scheduler, compute_gae = self._agent.scheduler, ppo.compute_gae
        ppo.compute_gae = self._clock.wrap(compute_gae, Phase.RETURNS)
        step = None if scheduler is None else scheduler.step
        if step is not None:

            def step_and_keep(divergence: float) -> None:
                self._divergences.append(divergence)
                step(divergence)

            scheduler.step = step_and_keep
        try:
            with recorded_gradient_norms() as self._norms:
                yield
        finally:
            ppo.compute_gae = compute_gae
            if step is not None:
                scheduler.step = step


def _inputs(wrapper: IsaacLabWrapper, groups: Mapping[str, Any]) -> dict[str, torch.Tensor | None]:
    """Return observation groups as the library hands them to networks: the policy's, and the critic's, if any."""
    return {
        "observation": flatten_tensorized_space(tensorize_space(wrapper.observation_space, groups["policy"])),
        "state": flatten_tensorized_space(tensorize_space(wrapper.state_space, groups.get("critic"))),
    }
