"""RSL-RL behind the protocol of :mod:`ledger_lab.training.runners.adapter`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import math
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
from ledger_lab.ledger.meters.compilation import metered_torch_compilation
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.training.runners.adapter import Adapter, BatchPlan, Step, Trainer
from ledger_lab.training.runners.checkpoint_file import ActingModule, load_networks, loading_policy
from ledger_lab.training.runners.collectives import GradientAveraging
from ledger_lab.training.runners.recorded_calls import episode_means, largest_norm, recorded_calls, replaced
from ledger_lab.training.runners.rsl_rl.dialect import DIALECT

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class RslRlTrainer(Trainer):
    """RSL-RL's own training loop."""

    def _build(self) -> list[Step]:
        """Build the runner."""
        self._wrapper = wrapper = RslRlVecEnvWrapper(self._env, clip_actions=self._agent_cfg.clip_actions)
        with _existing_process_group():
            self._runner = runner = create_rsl_rl_runner(wrapper, self._agent_cfg, log_dir=str(self._run_dir))
        runner.logger.git_status_repos = []  # the library's copy of uncommitted changes may hold secrets
        symmetry = runner.alg.symmetry
        if symmetry and symmetry.use_data_augmentation and not symmetry.use_mirror_loss:
            # Only a figure in TensorBoard, for which the library would pass the whole batch through the network again.
            symmetry.compute_loss = lambda *_: torch.tensor(math.nan)
        self._library_save, self._library_log = runner.save, runner.logger.log
        runner.save = lambda *_: self.save()
        runner.logger.log = self._log
        alg, logger = runner.alg, runner.logger
        return [
            Step(alg, "act", Phase.INFER, "act"),
            Step(wrapper, "step", Phase.MANAGE, "environment step"),
            Step(alg, "process_env_step", Phase.INFER, "store transition"),
            Step(logger, "process_env_step", Phase.LOG, "statistics"),
            Step(alg, "compute_returns", Phase.RETURNS, "returns"),
            Step(alg, "update", Phase.LEARN, "update"),
            Step(alg, "reduce_parameters", Phase.SYNCHRONIZE, "collectives"),
            Step(alg.storage, "mini_batch_generator", title="minibatch step", yields=True),
            Step(alg.storage, "recurrent_mini_batch_generator", title="minibatch step", yields=True),
            Step(alg.actor, "forward", title="policy forward"),
            Step(alg.critic, "forward", title="value forward"),
            Step(alg.optimizer, "step", title="optimizer step"),
            Step(alg.actor, "update_normalization", title="policy normalizer"),
            Step(alg.critic, "update_normalization", title="value normalizer"),
            Step(logger, "log", Phase.LOG),
            Step(self, "_library_log", title="log"),
        ]

    def _run(self) -> None:
        """Run the library's loop."""
        cfg, runner = self._agent_cfg, self._runner
        runner.current_learning_iteration = self.iterations  # index of the next iteration
        compiling = metered_torch_compilation(self._clock) if cfg.torch_compile_mode else contextlib.nullcontext()
        with (
            recorded_calls(torch.nn.utils, "clip_grad_norm_") as self._norms,
            recorded_calls(runner.alg.actor, "get_kl_divergence", lambda found, *_: found.mean()) as self._divergences,
            compiling,
        ):
            left = self._batch.max_iterations - self.iterations
            runner.learn(left, init_at_random_ep_len=cfg.init_at_random_ep_len)

    def _close(self) -> None:
        """Close the library's writer."""
        self._runner.logger.stop_logging_writer()

    def state(self) -> dict[str, Any]:
        """Return the algorithm's own state, the completed iterations, and the counter of a curiosity schedule."""
        alg = self._runner.alg
        schedule = {"curiosity_updates": alg.rnd.update_counter} if alg.rnd else {}
        return {**alg.save(), **schedule, "iterations": self.iterations}

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
        self.iterations = state["iterations"]
        self._runner.current_learning_iteration = self.iterations - 1

    def averaging(self) -> GradientAveraging | None:
        """Return the algorithm's function; with curiosity, it also averages the gradient of the predictor."""
        return None if self._runner.alg.rnd else GradientAveraging(calls=[(self._runner.alg, "reduce_parameters")])

    def _write(self, path: Path) -> None:
        """Save actor, critic and optimizer."""
        self._library_save(str(path))

    def _log(self, **figures: Any) -> None:
        """Let the library write its TensorBoard files, but not its table to the console."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._library_log(**figures)
        self._report(figures["it"] + 1, self._figures(figures))

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

    def _adapt(self, agent_cfg: RslRlOnPolicyRunnerCfg, device: str) -> RslRlOnPolicyRunnerCfg:
        """Set the device, and drop fields of older versions of the library."""
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
        return handle_deprecated_rsl_rl_cfg(agent_cfg, importlib.metadata.version("rsl-rl-lib"))

    def refuse_activation(self, value: Any) -> str | None:  # noqa: ANN401 - any value of a configuration
        """Refuse an activation that the library does not have."""
        try:
            resolve_nn_activation(str(value))
        except ValueError as error:
            return first_line(error)
        return None

    def symmetry(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> str | None:
        """Return the group of settings for mirrored samples, if the agent learns from them."""
        learns = agent_cfg.algorithm.symmetry_cfg
        used = learns and (learns.use_data_augmentation or learns.use_mirror_loss)
        return "agent.algorithm.symmetry_cfg" if used else None

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

        def act(seen: Mapping[str, torch.Tensor]) -> torch.Tensor:
            count = next(iter(seen.values())).shape[0]
            actions = actor(TensorDict(dict(seen), batch_size=[count]))
            return actions if limit is None else actions.clamp(-limit, limit)

        if not getattr(actor, "is_recurrent", False):
            return ActingModule(act, actor=actor)

        def remember(seen: Mapping[str, torch.Tensor], *memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
            actor.reset(hidden_state=memory if len(memory) > 1 else memory[0] if memory else None)
            actions, after = act(seen), actor.get_hidden_state()
            actor.reset()
            return (actions, *(after if isinstance(after, tuple) else (after,)))

        with torch.no_grad():
            _, *after = remember(observations[:1])
        return ActingModule(remember, [(each.shape[0], each.shape[2]) for each in after], actor=actor)


ADAPTER = RslRlAdapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""


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
