"""rl_games behind the protocol of :mod:`ledger_lab.training.runners.adapter`."""

from __future__ import annotations

import contextlib
import io
import math
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from isaaclab.utils.seed import configure_seed

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.compilation import metered_torch_compilation
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED
from ledger_lab.tasks.recipes.settings import one_of
from ledger_lab.training.runners.adapter import Adapter, BatchPlan, Step, Trainer
from ledger_lab.training.runners.checkpoint_file import ActingModule, load_networks, loading_policy
from ledger_lab.training.runners.collectives import GradientAveraging, merged_moments, take_from_first
from ledger_lab.training.runners.configs import complete
from ledger_lab.training.runners.recorded_calls import largest_norm, recorded_calls, replaced
from ledger_lab.training.runners.rl_games.dialect import DIALECT

with replaced(torch, compile=lambda function: function):  # an example network would import the compiler
    from isaaclab_rl.rl_games import RlGamesVecEnvWrapper
    from rl_games.algos_torch.model_builder import ModelBuilder
    from rl_games.algos_torch.network_builder import NetworkBuilder
    from rl_games.algos_torch.players import rescale_actions
    from rl_games.algos_torch.running_mean_std import RunningMeanStd, RunningMeanStdObs
    from rl_games.common import a2c_common
    from rl_games.common.algo_observer import IsaacAlgoObserver
    from rl_games.common.player import BasePlayer
    from rl_games.torch_runner import Runner

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

__all__ = [
    "ADAPTER",
    "OPTIONAL",
    "ModelBuilder",
    "RlGamesAdapter",
    "RlGamesLoop",
    "RlGamesVecEnvWrapper",
    "RunningMeanStd",
]


OPTIONAL: Mapping[str, Any] = {
    "params.seed": DEFAULT_SEED,
    "params.load_checkpoint": False,
    "params.torch_threads": 0,  # 0: those of the process; another number would round otherwise than scoring
    "params.env.clip_observations": math.inf,
    "params.config.max_frames": -1,
    "params.config.torch_compile": False,  # off, because compiling takes minutes
    "params.config.value_bootstrap": True,
}
"""Settings that a configuration of any algorithm may leave out, with their defaults."""


