"""Soft actor-critic of rl_games.

This module corrects the following behaviour of the library: it counts the steps before the first update in iterations;
its replay memory is sized in transitions, not in steps, and stores each observation twice; an episode that fails in its
last step counts as timed out; the returns that it reports are scaled; the entropy coefficient in the policy's loss is
at least 0.01; its checkpoints lack the entropy coefficient; the first target critics may differ from the critics; its
player does not scale actions to their bound. Several processes are refused, because the library does not average the
gradients of SAC.
"""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.ledger.meters.probes import Part
from ledger_lab.off_policy.replay_memory import Column, ReplayMemory
from ledger_lab.off_policy.replay_plan import FLOAT_BYTES, ReplayPlan, ReplayTrainer, require_bound
from ledger_lab.off_policy.rl_games.dialect import LOG_STD_BOUNDS
from ledger_lab.off_policy.rl_games.dialect import SAC as DIALECT
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.training.runners.adapter import BatchPlan, OnIteration
from ledger_lab.training.runners.checkpoint_file import ActingModule, load_networks, loading_policy
from ledger_lab.training.runners.recorded_calls import recorded_calls
from ledger_lab.training.runners.rl_games.adapter import (
    ModelBuilder,
    RlGamesAdapter,
    RlGamesLoop,
    RlGamesVecEnvWrapper,
    RunningMeanStd,
)

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_NETWORKS = ("actor", "critic", "critic_target")
"""Networks of the library, by their keys in its checkpoints."""

_NORMALIZER = "running_mean_std"
"""Key of the observation normalizer in the library's checkpoints, and its name in the model."""

_TEMPERATURE = "log_alpha"
"""Part of a state that holds the logarithm of the entropy coefficient."""


_COLUMNS = ("observations", "actions", "rewards", "terminated")
"""What a transition holds besides its next observation, in the library's order."""


class RlGamesMemory:
    """What rl_games' SAC calls of a replay buffer. The library's own buffer stores every observation twice."""

    def __init__(self, steps: int, num_envs: int, observations: int, actions: int, device: torch.device) -> None:
        """Allocate the memory.

        Args:
            steps: Steps of each environment.
            num_envs: Number of environments.
            observations: Numbers in an observation.
            actions: Numbers in an action.
            device: Where it is held.
        """
        columns = (Column(observations, observed=True), Column(actions), Column(1), Column(1, torch.bool))
        self.replay = ReplayMemory(steps, num_envs, dict(zip(_COLUMNS, columns, strict=True)), device)

    def add(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        next_observations: torch.Tensor,
        terminated: torch.Tensor,
    ) -> None:
        """Add a step of all environments, of shape (num_envs, size) each."""
        values = dict(zip(_COLUMNS, (observations, actions, rewards, terminated), strict=True))
        self.replay.add(values, {"observations": next_observations})

    def sample(self, batch_size: int) -> tuple[torch.Tensor, ...]:
        """Draw transitions uniformly, with replacement.

        Args:
            batch_size: Number of transitions.

        Returns:
            Observations, actions, rewards, next observations, and whether the episode was terminated, of shape
            (batch_size, size) each.
        """
        index, after = self.replay.draw(batch_size)
        observations, actions, rewards, terminated = (self.replay.read(name, index) for name in _COLUMNS)
        return observations, actions, rewards, self.replay.read("observations", after), terminated


