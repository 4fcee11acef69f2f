"""RSL-RL behind the protocol of :mod:`ledger_lab.training.runners.adapter`."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from isaaclab.utils import to_dict
from isaaclab_rl.rsl_rl import (
    RslRlOnPolicyRunnerCfg,
    RslRlVecEnvWrapper,
    create_rsl_rl_runner,
    handle_deprecated_rsl_rl_cfg,
)
from rsl_rl.algorithms import PPO
from rsl_rl.extensions import Symmetry
from rsl_rl.models import MLPModel
from rsl_rl.modules import GaussianDistribution
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.storage import RolloutStorage
from rsl_rl.utils import resolve_class, resolve_nn_activation, resolve_obs_groups
from tensordict import TensorDict

from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger.meters.compilation import metered_torch_compilation
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.ledger.meters.probes import Part
from ledger_lab.training.runners.adapter import Adapter, BatchPlan, OnIteration, Stop, Trainer
from ledger_lab.training.runners.checkpoint_file import ActingModule, load_networks, loading_policy
from ledger_lab.training.runners.collectives import GradientAveraging
from ledger_lab.training.runners.recorded_calls import episode_means, largest_norm, recorded_calls, replaced
from ledger_lab.training.runners.rsl_rl.dialect import DIALECT

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class RslRlTrainer(Trainer):
    """RSL-RL's own training loop."""

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Build the runner."""
        self._done = 0
        self._wrapper = wrapper = RslRlVecEnvWrapper(self._env, clip_actions=self._agent_cfg.clip_actions)
        with _existing_process_group():
            self._runner = runner = create_rsl_rl_runner(wrapper, self._agent_cfg, log_dir=str(self._run_dir))
        runner.logger.git_status_repos = []  # the library's copy of uncommitted changes may hold secrets
        _spare_a_pass(runner.alg)
        self._library_save, self._library_log = runner.save, runner.logger.log
        runner.save = lambda *_: self.save()
        runner.logger.log = self._log
        return [
            (wrapper, "step", Phase.MANAGE),
            (runner.alg, "act", Phase.INFER),
            (runner.alg, "process_env_step", Phase.INFER),
            (runner.alg, "compute_returns", Phase.RETURNS),
            (runner.alg, "update", Phase.LEARN),
            (runner.alg, "reduce_parameters", Phase.SYNCHRONIZE),
            (runner.logger, "process_env_step", Phase.LOG),
            (runner.logger, "log", Phase.LOG),
        ]

    @property
    def iterations(self) -> int:
        """Iterations completed."""
        return self._done

    def train(self, on_iteration: OnIteration) -> None:
        """Run the library's loop."""
        self._on_iteration = on_iteration
        cfg, left = self._agent_cfg, self._batch.max_iterations - self._done
        if left == 0:
            return
        self._runner.current_learning_iteration = self._done  # index of the next iteration
        compiling = metered_torch_compilation(self._clock) if cfg.torch_compile_mode else contextlib.nullcontext()
        actor = self._runner.alg.actor
        try:
            with (
                recorded_calls(torch.nn.utils, "clip_grad_norm_") as self._norms,
                recorded_calls(actor, "get_kl_divergence", lambda found, *_: found.mean()) as self._divergences,
                compiling,
            ):
                self._runner.learn(left, init_at_random_ep_len=cfg.init_at_random_ep_len)
        except Stop:
            self.save()
            self._runner.logger.stop_logging_writer()

    def state(self) -> dict[str, Any]:
        """Return the algorithm's own state, the completed iterations, and the counter of a curiosity schedule."""
        alg = self._runner.alg
        schedule = {"curiosity_updates": alg.rnd.update_counter} if alg.rnd else {}
        return {**alg.save(), **schedule, "iterations": self._done}

    def begin(self, checkpoint: Path) -> None:
        """Load actor and critic; the action noise is part of the actor."""
        alg = self._runner.alg
        networks = {"actor_state_dict": alg.actor, "critic_state_dict": alg.critic}
        load_networks(networks, checkpoint, DIALECT.title)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state; the schedule's learning rate is part of the optimizer."""
        alg = self._runner.alg
        alg.load(dict(state), None, True)
        if alg.rnd:
            alg.rnd.update_counter = state["curiosity_updates"]
        self._done = state["iterations"]
        self._runner.current_learning_iteration = self._done - 1

    def averaging(self) -> GradientAveraging | None:
        """Return the algorithm's function; with curiosity, it also averages the gradient of the predictor."""
        return None if self._runner.alg.rnd else GradientAveraging(calls=[(self._runner.alg, "reduce_parameters")])

    def parts(self) -> list[Part]:
        """Return the callables of the library's loop."""
        runner, alg = self._runner, self._runner.alg
        return [
            Part(alg, "act", "act"),
            Part(self._wrapper, "step", "environment step"),
            Part(alg, "process_env_step", "store transition"),
            Part(runner.logger, "process_env_step", "statistics"),
            Part(alg, "compute_returns", "returns"),
            Part(alg, "update", "update"),
            Part(alg, "reduce_parameters", "collectives"),
            Part(alg.storage, "mini_batch_generator", "minibatch step", yields=True),
            Part(alg.storage, "recurrent_mini_batch_generator", "minibatch step", yields=True),
            Part(alg.actor, "forward", "policy forward"),
            Part(alg.critic, "forward", "value forward"),
            Part(alg.optimizer, "step", "optimizer step"),
            Part(alg.actor, "update_normalization", "policy normalizer"),
            Part(alg.critic, "update_normalization", "value normalizer"),
            Part(self, "_library_log", "log"),
        ]

    def _write(self, path: Path) -> None:
        """Save actor, critic and optimizer."""
        self._library_save(str(path))

    def _log(self, **figures: Any) -> None:
        """Let the library write its TensorBoard files, but not its table to the console."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._library_log(**figures)
        self._done = figures["it"] + 1
        if not self._on_iteration(self._done, self._figures(figures)):
            raise Stop

    def _figures(self, logged: Mapping[str, Any]) -> dict[str, float]:
        """Return the library's figures of an iteration, by the ledger's names."""
        names = {"value": "value_loss", "surrogate": "policy_loss", "entropy": "entropy"}
        figures = {ours: float(logged["loss_dict"][theirs]) for theirs, ours in names.items()}
        figures["action_std"] = float(logged["action_std"].detach().mean())
        figures["learning_rate"] = float(logged["learning_rate"])
        if (norm := largest_norm(self._norms)) is not None:
            figures["grad_norm"] = float(norm)
        if self._divergences:
            figures["kl"] = float(torch.stack(self._divergences).mean())
            self._divergences.clear()
        return figures | episode_means(self._runner.logger.rewbuffer, self._runner.logger.lenbuffer)


class RslRlAdapter(Adapter):
    """RSL-RL (rsl-rl-lib 5)."""

    dialect = DIALECT
    trainer_type = RslRlTrainer
    circumstances = ("device", "seed", "max_iterations", "save_interval", "experiment_name", "run_name", "logger")

    def prepare(
        self,
        agent_cfg: RslRlOnPolicyRunnerCfg,
        device: str,
        *,
        seed: int | None = None,
        max_iterations: int | None = None,
    ) -> RslRlOnPolicyRunnerCfg:
        """Set the requested values, and drop fields of older versions of the library."""
        if not isinstance(agent_cfg, RslRlOnPolicyRunnerCfg) or agent_cfg.class_name != "OnPolicyRunner":
            raise UserError(
                "the agent's configuration is not for RSL-RL's PPO, and only PPO is trained: choose an "
                "RslRlOnPolicyRunnerCfg with --agent"
            )
        if agent_cfg.resume:
            raise UserError(
                "agent.resume True: leave it out; to continue an earlier training, use --resume or --checkpoint"
            )
        agent_cfg.device = device
        if seed is not None:
            agent_cfg.seed = seed
        if max_iterations is not None:
            agent_cfg.max_iterations = max_iterations
        return handle_deprecated_rsl_rl_cfg(agent_cfg, importlib.metadata.version("rsl-rl-lib"))

    def refuse_activation(self, value: Any) -> str | None:  # noqa: ANN401 - any value of a configuration
        """Refuse an activation that the library does not have."""
        try:
            resolve_nn_activation(str(value))
        except ValueError as error:
            return first_line(error)
        return None

    def is_recurrent(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> bool:
        """Tell whether the actor is recurrent."""
        return getattr(resolve_class(to_dict(agent_cfg.actor))[0], "is_recurrent", False)

    def plan(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> BatchPlan:
        """Read the batch arithmetic of the on-policy runner."""
        return BatchPlan(
            max_iterations=agent_cfg.max_iterations,
            horizon=agent_cfg.num_steps_per_env,
            epochs=agent_cfg.algorithm.num_learning_epochs,
            minibatches=agent_cfg.algorithm.num_mini_batches,
            minibatch_setting=self.dialect.overrides["minibatches"],
            save_interval=agent_cfg.save_interval,
        )

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: RslRlOnPolicyRunnerCfg) -> ActingModule:
        """Load the actor of a checkpoint."""
        self.require_memoryless(agent_cfg)
        config = to_dict(agent_cfg)
        base = env.unwrapped
        observations = TensorDict(base.obs_buf, batch_size=[base.num_envs])
        groups = resolve_obs_groups(observations, config["obs_groups"], ["actor", "critic"])
        model, fields = resolve_class(config["actor"])
        with torch.random.fork_rng(devices=[]):  # drawing weights must not advance the learner's random stream
            actor = model(observations, groups, "actor", base.action_manager.total_action_dim, **fields)
        actor = actor.to(base.device)
        with loading_policy(checkpoint, DIALECT.title, base.device) as content:
            actor.load_state_dict(content["actor_state_dict"])
        actor.eval()
        limit = agent_cfg.clip_actions

        def act(groups_: Mapping[str, torch.Tensor]) -> torch.Tensor:
            count = next(iter(groups_.values())).shape[0]
            actions = actor(TensorDict(dict(groups_), batch_size=[count]))
            return actions if limit is None else actions.clamp(-limit, limit)

        return ActingModule(act, actor=actor)


ADAPTER = RslRlAdapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""


def _spare_a_pass(alg: PPO) -> None:
    """Spare an algorithm a pass through its networks.

    Args:
        alg: The algorithm, before its first step.
    """
    symmetry = alg.symmetry
    if symmetry and symmetry.use_data_augmentation and not symmetry.use_mirror_loss and _is_gaussian(alg.actor):
        symmetry.compute_loss = functools.partial(_asymmetry, symmetry)


def _is_gaussian(actor: MLPModel) -> bool:
    """Tell whether an actor is the library's own, with a normal distribution: its mean is its deterministic action."""
    return type(actor) is MLPModel and type(actor.distribution) is GaussianDistribution