class RlGamesLoop(Trainer):
    """rl_games' own training loop.

    The library's own rules for ending the loop at a training return, and for saving, are turned off, because its file
    names do not show which policy is the newest.
    """

    suffix = ".pth"

    def _make_algorithm(self, **settings: Any) -> Any:  # noqa: ANN401 - the library's own type
        """Build the library's algorithm around the environment.

        Args:
            settings: Settings of ``agent.params.config`` that are known only now.

        Returns:
            The algorithm.
        """
        env, agent_cfg, run_dir = self._env, self._agent_cfg, self._run_dir
        self._wrapper = wrapper = RlGamesVecEnvWrapper.from_agent_cfg(env, agent_cfg)
        self._runner = runner = Runner(IsaacAlgoObserver())
        runner.load(agent_cfg)
        configure_seed(agent_cfg["params"]["seed"])  # the library ignores the seed 0, and adds the rank a second time
        runner.params["config"] |= {
            "num_actors": wrapper.num_envs,
            "env_info": wrapper.get_env_info(),
            "vec_env": wrapper,
            "train_dir": str(run_dir.parent),
            "full_experiment_name": run_dir.name,
            **settings,
        }
        self._algo = algo = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
        runner.algo_factory.register_builder(runner.algo_name, lambda **_: algo)
        with contextlib.suppress(FileNotFoundError):  # another process may have removed it
            Path(algo.nn_dir).rmdir()  # checkpoints are saved beside the journal
        algo.max_epochs = algo.max_frames = -1
        algo.save_freq, algo.save_best_after = 0, math.inf
        self._library_reset = algo.env_reset
        wrapper.reset()
        algo.env_reset = self._first_observations
        self._trained: tuple[Any, ...] | None = None
        self._norms: list[torch.Tensor] = []
        return algo

    def _close(self) -> None:
        """Close the library's writer."""
        self._algo.writer.close()

    def _first_observations(self) -> dict[str, torch.Tensor]:
        """Return the present observations instead of a reset: the environment is reset already, or restored."""
        self._algo.env_reset = self._library_reset
        observations: dict[str, torch.Tensor] = self._algo.obs_to_tensors(
            self._wrapper._process_obs(dict(self._env.unwrapped.obs_buf))
        )
        return observations

    def _end_iteration(self) -> None:
        """Report the completed iteration, if there is one, and save its policy if it is due.

        Raises:
            Stop: If no further iteration is to be trained.
        """
        if self._trained is not None:
            self._report(self._algo.epoch_num, self._figures(self._trained))
            if self.iterations % self._batch.save_interval == 0:
                self.save()

    def _write(self, path: Path) -> None:
        """Save the state."""
        torch.save(self.state(), path)

    def _figures(self, trained: tuple[Any, ...]) -> dict[str, float]:
        """Return the library's figures of an iteration, by the ledger's names.

        Args:
            trained: Result of the library's ``train_epoch``.
        """
        algo = self._algo
        figures = self._update_figures(trained)
        if (norm := largest_norm(self._norms, getattr(algo, "scaler", None))) is not None:
            figures["grad_norm"] = norm
        if algo.game_rewards.current_size:
            figures["mean_return"] = algo.game_rewards.mean.flatten()[0]
            figures["mean_episode_steps"] = algo.game_lengths.mean.flatten()[0]
        on_device = {
            name: value.detach().double() for name, value in figures.items() if isinstance(value, torch.Tensor)
        }
        values = torch.stack([*on_device.values()]).tolist() if on_device else []  # waits for the device only once
        return {**figures, **dict(zip(on_device, values, strict=True))}

    @abstractmethod
    def _update_figures(self, trained: tuple[Any, ...]) -> dict[str, Any]:
        """Return the figures of the updates of an iteration, by the ledger's names, as numbers or as scalars of torch.

        Args:
            trained: Result of the library's ``train_epoch``.
        """