class SacTrainer(ReplayTrainer, RlGamesLoop):
    """rl_games' own training loop for SAC.

    An iteration is one call of the library's ``train_epoch``, in ``num_steps_per_episode`` environment steps.
    """

    dialect = DIALECT

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Check that the replay memory fits, and build the algorithm."""
        env = self._env.unwrapped
        self._require_continuous()
        self._require_memory(FLOAT_BYTES * _vector_size(env.single_observation_space["policy"]))
        algo = self._make_algorithm(replay_buffer_size=1)
        sizes = (algo.obs_shape[0], algo.actions_num)
        algo.replay_buffer = memory = RlGamesMemory(self._plan.steps, env.num_envs, *sizes, torch.device(env.device))
        self.replay = memory.replay
        self._wrapper.env = self._endings = _Endings(self._env)
        algo.vec_env = self._wrapper  # the library leaves it out if it is given the spaces of the environment
        if algo.normalize_input:
            algo.model.running_mean_std = _normalizer(algo.obs_shape).to(algo.device)
        network = algo.model.sac_network
        network.critic_target.load_state_dict(network.critic.state_dict())  # an initializer draws each on its own
        network.actor.register_forward_hook(self._keep_noise)
        algo.min_alpha = torch.zeros_like(algo.min_alpha)
        self.entropy_target = algo.target_entropy / algo.actions_num
        self._random_steps, self._first_update = self._agent_cfg["random_steps"], self._plan.warm_up_steps
        self._scale_rewards, algo.rewards_shaper = algo.rewards_shaper, _unscaled
        self._library_act, self._add = algo.act, memory.add
        algo.train_epoch, algo.act, memory.add = self._train_epoch, self._act, self._store  # type: ignore[method-assign]
        return [
            (algo, "init_tensors", Phase.STARTUP),
            (algo, "play_steps", Phase.INFER),
            (algo, "env_step", Phase.MANAGE),
            (memory, "add", Phase.REPLAY_WRITE),
            (memory, "sample", Phase.REPLAY_SAMPLE),
            (algo, "update", Phase.LEARN),
            (algo.game_rewards, "update", Phase.LOG),
            (algo.game_lengths, "update", Phase.LOG),
            (algo.algo_observer, "process_infos", Phase.LOG),
            (algo.algo_observer, "after_print_stats", Phase.LOG),
            (algo.writer, "add_scalar", Phase.LOG),
            (self, "_end_iteration", Phase.LOG),
        ]

    def train(self, on_iteration: OnIteration) -> None:
        """Run the library's loop."""
        first, horizon = self._first_update, self._batch.horizon
        self._algo.num_warmup_steps = first // horizon + 1  # the iteration from which on the library logs losses
        with recorded_calls(torch.nn.utils, "clip_grad_norm_") as self._norms:
            self._run(on_iteration)

    def state(self) -> dict[str, Any]:
        """Return the algorithm's own state, the entropy coefficient, and when random acting ends and updates begin."""
        with contextlib.redirect_stdout(io.StringIO()):  # the library says that it loads weights
            state: dict[str, Any] = self._algo.get_full_state_weights()
        return {**state, **self._beginnings(), _TEMPERATURE: self._algo.log_alpha.detach().clone()}

    def begin(self, checkpoint: Path) -> None:
        """Load networks and normalizer. The critics also get the actions, behind the observations."""
        algo = self._algo
        parts = {name: getattr(algo.model.sac_network, name) for name in _NETWORKS}
        if algo.normalize_input:
            parts[_NORMALIZER] = algo.model.running_mean_std
        behind = dict.fromkeys(("critic", "critic_target"), algo.actions_num)
        load_networks(parts, checkpoint, DIALECT.title, behind)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state, and the entropy coefficient in it."""
        self._algo.set_full_state_weights(dict(state))
        with torch.no_grad():
            self._algo.log_alpha.copy_(state[_TEMPERATURE])
        self._restore_beginnings(state)

    def parts(self) -> list[Part]:
        """Return the callables of the library's loop."""
        algo = self._algo
        network = algo.model.sac_network
        return [
            Part(algo, "act", "act"),
            Part(self._wrapper, "step", "environment step"),
            Part(algo.algo_observer, "process_infos", "statistics"),
            Part(algo.replay_buffer, "add", "store transition"),
            Part(algo, "update", "update"),
            Part(algo.replay_buffer, "sample", "sample the replay memory"),
            Part(algo, "update_critic", "update of the critics"),
            Part(algo, "update_actor_and_alpha", "update of the policy"),
            Part(algo, "update_target_weights", "update of the target critics"),
            *(Part(getattr(network, name), "forward", f"{name} forward") for name in _NETWORKS),
            Part(algo.critic_optimizer, "step", "optimizer step of the critics"),
            Part(algo.actor_optimizer, "step", "optimizer step of the policy"),
            Part(algo.writer, "add_scalar", "log"),
        ]

    def _train_epoch(self) -> tuple[Any, ...]:
        """Report the completed iteration, and train the next one, unless all are completed.

        The library's own switch for random actions also turns the updates off, for whole iterations. Here, an iteration
        is divided where random actions end and where updates begin.
        """
        algo, horizon = self._algo, self._batch.horizon
        algo.epoch_num -= 1  # the library has already counted the next iteration
        self._end_iteration()
        first = algo.epoch_num * horizon
        algo.epoch_num += 1
        last, parts = first + horizon, []
        for end in sorted({last, *(step for step in (self._random_steps, self._first_update) if first < step < last)}):
            self._acts_randomly = first < self._random_steps
            algo.num_updates_per_step = self._plan.updates_per_step if first >= self._first_update else 0
            algo.num_steps_per_episode = end - first
            parts.append(algo.play_steps())
            first = end
        self._trained = tuple(functools.reduce(operator.add, each) for each in zip(*parts, strict=True))
        return self._trained

    def _act(self, observations: torch.Tensor, shape: tuple[int, ...], sample: bool = False) -> torch.Tensor:
        """Return actions; at the start of a training, draw them uniformly within the bound."""
        if self._acts_randomly:
            shares = torch.rand(len(observations), *shape, device=observations.device)
            actions: torch.Tensor = self._algo.rescale_actions(2.0 * shares - 1.0)
        else:
            actions = self._library_act(observations, shape, sample=sample)
        return actions

    def _store(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        next_observations: torch.Tensor,
        terminated: torch.Tensor,
    ) -> None:
        """Store transitions, with scaled rewards. An episode that fails in its last step has failed."""
        failed = self._endings.terminated.to(terminated.device).unsqueeze(1)
        scaled = self._scale_rewards(rewards)
        self._add(observations, actions, scaled, next_observations, terminated | failed)

    def _keep_noise(self, _: torch.nn.Module, __: Any, distribution: Any) -> None:  # noqa: ANN401 - the library's own type
        """Keep the standard deviation of the last actions, before they are squashed, as shares of the bound."""
        self._noise = distribution.base_dist.scale.detach()

    def _update_figures(self, trained: tuple[Any, ...]) -> dict[str, Any]:
        """Return the figures of the replay memory, and of the updates of an iteration if there were any."""
        *_, policy_losses, entropies, _, _, first_losses, second_losses = trained
        if not policy_losses:
            return {"replay_fill": self.replay.fill}
        return {
            "replay_fill": self.replay.fill,
            "replay_age": self.replay.mean_age(),
            "policy_loss": torch.stack(policy_losses).mean(),
            "value_loss": 0.5 * (torch.stack(first_losses).mean() + torch.stack(second_losses).mean()),
            "entropy": torch.stack(entropies).mean(),
            "action_std": self._noise.mean(),
            "learning_rate": float(self._algo.actor_optimizer.param_groups[0]["lr"]),
        }


