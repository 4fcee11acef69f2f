"""rl_games behind the protocol of :mod:`ledger_lab.training.runners.adapter`."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from isaaclab_rl.rl_games import RlGamesVecEnvWrapper
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.algos_torch.network_builder import NetworkBuilder
from rl_games.algos_torch.players import rescale_actions
from rl_games.algos_torch.running_mean_std import RunningMeanStd, RunningMeanStdObs
from rl_games.common import a2c_common
from rl_games.common.player import BasePlayer

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import Phase
from ledger_lab.ledger.meters.compilation import metered_torch_compilation
from ledger_lab.ledger.meters.probes import Part
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED
from ledger_lab.tasks.recipes.rules import one_of
from ledger_lab.training.runners.acting_module import ActingModule
from ledger_lab.training.runners.adapter import Adapter, BatchPlan, OnIteration, Trainer
from ledger_lab.training.runners.checkpoint_file import load_networks, loading_policy
from ledger_lab.training.runners.configs import complete
from ledger_lab.training.runners.gradient_norms import GradientAveraging
from ledger_lab.training.runners.recorded_calls import recorded_calls, replaced
from ledger_lab.training.runners.rl_games.dialect import DIALECT
from ledger_lab.training.runners.rl_games.loop import RlGamesLoop
from ledger_lab.training.runners.rl_games.ranks import learn_from_all_processes, reduce_gradients

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class RlGamesTrainer(RlGamesLoop):
    """rl_games' own training loop for PPO."""

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Build the algorithm."""
        algo = self._make_algorithm()
        self._library_update_epoch, self._library_train_epoch = algo.update_epoch, algo.train_epoch
        algo.update_epoch, algo.train_epoch = self._next_iteration, self._train_epoch
        if torch.distributed.is_initialized():
            learn_from_all_processes(algo)
        return [
            (algo, "init_tensors", Phase.STARTUP),
            (algo, "play_steps", Phase.INFER),
            (algo, "play_steps_rnn", Phase.INFER),
            (algo, "env_step", Phase.MANAGE),
            (algo, "get_values", Phase.RETURNS),
            (algo, "discount_values", Phase.RETURNS),
            (algo, "prepare_dataset", Phase.RETURNS),
            (algo, "train_epoch", Phase.LEARN),
            (algo.game_rewards, "update", Phase.LOG),
            (algo.game_shaped_rewards, "update", Phase.LOG),
            (algo.game_lengths, "update", Phase.LOG),
            (algo.algo_observer, "process_infos", Phase.LOG),
            (algo, "write_stats", Phase.LOG),
            (algo.writer, "add_scalar", Phase.LOG),
            (algo, "update_epoch", Phase.LOG),
        ]

    def train(self, on_iteration: OnIteration) -> None:
        """Run the library's loop."""
        compiled = self._runner.params["config"].get("torch_compile", True) is not False  # as the library asks
        compiling = metered_torch_compilation(self._clock) if compiled else contextlib.nullcontext()
        arranging = self._clock.wrap(a2c_common.swap_and_flatten01, Phase.LEARN)  # the batch, for the minibatches
        with (
            recorded_calls(a2c_common, "clip_grad_norm_") as self._norms,
            replaced(a2c_common, swap_and_flatten01=arranging),
            compiling,
        ):
            self._run(on_iteration)

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
        if algo.has_central_value:
            algo.central_value_net.epoch_num = state["central_value_epochs"]

    def averaging(self) -> GradientAveraging:
        """Return the algorithm's function, which also steps; a central value function has its own."""
        calls = [(self._algo, "trancate_gradients_and_step")]
        return GradientAveraging(calls=calls, scaler=self._algo.scaler)

    def parts(self) -> list[Part]:
        """Return the callables of the library's loop."""
        algo = self._algo
        return [
            Part(algo, "get_action_values", "act"),
            Part(self._wrapper, "step", "environment step"),
            Part(algo.algo_observer, "process_infos", "statistics"),
            Part(algo, "get_values", "last values"),
            Part(algo, "discount_values", "returns"),
            Part(algo, "prepare_dataset", "normalize batch"),
            Part(algo, "train_actor_critic", "update"),
            Part(algo, "calc_losses", "losses"),
            Part(algo, "trancate_gradients_and_step", "optimizer step"),
            Part(algo, "write_stats", "log"),
        ]

    def _train_epoch(self) -> tuple[Any, ...]:
        """Train an iteration, and store the library's results."""
        self._trained = self._library_train_epoch()
        return self._trained

    def _next_iteration(self) -> int:
        """Report the completed iteration, and begin the next iteration, unless all are completed."""
        if torch.distributed.is_initialized():
            reduce_gradients(self._algo)
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
        "params.seed": DEFAULT_SEED,
        "params.load_checkpoint": False,
        "params.torch_threads": 0,  # 0: those of the process; another number would round otherwise than scoring
        "params.env.clip_observations": math.inf,
        "params.env.clip_actions": math.inf,
        "params.config.clip_actions": True,
        "params.config.max_frames": -1,
        "params.config.torch_compile": False,  # off, because compiling takes minutes
        "params.config.value_bootstrap": True,
        "params.config.schedule_type": "legacy",
        "params.config.mixed_precision": False,
        "params.config.normalize_value": False,
        "params.config.weight_decay": 0.0,
        "params.config.seq_length": 4,
    }

    def prepare(
        self, agent_cfg: dict[str, Any], device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> dict[str, Any]:
        """Set the requested values; refuse or drop settings that contradict the run's declaration."""
        complete(agent_cfg, self.optional)
        params = agent_cfg["params"]
        for group in ("algo", "config"):
            if "name" not in params.get(group, {}):
                raise UserError(f"the agent's configuration is not for rl_games: it has no params.{group}.name")
        config = params["config"]
        if seed is not None:
            params["seed"] = seed
        if max_iterations is not None:
            config["max_epochs"] = max_iterations
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

    def is_recurrent(self, agent_cfg: dict[str, Any]) -> bool:
        """Tell whether the network has recurrent layers."""
        return "rnn" in agent_cfg["params"]["network"]

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        """Read the batch arithmetic; the minibatch size is for all environments together, or per environment."""
        config = agent_cfg["params"]["config"]
        horizon, max_iterations = config["horizon_length"], config["max_epochs"]
        size, per_env = config.get("minibatch_size"), config.get("minibatch_size_per_env")
        if size is None and (not per_env or horizon % per_env):
            raise ValueError(f"horizon_length {horizon} is no multiple of minibatch_size_per_env {per_env}")
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
        self.require_memoryless(agent_cfg)
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

        def act(groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
            observations = BasePlayer._preproc_obs(None, wrapper._process_obs(dict(groups))["obs"])
            means: torch.Tensor = model.a2c_network({"obs": model.norm_obs(observations)})[0]
            if config["clip_actions"]:
                means = rescale_actions(low, high, means.clamp(-1.0, 1.0))
            return means.clamp(low, high)

        return ActingModule(act, model=model, low=low, high=high)


ADAPTER = RlGamesAdapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""
