"""RSL-RL behind the protocol of :mod:`ledger_lab.runners.adapter`."""

from __future__ import annotations

import contextlib
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
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils import resolve_class, resolve_nn_activation, resolve_obs_groups
from tensordict import TensorDict

from ledger_lab.errors import UserError, first_line
from ledger_lab.files import whole_file
from ledger_lab.ledger import CheckpointSaved
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.meters.compilation import metered_torch_compilation
from ledger_lab.meters.probes import Part
from ledger_lab.runners.acting_module import RECURRENT_REFUSAL, ActingModule
from ledger_lab.runners.adapter import BatchPlan, OnIteration, RecordCheckpoint, Stop
from ledger_lab.runners.checkpoint_file import load_networks, loading_policy
from ledger_lab.runners.gradient_norms import largest_norm, recorded_gradient_norms
from ledger_lab.runners.rsl_rl.dialect import DIALECT

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class RslRlAdapter:
    """RSL-RL (rsl-rl-lib 5)."""

    library = "rsl_rl"
    dialect = DIALECT
    optional: Mapping[str, Any] = {}
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
            raise UserError("agent.resume True: a run trains one fresh policy, for agent.max_iterations")
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

    def require_memoryless(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> None:
        """Refuse recurrent actors."""
        model, _ = resolve_class(to_dict(agent_cfg.actor))
        if getattr(model, "is_recurrent", False):
            raise UserError(RECURRENT_REFUSAL)

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

    def seed(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> int:
        """Read the runner's seed."""
        return agent_cfg.seed

    def with_seed(self, agent_cfg: RslRlOnPolicyRunnerCfg, seed: int) -> RslRlOnPolicyRunnerCfg:
        """Set the runner's seed."""
        agent_cfg.seed = seed
        return agent_cfg

    def experiment(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> str:
        """Read the runner's experiment."""
        return agent_cfg.experiment_name

    def trainer(
        self,
        env: ManagerBasedRLEnv,
        agent_cfg: RslRlOnPolicyRunnerCfg,
        run_dir: Path,
        clock: PhaseClock,
        record: RecordCheckpoint,
    ) -> RslRlTrainer:
        """Build the on-policy runner."""
        return RslRlTrainer(env, agent_cfg, run_dir, clock, record)

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
        with loading_policy(checkpoint, DIALECT.title):
            content = torch.load(checkpoint, weights_only=True, map_location=base.device)
            actor.load_state_dict(content["actor_state_dict"])
        actor.eval()
        limit = agent_cfg.clip_actions

        def act(groups_: Mapping[str, torch.Tensor]) -> torch.Tensor:
            count = next(iter(groups_.values())).shape[0]
            actions = actor(TensorDict(dict(groups_), batch_size=[count]))
            return actions if limit is None else actions.clamp(-limit, limit)

        return ActingModule(act, actor=actor)


ADAPTER = RslRlAdapter()
"""What :func:`ledger_lab.runners.adapter.load_adapter` returns."""


class RslRlTrainer:
    """RSL-RL's own training loop with phases around its callables; no step of it is copied."""

    def __init__(
        self,
        env: ManagerBasedRLEnv,
        agent_cfg: RslRlOnPolicyRunnerCfg,
        run_dir: Path,
        clock: PhaseClock,
        record: RecordCheckpoint,
    ) -> None:
        """Build the runner, and instrument it."""
        self._agent_cfg, self._clock = agent_cfg, clock
        self._record, self._run_dir = record, run_dir
        self._done = 0
        self._saved: CheckpointSaved | None = None
        self._resumed = False
        self._wrapper = wrapper = RslRlVecEnvWrapper(env, clip_actions=agent_cfg.clip_actions)
        with _existing_process_group():
            self._runner = runner = create_rsl_rl_runner(wrapper, agent_cfg, log_dir=str(run_dir))
        runner.logger.git_status_repos = []  # the library's copy of uncommitted changes may hold secrets
        self._library_save, self._library_log = runner.save, runner.logger.log
        runner.save = self._save
        runner.logger.log = self._log
        self._divergences: list[torch.Tensor] = []
        for owner, name, phase in (
            (wrapper, "step", Phase.MANAGE),
            (env.unwrapped.sim, "step", Phase.SIMULATE),
            (runner.alg, "act", Phase.INFER),
            (runner.alg, "process_env_step", Phase.INFER),
            (runner.alg, "compute_returns", Phase.RETURNS),
            (runner.alg, "update", Phase.LEARN),
            (runner.alg, "reduce_parameters", Phase.SYNCHRONIZE),
            (runner.logger, "process_env_step", Phase.LOG),
            (runner.logger, "log", Phase.LOG),
            (runner, "save", Phase.CHECKPOINT),
        ):
            clock.instrument(owner, name, phase)

    def train(self, on_iteration: OnIteration) -> None:
        """Run the library's loop."""
        self._on_iteration = on_iteration
        cfg, left = self._agent_cfg, self._agent_cfg.max_iterations - self._done
        if left == 0:
            return
        self._runner.current_learning_iteration = self._done  # index of the next iteration
        scatter = cfg.init_at_random_ep_len and not self._resumed  # resumed episodes have their lengths
        compiling = metered_torch_compilation(self._clock) if cfg.torch_compile_mode else contextlib.nullcontext()
        try:
            with self._recorded_update(), compiling:
                self._runner.learn(left, init_at_random_ep_len=scatter)
        except Stop:
            self.save()
            self._runner.logger.stop_logging_writer()

    def save(self) -> CheckpointSaved:
        """Save under the library's own name of the iteration."""
        self._runner.save(str(self._run_dir / f"model_{self._done - 1}.pt"))
        assert self._saved is not None
        return self._saved

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
        self._done, self._resumed = state["iterations"], True
        self._runner.current_learning_iteration = self._done - 1

    def carried(self) -> list[tuple[object, list[str]]] | None:
        """Return the logger's sums and buffers; some are used only with curiosity."""
        if self._runner.alg.actor.is_recurrent or self._runner.alg.critic.is_recurrent:
            return None
        sums = "cur_reward_sum cur_ereward_sum cur_ireward_sum cur_episode_length tot_timesteps tot_time"
        return [(self._runner.logger, f"{sums} rewbuffer erewbuffer irewbuffer lenbuffer".split())]

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

    def _save(self, path: str, infos: dict[str, Any] | None = None) -> None:
        """Save a checkpoint completely or not at all.

        If the last iteration is also due by the interval, the library saves it twice; the second call does nothing.
        """
        if self._saved is not None and self._saved.iteration == self._done:
            return
        with whole_file(Path(path)) as unfinished:
            self._library_save(str(unfinished), infos)
        self._saved = self._record(Path(path), self._done)

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
        logger = self._runner.logger
        if logger.rewbuffer:
            figures["mean_return"] = sum(logger.rewbuffer) / len(logger.rewbuffer)
            figures["mean_episode_steps"] = sum(logger.lenbuffer) / len(logger.lenbuffer)
        return figures

    @contextlib.contextmanager
    def _recorded_update(self) -> Iterator[None]:
        """Record values that the update computes but does not log: gradient norms before clipping, and divergences."""
        actor = self._runner.alg.actor
        divergence = actor.get_kl_divergence

        def get_kl_divergence(*args: Any) -> torch.Tensor:  # noqa: ANN401 - passes through
            found: torch.Tensor = divergence(*args)
            self._divergences.append(found.mean())
            return found

        actor.get_kl_divergence = get_kl_divergence
        try:
            with recorded_gradient_norms() as self._norms:
                yield
        finally:
            actor.get_kl_divergence = divergence


@contextlib.contextmanager
def _existing_process_group() -> Iterator[None]:
    """Make a runner use the existing process group; its own would need NCCL and one GPU per process."""

    def configure(runner: OnPolicyRunner) -> None:
        joined = torch.distributed.is_initialized()
        rank = torch.distributed.get_rank() if joined else 0
        runner.gpu_world_size = torch.distributed.get_world_size() if joined else 1
        runner.gpu_global_rank, runner.gpu_local_rank = rank, int(os.environ["LOCAL_RANK"]) if joined else 0
        runner.is_distributed = joined
        places = {"global_rank": rank, "local_rank": runner.gpu_local_rank, "world_size": runner.gpu_world_size}
        runner.cfg["multi_gpu"] = places if joined else None

    own = OnPolicyRunner._configure_multi_gpu
    OnPolicyRunner._configure_multi_gpu = configure
    try:
        yield
    finally:
        OnPolicyRunner._configure_multi_gpu = own