class _Endings:
    """An environment, and which of its episodes failed at the last step; the wrapper only tells that they ended."""

    def __init__(self, env: ManagerBasedRLEnv) -> None:
        """Watch an environment."""
        self._env = env
        self.terminated: torch.Tensor
        """Shape (num_envs,)."""

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        """Step the environment."""
        result = self._env.step(actions)
        self.terminated = result[2]
        return result

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the environment has
        """Return the environment's attribute."""
        return getattr(self._env, name)


def _vector_size(seen: gym.Space) -> int:
    """Return the number of values of the policy's observations.

    Args:
        seen: Space of the observation group of the policy.

    Raises:
        UserError: If they are an image, or several tensors; the library would read only their first dimension.
    """
    if not isinstance(seen, gym.spaces.Box) or len(seen.shape) != 1:
        what = f"of shape {seen.shape}" if isinstance(seen, gym.spaces.Box) else "not one tensor"
        raise UserError(
            f"observation group 'policy' is {what}, and SAC of rl_games learns from vectors only: use --rl_library "
            "skrl, or let the task flatten and concatenate its terms"
        )
    return seen.shape[0]


def _normalizer(shape: tuple[int, ...]) -> torch.nn.Module:
    """Return a normalizer to replace the library's TorchScript module, whose rounding changes once it is optimized."""
    normalizer: torch.nn.Module = RunningMeanStd(shape)
    return normalizer


def _unscaled(rewards: torch.Tensor) -> torch.Tensor:
    """Return the rewards that the library adds up for its reports."""
    return rewards


