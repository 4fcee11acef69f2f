"""Brax in LedgerLab's ledger: PPO in JAX on the inverted pendulum, simulated by MuJoCo's MJX, without Isaac Lab.

Brax has an environment of its own:

    ./isaaclab.sh -p -m venv --without-pip .venv-trainers
    ./isaaclab.sh -p -m uv pip sync --python .venv-trainers/bin/python --require-hashes tools/requirements/trainers.lock
    PYTHONPATH=source .venv-trainers/bin/python docs/examples/brax_mjx.py
    ./isaaclab.sh -p scripts/report.py

Brax compiles simulation and learning into one program, whose parts can't be timed from outside. So the report shows
the time of its iterations as ``unattributed``. The first iteration contains the compilation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from brax import envs
from brax.training.agents.ppo import train as ppo
from command_line import parse, score_text
from jax import numpy as jnp

from ledger_lab.ledger import Outcomes
from ledger_lab.training.recording import RecordedPanel, RecordedRun, record_run

Arrays = Any
"""A tree of arrays."""
PolicyMaker = Callable[..., Callable[[jax.Array, jax.Array], tuple[jax.Array, Arrays]]]
"""Makes a policy from parameters."""
TASK, EPISODES, TARGET = "inverted_pendulum", 128, 0.9
EPISODE_STEPS = 500
NUM_ENVS, HORIZON, EPOCHS, MINIBATCHES = 256, 20, 8, 8
PANEL = RecordedPanel(
    name="brax_inverted_pendulum",
    seeds=range(1_000_000, 1_000_000 + EPISODES),  # training draws its episodes from a key of its own
    definition={
        "environment": TASK,
        "physics": "mjx",
        **{name: version(name) for name in ("brax", "mujoco-mjx", "jax")},
        "success": f"{EPISODE_STEPS} steps without falling",
        "policy_mode": "deterministic",
    },
)


class _TargetReached(Exception):  # noqa: N818 - not an error
    """Brax ends a training early only by an exception."""


class HeldOutEpisodes:
    """Plays held-out episodes. Compiles them once for each number of episodes."""

    def __init__(self, env: envs.Env) -> None:
        """Take the environment.

        Args:
            env: One environment, without Brax's wrappers.
        """
        self._env = env
        self._play: Callable[..., tuple[jax.Array, jax.Array]] | None = None

    def take(self, make_policy: PolicyMaker, parameters: Arrays, seeds: Sequence[int]) -> Outcomes:
        """Let a policy play one held-out episode per seed.

        Args:
            make_policy: Brax's function that makes a policy from parameters; the same one in all calls.
            parameters: Those of the policy.
            seeds: Each fixes the start of its episode.
        """
        if self._play is None:
            self._play = jax.jit(jax.vmap(lambda values, seed: self._episode(make_policy, values, seed), (None, 0)))
        observations, falls = map(np.asarray, self._play(parameters, jnp.asarray(seeds, dtype=jnp.uint32)))
        fallen = falls.any(axis=1)
        steps = np.where(fallen, falls.argmax(axis=1) + 1, EPISODE_STEPS)
        lasted = [not each for each in fallen.tolist()]
        return Outcomes(
            cell=["nominal"] * len(seeds),
            seed=list(seeds),
            success=lasted,
            success_any=lasted,
            steps=steps.tolist(),
            episode_return=[float(count) for count in steps],  # the pendulum pays 1 per step
            ended_by=["horizon" if success else "terminated" for success in lasted],
            fingerprint=[
                hashlib.sha256(seen[: count + 1].tobytes()).hexdigest()[:16]
                for seen, count in zip(observations, steps, strict=True)
            ],
        )

    def _episode(self, make_policy: PolicyMaker, parameters: Arrays, seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the observations of an episode, the first one included, and in which of its steps it had fallen."""
        policy, key = make_policy(parameters, deterministic=True), jax.random.PRNGKey(seed)

        def step(state: envs.State, _: None) -> tuple[envs.State, tuple[jax.Array, jax.Array]]:
            state = self._env.step(state, policy(state.obs, key)[0])
            return state, (state.obs, state.done > 0)

        first = self._env.reset(key)
        _, (seen, falls) = jax.lax.scan(step, first, length=EPISODE_STEPS)
        return jnp.concatenate([first.obs[None], seen]), falls


class Recorder:
    """Tells the ledger what Brax does, and judges the policy after each of its epochs."""

    def __init__(self, run: RecordedRun, held_out: HeldOutEpisodes) -> None:
        """Take the run.

        Args:
            run: The run.
            held_out: Plays the held-out episodes.
        """
        self._run, self._held_out = run, held_out

    def __call__(self, env_steps: int, make_policy: PolicyMaker, parameters: Arrays) -> None:
        """Record an epoch. Brax calls this before the training, too.

        Args:
            env_steps: Environment steps so far.
            make_policy: Makes a policy from parameters.
            parameters: Those of the normalizer, the policy and the value function.

        Raises:
            _TargetReached: If the target is proven.
        """
        if env_steps == 0:
            return
        iteration = env_steps // (NUM_ENVS * HORIZON)
        self._run.iteration(iteration, env_steps=env_steps)
        path = self._run.directory / f"model_{iteration}.npz"
        with self._run.phase("checkpoint"):
            np.savez(path, *map(np.asarray, jax.tree.leaves(parameters)))
        results = self._run.judge(
            self._run.checkpoint(path), lambda seeds: self._held_out.take(make_policy, parameters, seeds)
        )
        for result in results:
            print(f"iteration {iteration}: {score_text(result)}")
        if self._run.target_reached:
            raise _TargetReached


def main() -> None:
    """Train until a policy is proven to reach the target."""
    args = parse("Train a pendulum with Brax, and record it in the ledger.", max_iterations=120, eval_every=10)
    agent = {
        "unroll_length": HORIZON,
        "batch_size": NUM_ENVS // MINIBATCHES,
        "num_minibatches": MINIBATCHES,
        "num_updates_per_batch": EPOCHS,
        "learning_rate": 1e-3,
        "entropy_cost": 1e-3,
        "discounting": 0.97,
        "normalize_observations": True,
    }
    epochs = -(-args.max_iterations // args.eval_every)
    with record_run(
        task=TASK,
        library="brax",
        panel=PANEL,
        target_success=TARGET,
        seed=args.seed,
        device=jax.devices()[0].platform,
        num_envs=NUM_ENVS,
        horizon=HORIZON,
        max_iterations=epochs * args.eval_every,
        epochs=EPOCHS,
        minibatches=MINIBATCHES,
        physics="mjx",
        usd_per_hour=args.usd_per_hour,
        packages=("brax", "mujoco-mjx", "jax", "jaxlib"),
        config=agent,
        log_root=args.log_root,
    ) as run:
        env = envs.get_environment(TASK, backend="mjx")
        try:
            ppo.train(
                environment=env,
                num_timesteps=epochs * args.eval_every * NUM_ENVS * HORIZON,
                episode_length=EPISODE_STEPS,
                num_envs=NUM_ENVS,
                num_evals=epochs + 1,
                run_evals=False,  # the ledger's panel takes their place
                seed=args.seed,
                policy_params_fn=Recorder(run, HeldOutEpisodes(env)),
                **agent,
            )
        except _TargetReached:
            print("the target is reached")


if __name__ == "__main__":
    main()
