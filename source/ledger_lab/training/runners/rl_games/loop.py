"""What the training loops of all algorithms of rl_games share."""

from __future__ import annotations

import contextlib
import math
from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
from isaaclab.utils.seed import configure_seed
from isaaclab_rl.rl_games import RlGamesVecEnvWrapper
from rl_games.common.algo_observer import IsaacAlgoObserver
from rl_games.torch_runner import Runner

from ledger_lab.training.runners.adapter import OnIteration, Stop, Trainer
from ledger_lab.training.runners.recorded_calls import largest_norm


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

    @property
    def iterations(self) -> int:
        """Iterations completed."""
        done: int = self._algo.epoch_num
        return done

    def _run(self, on_iteration: OnIteration) -> None:
        """Run the library's loop.

        Args:
            on_iteration: Called after each iteration; ends the training if it returns ``False``.
        """
        self._on_iteration = on_iteration
        try:
            self._runner.run({"train": True})
        except Stop:
            self.save()
        finally:
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
        done, trained = self._algo.epoch_num, self._trained
        continuing = trained is None or self._on_iteration(done, self._figures(trained))
        if not continuing or done >= self._batch.max_iterations:
            raise Stop
        if trained is not None and done % self._batch.save_interval == 0:
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