class RlGamesTrainer(RlGamesLoop):
    """rl_games' own training loop for PPO."""

    def _build(self) -> list[Step]:
        """Build the algorithm."""
        algo = self._make_algorithm()
        self._library_update_epoch, self._library_train_epoch = algo.update_epoch, algo.train_epoch
        algo.update_epoch, algo.train_epoch = self._next_iteration, self._train_epoch
        if torch.distributed.is_initialized():
            _learn_from_all_processes(algo)
        return [
            Step(algo, "init_tensors", Phase.STARTUP),
            Step(algo, "play_steps", Phase.INFER),
            Step(algo, "play_steps_rnn", Phase.INFER),
            Step(algo, "get_action_values", title="act"),
            Step(algo, "env_step", Phase.MANAGE),
            Step(self._wrapper, "step", title="environment step"),
            Step(algo.algo_observer, "process_infos", Phase.LOG, "statistics"),
            Step(algo, "get_values", Phase.RETURNS, "last values"),
            Step(algo, "discount_values", Phase.RETURNS, "returns"),
            Step(algo, "prepare_dataset", Phase.RETURNS, "normalize batch"),
            Step(algo, "train_epoch", Phase.LEARN),
            Step(algo, "train_actor_critic", title="update"),
            Step(algo, "calc_losses", title="losses"),
            Step(algo, "trancate_gradients_and_step", title="optimizer step"),
            Step(algo.game_rewards, "update", Phase.LOG),
            Step(algo.game_shaped_rewards, "update", Phase.LOG),
            Step(algo.game_lengths, "update", Phase.LOG),
            Step(algo, "write_stats", Phase.LOG, "log"),
            Step(algo.writer, "add_scalar", Phase.LOG),
            Step(algo, "update_epoch", Phase.LOG),
        ]

    def _run(self) -> None:
        """Run the library's loop."""
        compiled = self._runner.params["config"].get("torch_compile", True) is not False  # as the library asks
        compiling = metered_torch_compilation(self._clock) if compiled else contextlib.nullcontext()
        arranging = self._clock.wrap(a2c_common.swap_and_flatten01, Phase.LEARN)  # the batch, for the minibatches
        with (
            recorded_calls(a2c_common, "clip_grad_norm_") as self._norms,
            replaced(a2c_common, swap_and_flatten01=arranging),
            compiling,
        ):
            self._runner.run({"train": True})

    def state(self) -> dict[str, Any]:
        """Return the algorithm's own state, with values that the algorithm leaves out."""
        algo = self._algo
        state = algo.get_full_state_weights()
        state |= {"last_lr": algo.last_lr, "entropy_coef": algo.entropy_coef}
        if algo.has_central_value:
            state["central_value_epochs"] = algo.central_value_net.epoch_num
        for name in ("model", "assymetric_vf_nets"):
            if name in state:  # torch.compile renames the parameters
                state[name] = {key.replace("_orig_mod.", ""): value for key, value in state[name].items()}
        return state

    def begin(self, checkpoint: Path) -> None:
        """Load the network, and the network of a central value function."""
        algo = self._algo
        networks = {"model": getattr(algo.model, "_orig_mod", algo.model)}  # torch.compile renames the parameters
        if algo.has_central_value:
            networks["assymetric_vf_nets"] = algo.central_value_net
        load_networks(networks, checkpoint, DIALECT.title)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state, including the schedule's learning rate, which the library would reset."""
        algo = self._algo
        algo.set_full_state_weights(dict(state))
        algo.last_lr, algo.entropy_coef = state["last_lr"], state["entropy_coef"]
        self.iterations = algo.epoch_num
        if algo.has_central_value:
            algo.central_value_net.epoch_num = state["central_value_epochs"]

    def averaging(self) -> GradientAveraging:
        """Return the algorithm's function, which also steps; a central value function has its own."""
        calls = [(self._algo, "trancate_gradients_and_step")]
        return GradientAveraging(calls=calls, scaler=self._algo.scaler)

    def _train_epoch(self) -> tuple[Any, ...]:
        """Train an iteration, and store the library's results."""
        self._trained = self._library_train_epoch()
        return self._trained

    def _next_iteration(self) -> int:
        """Report the completed iteration, and begin the next iteration, unless all are completed."""
        if torch.distributed.is_initialized():
            _reduce_gradients(self._algo)
        self._end_iteration()
        number: int = self._library_update_epoch()
        return number

    def _update_figures(self, trained: tuple[Any, ...]) -> dict[str, Any]:
        """Return the figures of the updates of an iteration."""
        *_, policy_losses, value_losses, _, entropies, divergences, _, _ = trained
        return {
            "policy_loss": torch.stack(policy_losses).mean(),
            "value_loss": torch.stack(value_losses).mean(),
            "entropy": torch.stack(entropies).mean(),
            "kl": torch.stack(divergences).mean(),
            "action_std": self._algo.train_result[7].mean(),
            "learning_rate": float(self._algo.last_lr),
        }


