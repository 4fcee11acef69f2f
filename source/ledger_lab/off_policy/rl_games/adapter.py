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
from ledger_lab.off_policy.replay_memory import Column, ReplayMemory
from ledger_lab.off_policy.replay_plan import FLOAT_BYTES, ReplayPlan, ReplayTrainer, require_settings
from ledger_lab.off_policy.rl_games.dialect import LOG_STD_BOUNDS
from ledger_lab.off_policy.rl_games.dialect import SAC as DIALECT
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.training.runners.adapter import BatchPlan, Step
from ledger_lab.training.runners.checkpoint_file import ActingModule, load_networks, loading_policy
from ledger_lab.training.runners.recorded_calls import recorded_calls
from ledger_lab.training.runners.rl_games.adapter import (
    OPTIONAL,
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

    def _build(self) -> list[Step]:
        """Check that the replay memory fits, and build the algorithm."""
        env = self._env.unwrapped
        self._require_continuous()
        self._require_memory(FLOAT_BYTES * _vector_size(env.single_observation_space["policy"]))
        algo = self._make_algorithm(replay_buffer_size=1)
        sizes = (algo.obs_shape[0], algo.actions_num)
        algo.replay_buffer = memory = RlGamesMemory(
            self._plan.replay_steps, env.num_envs, *sizes, torch.device(env.device)
        )
        self.replay = memory.replay
        self._wrapper.env = self._endings = _Endings(self._env)
        algo.vec_env = self._wrapper  # the library leaves it out if it is given the spaces of the environment
        if algo.normalize_input:
            algo.model.running_mean_std = RunningMeanStd(algo.obs_shape).to(algo.device)
        network = algo.model.sac_network
        network.critic_target.load_state_dict(network.critic.state_dict())  # an initializer draws each on its own
        network.actor.register_forward_hook(self._keep_noise)
        algo.min_alpha = torch.zeros_like(algo.min_alpha)
        self.entropy_target = algo.target_entropy / algo.actions_num
        self._random_steps, self._first_update = self._agent_cfg["random_steps"], self._plan.warm_up_steps
        self._scale_rewards, algo.rewards_shaper = algo.rewards_shaper, lambda rewards: rewards  # in reports
        self._library_act, self._add = algo.act, memory.add
        algo.train_epoch, algo.act, memory.add = self._train_epoch, self._act, self._store  # type: ignore[method-assign]
        return [
            Step(algo, "init_tensors", Phase.STARTUP),
            Step(algo, "play_steps", Phase.INFER),
            Step(algo, "act", title="act"),
            Step(algo, "env_step", Phase.MANAGE),
            Step(self._wrapper, "step", title="environment step"),
            Step(algo.algo_observer, "process_infos", Phase.LOG, "statistics"),
            Step(memory, "add", Phase.REPLAY_WRITE, "store transition"),
            Step(algo, "update", Phase.LEARN, "update"),
            Step(memory, "sample", Phase.REPLAY_SAMPLE, "sample the replay memory"),
            Step(algo, "update_critic", title="update of the critics"),
            Step(algo, "update_actor_and_alpha", title="update of the policy"),
            Step(algo, "update_target_weights", title="update of the target critics"),
            *(Step(getattr(network, name), "forward", title=f"{name} forward") for name in _NETWORKS),
            Step(algo.critic_optimizer, "step", title="optimizer step of the critics"),
            Step(algo.actor_optimizer, "step", title="optimizer step of the policy"),
            Step(algo.game_rewards, "update", Phase.LOG),
            Step(algo.game_lengths, "update", Phase.LOG),
            Step(algo.algo_observer, "after_print_stats", Phase.LOG),
            Step(algo.writer, "add_scalar", Phase.LOG, "log"),
            Step(self, "_end_iteration", Phase.LOG),
        ]

    def _run(self) -> None:
        """Run the library's loop."""
        first, horizon = self._first_update, self._batch.horizon
        self._algo.num_warmup_steps = first // horizon + 1  # the iteration from which on the library logs losses
        with recorded_calls(torch.nn.utils, "clip_grad_norm_") as self._norms:
            self._runner.run({"train": True})

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
        self.iterations = self._algo.epoch_num
        self._restore_beginnings(state)

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
        self._add(observations, actions, self._scale_rewards(rewards), next_observations, terminated | failed)

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
        **OPTIONAL,
        "params.network.separate": True,
        "params.network.log_std_bounds": list(LOG_STD_BOUNDS),
        "params.network.mlp.initializer.name": "default",
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
        needed = ("action_bound", "random_steps", "hidden_dims", "activation", "learning_rate", "initial_entropy_coef")
        require_settings(DIALECT, agent_cfg, *needed)

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the arithmetic of the updates."""
        config = agent_cfg["params"]["config"]
        iterations, interval = config["max_epochs"], config.get("save_frequency", 0)  # 0: only at the end
        return ReplayPlan.of(DIALECT, agent_cfg).batch(
            iterations, config["num_steps_per_episode"], interval or iterations
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
                parts[_NORMALIZER] = model.running_mean_std = RunningMeanStd(shape)
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
