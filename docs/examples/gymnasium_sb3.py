"""A trainer that is none of LedgerLab's, in its ledger: Stable-Baselines3 on Gymnasium's CartPole, without Isaac Lab.

    ./isaaclab.sh -p docs/examples/gymnasium_sb3.py
    ./isaaclab.sh -p scripts/report.py

The lines that record it are those with ``run`` in them, and ``PANEL``. The rest is an ordinary training script.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from cartpole_panel import PANEL, TARGET, TASK, take
from command_line import parse, score_text
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from ledger_lab.ledger import Outcomes
from ledger_lab.training.recording import RecordedRun, record_run

NUM_ENVS, HORIZON = 8, 256


class Recorder(BaseCallback):
    """Tells the ledger what Stable-Baselines3 does, and judges a policy now and then."""

    def __init__(self, run: RecordedRun, eval_every: int) -> None:
        """Take the run.

        Args:
            run: The run.
            eval_every: Iterations between two judged policies.
        """
        super().__init__()
        self._run, self._eval_every, self._iteration = run, eval_every, 0

    def _on_training_start(self) -> None:
        """Let each second of the training count for its phase; nested calls count for the inner phase."""
        self._run.instrument(self.training_env, "step", "simulate")
        self._run.instrument(self.model, "collect_rollouts", "infer")
        self._run.instrument(self.model, "train", "learn")

    def _on_step(self) -> bool:
        """Go on until the target is reached."""
        return not self._run.target_reached

    def _on_rollout_start(self) -> None:
        """An iteration is over when the next rollout starts."""
        self.finish_iteration()

    def finish_iteration(self) -> None:
        """Record the iteration that is over, if one is."""
        iteration = self.num_timesteps // (NUM_ENVS * HORIZON)
        if iteration == self._iteration:
            return
        self._iteration = iteration
        returns = [episode["r"] for episode in self.model.ep_info_buffer]
        figures = {"mean_return": float(np.mean(returns))} if returns else {}
        self._run.iteration(self._iteration, env_steps=self.num_timesteps, figures=figures)
        if self._iteration % self._eval_every == 0:
            self._judge()

    def _judge(self) -> None:
        """Save the policy, and score it on held-out episodes."""
        path = self._run.directory / f"model_{self._iteration}.zip"
        with self._run.phase("checkpoint"):
            self.model.save(path)
        saved = self._run.checkpoint(path)
        for result in self._run.judge(saved, self._take):
            print(f"iteration {self._iteration}: {score_text(result)}")

    def _take(self, seeds: Sequence[int]) -> Outcomes:
        """Play one held-out episode per seed, with the most probable actions."""
        return take(lambda states: self.model.predict(states, deterministic=True)[0], seeds)


def main() -> None:
    """Train until a policy is proven to reach the target."""
    args = parse("Train CartPole with Stable-Baselines3, and record it in the ledger.", max_iterations=60, eval_every=5)
    torch.set_num_threads(1)  # a network this small is slower on more
    agent = {"n_steps": HORIZON, "batch_size": 256, "n_epochs": 10, "learning_rate": 1e-3, "gamma": 0.98}
    with record_run(
        task=TASK,
        library="stable_baselines3",
        panel=PANEL,
        target_success=TARGET,
        seed=args.seed,
        device="cpu",
        num_envs=NUM_ENVS,
        horizon=HORIZON,
        max_iterations=args.max_iterations,
        epochs=10,
        minibatches=NUM_ENVS * HORIZON // 256,
        physics="gymnasium",
        usd_per_hour=args.usd_per_hour,
        packages=("gymnasium", "stable-baselines3"),
        config=agent,
        log_root=args.log_root,
    ) as run:
        model = PPO("MlpPolicy", make_vec_env(TASK, NUM_ENVS, args.seed), seed=args.seed, device="cpu", **agent)
        recorder = Recorder(run, args.eval_every)
        model.learn(args.max_iterations * NUM_ENVS * HORIZON, callback=recorder)
        if not run.target_reached:
            recorder.finish_iteration()


if __name__ == "__main__":
    main()