class RlGamesAdapter(Adapter):
    """rl_games 1.6, whose configurations are nested dictionaries."""

    dialect = DIALECT
    trainer_type: type[Trainer] = RlGamesTrainer
    algorithm: ClassVar[str] = "a2c_continuous"
    """The library's name of the algorithm."""
    unsupported: ClassVar[Mapping[str, str]] = {
        "epochs_between_resets": "it would also reset held-out episodes",
        "normalize_rms_advantage": "rl_games 1.6 fails with it",
    }
    """Settings below ``agent.params.config`` that must be left out, with the reasons."""
    circumstances = (
        "params.seed",
        *(
            f"params.config.{name}"
            for name in ("name", "device", "device_name", "multi_gpu", "num_actors", "max_epochs", "save_frequency",
                         "save_best_after", "score_to_win", "print_stats", "games_to_track")
        ),
    )  # fmt: skip
    optional: ClassVar[Mapping[str, Any]] = {
        **OPTIONAL,
        "params.env.clip_actions": math.inf,
        "params.config.clip_actions": True,
        "params.config.schedule_type": "legacy",
        "params.config.mixed_precision": False,
        "params.config.normalize_value": False,
        "params.config.weight_decay": 0.0,
        "params.config.seq_length": 4,
    }

    def _adapt(self, agent_cfg: dict[str, Any], device: str) -> dict[str, Any]:
        """Set the device; refuse or drop settings that contradict the run's declaration."""
        complete(agent_cfg, self.optional)
        params = agent_cfg["params"]
        for group in ("algo", "config"):
            if "name" not in params.get(group, {}):
                raise UserError(f"the agent's configuration is not for rl_games: it has no params.{group}.name")
        config = params["config"]
        if params["algo"]["name"] != self.algorithm:
            raise UserError(
                f"agent.params.algo.name {params['algo']['name']!r}: only {self.algorithm!r} "
                f"({self.dialect.algorithm.upper()}) is trained"
            )
        one_policy = "leave it out, because a run trains a new policy for agent.params.config.max_epochs iterations"
        for key, value, idle, reason in (
            ("params.load_checkpoint", params["load_checkpoint"], False, one_policy),
            ("params.config.max_frames", config["max_frames"], -1, one_policy),
            ("pbt.enabled", agent_cfg.get("pbt", {}).get("enabled", False), False, one_policy),
            *(
                (f"params.config.{name}", config.get(name) or None, None, f"{reason}: leave it out")
                for name, reason in self.unsupported.items()
            ),
        ):
            if value != idle:
                raise UserError(f"agent.{key} {value}: {reason}")
        self._require(agent_cfg)
        config["device"] = config["device_name"] = device
        config["print_stats"] = config["multi_gpu"] = False
        return agent_cfg

    def _require(self, agent_cfg: dict[str, Any]) -> None:
        """Refuse settings that are particular to the algorithm.

        Raises:
            UserError: If the algorithm cannot be trained with them.
        """
        params = agent_cfg["params"]
        if params["config"]["clip_actions"] and not math.isfinite(params["env"]["clip_actions"]):
            raise UserError(
                "agent.params.config.clip_actions: actions in -1..1 are scaled to agent.params.env.clip_actions, which "
                "is infinite: set agent.params.env.clip_actions to a number, or agent.params.config.clip_actions to "
                "False"
            )

    def refuse_activation(self, value: Any) -> str | None:  # noqa: ANN401 - any value of a configuration
        """Refuse an activation that the library's networks do not register."""
        return one_of(*NetworkBuilder.BaseNetwork().activations_factory._builders)(value)

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the batch arithmetic; the minibatch size is for all environments together, or per environment."""
        config = agent_cfg["params"]["config"]
        horizon, max_iterations = config["horizon_length"], config["max_epochs"]
        size, per_env = config.get("minibatch_size"), config.get("minibatch_size_per_env")
        if size is None and (not per_env or horizon % per_env):
            raise ValueError(f"horizon_length {horizon} is no multiple of minibatch_size_per_env {per_env}")
        steps = config.get("seq_length", 4)  # the library's default
        if "rnn" in agent_cfg["params"]["network"] and (horizon % steps or (size or 0) % steps):
            sizes = f"horizon_length {horizon}" + (f" and minibatch_size {size}" if size else "")
            raise ValueError(f"seq_length {steps} must divide {sizes}")
        return BatchPlan(
            max_iterations=max_iterations,
            horizon=horizon,
            epochs=config["mini_epochs"],
            minibatches=None if size is not None else horizon // per_env,
            minibatch_size=size,
            minibatch_setting=f"agent.params.config.minibatch_size{'_per_env' if size is None else ''}",
            save_interval=config.get("save_frequency", 0) or max_iterations,  # 0: only at the end
            rows_per_env=size is None,
        )

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: dict[str, Any]) -> ActingModule:
        """Load the network of a checkpoint. Its actions equal those of the library's own player."""
        config = agent_cfg["params"]["config"]
        wrapper = RlGamesVecEnvWrapper.from_agent_cfg(env, agent_cfg)
        observed, actions = wrapper.observation_space, wrapper.action_space
        spaces = getattr(observed, "spaces", None)
        shape = observed.shape if spaces is None else {name: space.shape for name, space in spaces.items()}
        # Drawing the first weights must not advance the learner's random stream. The library prints every layer.
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
            model = ModelBuilder().load(agent_cfg["params"]).build(
                {
                    "actions_num": actions.shape[0],
                    "input_shape": shape,
                    "normalize_value": config["normalize_value"],
                    "normalize_input": config["normalize_input"],
                }
            )  # fmt: skip
            if model.normalize_input:
                # Replaces a TorchScript module, whose rounding changes once it is optimized.
                model.running_mean_std = (RunningMeanStd if spaces is None else RunningMeanStdObs)(shape)
        with loading_policy(checkpoint, DIALECT.title) as content:
            model.load_state_dict(content["model"])
        model.eval().to(config["device"])
        low, high = (torch.tensor(bound, device=config["device"]) for bound in (actions.low, actions.high))

        network = model.a2c_network
        states = network.get_default_rnn_state() or ()
        # The value function's own layers are no part of the policy.
        others = len(states) // 2 if states and network.is_separate_critic() else 0

        def act(groups: Mapping[str, torch.Tensor], *memory: torch.Tensor) -> Any:
            observations = BasePlayer._preproc_obs(None, wrapper._process_obs(dict(groups))["obs"])
            inputs = {"obs": model.norm_obs(observations)}
            if memory:
                inputs["rnn_states"] = memory + tuple(torch.zeros_like(each) for each in memory[:others])
            means, *_, after = network(inputs)
            if config["clip_actions"]:
                means = rescale_actions(low, high, means.clamp(-1.0, 1.0))
            means = means.clamp(low, high)
            return (means, *after[: len(memory)]) if memory else means

        sizes = [(state.shape[0], state.shape[2]) for state in states[: len(states) - others]]
        return ActingModule(act, sizes, model=model, low=low, high=high)