def _asymmetry(symmetry: Symmetry, actor: MLPModel, batch: RolloutStorage.Batch, samples: int) -> torch.Tensor:
    """Return how far mean actions of mirrored samples are from the images of mean actions; RSL-RL only logs it.

    It is ``Symmetry.compute_loss`` without its own pass through the network: the update has just computed these means.

    Args:
        symmetry: The algorithm's extension, without a mirror loss.
        actor: The actor, after a pass of the whole batch.
        batch: Samples, followed by their mirror images.
        samples: Number of samples without their images.

    Returns:
        Mean squared difference, a scalar without a gradient.
    """
    means = actor.output_mean.detach()
    _, images = symmetry.data_augmentation_func(env=symmetry.env, obs=None, actions=means[:samples])
    return torch.nn.functional.mse_loss(means[samples:], images[samples:])


@contextlib.contextmanager
def _existing_process_group() -> Iterator[None]:
    """Make a runner use the existing process group; its own would need NCCL and one GPU per process."""

    def configure(runner: OnPolicyRunner) -> None:
        joined = torch.distributed.is_initialized()
        rank, size = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if joined else (0, 1)
        local_rank = int(os.environ["LOCAL_RANK"]) if joined else 0
        places = {"global_rank": rank, "local_rank": local_rank, "world_size": size}
        runner.gpu_world_size, runner.gpu_global_rank, runner.gpu_local_rank = size, rank, local_rank
        runner.is_distributed = joined
        runner.cfg["multi_gpu"] = places if joined else None

    with replaced(OnPolicyRunner, _configure_multi_gpu=configure):
        yield
