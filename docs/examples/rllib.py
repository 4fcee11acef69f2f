"""Ray's RLlib in LedgerLab's ledger: PPO on Gymnasium's CartPole, without Isaac Lab.

RLlib has an environment of its own, because Isaac Lab and Ray need different versions of ``packaging``:

    ./isaaclab.sh -p -m venv --without-pip .venv-trainers
    ./isaaclab.sh -p -m uv pip sync --python .venv-trainers/bin/python --require-hashes tools/requirements/trainers.lock
    PYTHONPATH=source .venv-trainers/bin/python docs/examples/rllib.py
    ./isaaclab.sh -p scripts/report.py

The training runs in this process. Ray also starts processes that listen on the network. They refuse connections without
the token in ``~/.ray/auth_token``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from cartpole_panel import PANEL, TARGET, TASK, take
from command_line import parse, score_text
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns

from ledger_lab.ledger import Outcomes
from ledger_lab.training.recording import record_run

NUM_ENVS, HORIZON, EPOCHS, MINIBATCH = 8, 256, 10, 256


def main() -> None:
    """Train until a policy is proven to reach the target."""
    args = parse("Train CartPole with RLlib, and record it in the ledger.", max_iterations=60, eval_every=5)
    torch.set_num_threads(1)  # a network this small is slower on more
    agent = {
        "train_batch_size_per_learner": NUM_ENVS * HORIZON,
        "minibatch_size": MINIBATCH,
        "num_epochs": EPOCHS,
        "lr": 1e-3,
        "gamma": 0.98,
        "lambda_": 0.95,
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.0,
        "grad_clip": 0.5,
    }
    with record_run(
        task=TASK,
        library="rllib",
        panel=PANEL,
        target_success=TARGET,
        seed=args.seed,
        device="cpu",
        num_envs=NUM_ENVS,
        horizon=HORIZON,
        max_iterations=args.max_iterations,
        epochs=EPOCHS,
        minibatches=NUM_ENVS * HORIZON // MINIBATCH,
        physics="gymnasium",
        usd_per_hour=args.usd_per_hour,
        packages=("gymnasium", "ray"),
        config=agent,
        log_root=args.log_root,
    ) as run:
        algorithm = (
            PPOConfig()
            .environment(TASK)
            .env_runners(num_env_runners=0, num_envs_per_env_runner=NUM_ENVS)
            .learners(num_learners=0)
            .training(**agent)
            .debugging(seed=args.seed, log_level="ERROR")
            .build_algo()
        )

        def act(states: Any) -> Any:  # noqa: ANN401 - arrays
            """Return the most probable action in each state."""
            with torch.no_grad():
                answer = algorithm.get_module().forward_inference({Columns.OBS: torch.as_tensor(states)})
            return answer[Columns.ACTION_DIST_INPUTS].argmax(dim=-1).numpy()

        def play(seeds: Sequence[int]) -> Outcomes:
            """Play one held-out episode per seed."""
            return take(act, seeds)

        # Each second of the training counts for its phase; nested calls count for the inner phase.
        run.instrument(algorithm.env_runner.env, "step", "simulate")
        run.instrument(algorithm.env_runner, "sample", "infer")
        run.instrument(algorithm.learner_group, "update", "learn")
        for iteration in range(1, args.max_iterations + 1):
            result = algorithm.train()
            returned = result["env_runners"].get("episode_return_mean", np.nan)
            figures = {} if np.isnan(returned) else {"mean_return": float(returned)}
            env_steps = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
            run.iteration(iteration, env_steps=env_steps, figures=figures)
            if iteration % args.eval_every == 0:
                path = run.directory / f"model_{iteration}.pt"
                with run.phase("checkpoint"):
                    torch.save(algorithm.get_module().state_dict(), path)
                for score in run.judge(run.checkpoint(path), play):
                    print(f"iteration {iteration}: {score_text(score)}")
            if run.target_reached:
                break
        algorithm.stop()


if __name__ == "__main__":
    main()