ADAPTER = RlGamesAdapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""


class _SharedMeanStd(RunningMeanStd):
    """The library's normalizer, updated with the samples of all processes."""

    def _update_mean_var_count_from_moments(
        self,
        mean: torch.Tensor,
        var: torch.Tensor,
        count: torch.Tensor,
        batch_mean: torch.Tensor,
        batch_var: torch.Tensor,
        batch_count: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Use the samples of all processes as one batch."""
        batch = merged_moments(batch_mean, batch_var, batch_count, correction=0)
        moments: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = super()._update_mean_var_count_from_moments(
            mean, var, count, *batch
        )
        return moments


def _networks(algo: Any) -> list[Any]:
    """Return the owners of networks: the algorithm, and its central value function if it has one."""
    return [algo, algo.central_value_net] if algo.has_central_value else [algo]


def _learn_from_all_processes(algo: Any) -> None:
    """Start with equal networks in all processes, and with normalizers over all processes.

    The library's own normalizers are compiled, so they cannot be modified.

    Args:
        algo: The library's algorithm.
    """
    for owner in _networks(algo):
        model = owner.model
        if model.normalize_value:
            model.value_mean_std = algo.value_mean_std = _SharedMeanStd((model.value_size,))
        if model.normalize_input and isinstance(model.obs_shape, dict):
            model.running_mean_std = RunningMeanStdObs(model.obs_shape)
            shared = {name: _SharedMeanStd(shape) for name, shape in model.obs_shape.items()}
            model.running_mean_std.running_mean_std = torch.nn.ModuleDict(shared)
        elif model.normalize_input:
            model.running_mean_std = _SharedMeanStd(model.obs_shape)
        model.to(algo.ppo_device)
        take_from_first(model)


def _reduce_gradients(algo: Any) -> None:
    """Make the library average gradients and divergences, once its loop runs.

    Before that, this setting would make the library start NCCL, on one GPU per process. The library treats each process
    as the first one: so the learning-rate schedule runs in all, and each writes statistics, to a folder of its own.

    Args:
        algo: The library's algorithm.
    """
    for owner in _networks(algo):
        owner.multi_gpu, owner.world_size = True, torch.distributed.get_world_size()