class SacAdapter(RlGamesAdapter):
    """Soft actor-critic of rl_games 1.6, whose configurations are nested dictionaries."""

    dialect = DIALECT
    trainer_type = SacTrainer
    algorithm = "sac"
    unsupported: ClassVar[Mapping[str, str]] = {
        "replay_buffer_size": "it counts the transitions of all environments, and agent.replay_steps the steps of each",
        **dict.fromkeys(
            ("num_warmup_steps", "num_warmup_frames"),
            "agent.warm_up_steps is the number of environment steps before the first update",
        ),
        "mixed_precision": "it would round the discount factor, 0.99 to 0.988",
        "torch_compile": "it would compile nothing, because SAC of rl_games bypasses the compiled model",
        "lr_schedule": "SAC of rl_games keeps its learning rates",
    }
    optional: ClassVar[Mapping[str, Any]] = {
        "params.seed": DEFAULT_SEED,
        "params.load_checkpoint": False,
        "params.torch_threads": 0,  # 0: those of the process; another number would round otherwise than scoring
        "params.env.clip_observations": float("inf"),
        "params.network.separate": True,
        "params.network.log_std_bounds": list(LOG_STD_BOUNDS),
        "params.network.mlp.initializer.name": "default",
        "params.config.max_frames": -1,
        "params.config.torch_compile": False,
        "params.config.value_bootstrap": True,
        "params.config.normalize_input": False,
        "params.config.learnable_temperature": True,
        "params.config.policy_frequency": 1,
        "params.config.num_updates_per_step": 1,
        "params.config.reward_shaper.scale_value": 1.0,
    }

    def _require(self, agent_cfg: dict[str, Any]) -> None:
        """Refuse settings that the library misreads or ignores, and values that cannot be trained with."""
        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise UserError(
                f"{DIALECT.learner} trains in one process only, {DIALECT.one_process_reason}: leave out --nproc and "
                "--distributed, or use --rl_library skrl"
            )
        params = agent_cfg["params"]
        for path, known, reason in (
            ("params.model.name", "soft_actor_critic", "SAC of rl_games needs this model"),
            ("params.network.name", "soft_actor_critic", "SAC of rl_games needs this network"),
            ("params.network.separate", True, "SAC of rl_games builds its critics only with it"),
            ("params.config.learnable_temperature", True, "LedgerLab supports only a learned entropy coefficient"),
            ("params.config.policy_frequency", 1, "with another value, rl_games reports losses of 0, and may fail"),
        ):
            value = read_setting(agent_cfg, f"agent.{path}")
            if value != known or isinstance(value, bool) != isinstance(known, bool):
                raise UserError(f"agent.{path} {value!r}: {reason}: set it to {known!r}")
        if "rnn" in params["network"]:
            raise UserError("agent.params.network.rnn: SAC of rl_games has no recurrent layers: leave it out")
        if params["env"].get("obs_groups") is not None or not params["env"].get("concate_obs_groups", True):
            raise UserError(
                "agent.params.env.obs_groups: SAC of rl_games learns from the observation group policy only: leave "
                "obs_groups and concate_obs_groups out"
            )
        settings = DIALECT.overrides
        require_bound(DIALECT, params["env"].get("clip_actions"))
        for name in ("random_steps", "hidden_dims", "activation", "learning_rate", "initial_entropy_coef"):
            for override in (settings[name], *DIALECT.settings[name].also):
                if read_setting(agent_cfg, override) is None:
                    raise UserError(f"{override} is missing: SAC of rl_games needs it")

    def is_recurrent(self, agent_cfg: dict[str, Any]) -> bool:
        """Tell that the networks are not recurrent."""
        return False

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the arithmetic of the updates."""
        config, settings = agent_cfg["params"]["config"], DIALECT.overrides
        horizon, updates = config["num_steps_per_episode"], config["num_updates_per_step"]
        return BatchPlan(
            max_iterations=config["max_epochs"],
            horizon=horizon,
            epochs=1,
            minibatches=horizon * updates,
            minibatch_setting=settings["updates_per_step"],
            save_interval=config.get("save_frequency", 0) or config["max_epochs"],  # 0: only at the end
            replay=ReplayPlan(
                steps=agent_cfg["replay_steps"],
                setting=settings["replay_steps"],
                warm_up_steps=agent_cfg["warm_up_steps"],
                warm_up_setting=settings["warm_up_steps"],
                batch_size=config["batch_size"],
                updates_per_step=updates,
            ),
        )

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: dict[str, Any]) -> ActingModule:
        """Load the policy of a checkpoint, and the normalizer of its observations."""
        params = agent_cfg["params"]
        wrapper = RlGamesVecEnvWrapper.from_agent_cfg(env, agent_cfg)
        shape, actions = wrapper.observation_space.shape, wrapper.action_space.shape[0]
        # Drawing the first weights must not advance the learner's random stream. The library prints every layer.
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
            model = ModelBuilder().load(params).build(
                {
                    "obs_dim": shape[0],
                    "action_dim": actions,
                    "actions_num": actions,
                    "input_shape": shape,
                    "normalize_input": params["config"]["normalize_input"],
                }
            )  # fmt: skip
            parts = {"actor": model.sac_network.actor}
            if model.normalize_input:
                parts[_NORMALIZER] = model.running_mean_std = _normalizer(shape)
        with loading_policy(checkpoint, f"{DIALECT.title}'s SAC") as content:
            for name, part in parts.items():
                part.load_state_dict(content[name])
        device = params["config"]["device"]
        model.eval().to(device)
        bound = torch.tensor(float(params["env"]["clip_actions"]), device=device)

        def act(groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
            observations = model.norm_obs(wrapper._process_obs(dict(groups))["obs"].float())
            means, _ = model.sac_network.actor.trunk(observations).chunk(2, dim=-1)
            return bound * torch.tanh(means)

        return ActingModule(act, **parts, bound=bound)


SAC = SacAdapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""
