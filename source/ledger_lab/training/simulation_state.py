"""The state of a simulation that a resumed training continues from.

With MuJoCo-Warp on the CPU, training continues bit for bit: everything that the next step depends on is restored. Other
physics engines do not expose their state, so only values that outlast an episode are restored: counters, changes by a
curriculum, terrain levels. Training then continues with fresh episodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.panels.view import TrainingView
from ledger_lab.physics import physics_name

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg

    from ledger_lab.training.capture import Place

_SOLVER = frozenset(
    {
        *("time", "qpos", "qvel", "act", "history", "qacc_warmstart"),
        *("ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat", "userdata"),
        *("tree_asleep", "tree_awake", "body_awake", "body_awake_ind", "dof_awake_ind"),
        *("ntree_awake", "nbody_awake", "nv_awake"),
    }
)
"""MuJoCo's integration state, as its documentation calls it: the inputs of a step. Each step recomputes all other
arrays."""

_COUNTERS = ("common_step_counter", "_sim_step_counter", "episode_length_buf")
_MANAGERS = ("command", "event", "curriculum", "reward", "termination", "action", "observation")
_TERRAIN = ("terrain_levels", "terrain_types", "env_origins")


class SimulationState(Protocol):
    """Saves and restores the state of a simulation."""

    inexact: str | None
    """Why a resumed training does not equal an uninterrupted training bit for bit; ``None`` if it does."""

    def take(self) -> dict[str, Any]:
        """Return the state between two steps, as plain values and tensors."""

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Restore a state into a freshly built simulation.

        Args:
            state: The result of :meth:`take` from a simulation that was built the same way.

        Returns:
            What could not be restored; ``None`` if everything was. Call :meth:`begin_fresh` in all processes if any of
            them could not restore everything, or if the state is inexact.
        """

    def begin_fresh(self) -> None:
        """Begin fresh episodes; keep the restored values that outlast episodes."""


def simulation_state(
    env: ManagerBasedRLEnv,
    view: TrainingView | None,
    slots: HeldOutSlots | None,
    loop: Sequence[tuple[object, Sequence[str]]] | None,
) -> SimulationState:
    """Return the object that saves and restores a simulation's state. Call it before the first training step.

    Args:
        env: The environment, as ``gym.make`` returns it.
        view: The learner's view of the environment; ``None`` if it sees all slots.
        slots: The attached held-out slots, if there are any.
        loop: State carried by the training loop, see :meth:`ledger_lab.runners.adapter.Trainer.carried`.
    """
    why = why_inexact(env.unwrapped.cfg, continues_episodes=loop is not None)
    return _Whole(env, view, slots, loop or ()) if why is None else _Outlasting(env, view, why)


def why_inexact(cfg: ManagerBasedRLEnvCfg, *, continues_episodes: bool) -> str | None:
    """Return why a resumed training does not equal an uninterrupted training bit for bit; ``None`` if it does.

    Args:
        cfg: The environment's configuration.
        continues_episodes: Whether the training loop can continue in the middle of episodes.
    """
    physics = physics_name(cfg)
    if not continues_episodes:
        return "the networks have a memory of their episodes"
    if cfg.sim.device != "cpu":
        return "on GPUs, only values that outlast an episode are saved"
    if physics != "newton/mjwarp":
        return f"{physics} does not expose its state"
    if cfg.sim.physics.solver_cfg.use_mujoco_cpu:
        return "MuJoCo, which replaces MuJoCo-Warp here, does not expose its state"
    return None


class _Whole:
    """Everything that the next step depends on."""

    inexact: str | None = None

    def __init__(
        self,
        env: ManagerBasedRLEnv,
        view: TrainingView | None,
        slots: HeldOutSlots | None,
        loop: Sequence[tuple[object, Sequence[str]]],
    ) -> None:
        """Remember all values right after construction."""
        from isaaclab.physics import PhysicsManager
        from isaaclab_newton.physics import NewtonManager
        from isaaclab_newton.physics.mjwarp_manager import NewtonMJWarpManager
        from mujoco_warp import Data
        from newton import ModelBuilder

        from ledger_lab.training.capture import Capture

        self._env, self._view, self._slots = env, view, slots
        physics = {kind.__name__: kind for kind in (PhysicsManager, NewtonManager, NewtonMJWarpManager)}
        carriers = {f"loop{number}": carrier for number, (carrier, _) in enumerate(loop)}
        only: dict[type, frozenset[str]] = {type(carrier): frozenset(names) for carrier, names in loop}
        model = NewtonManager.backend.model
        # Skip its tables of pairs and labels: they are longer than everything else, and never change.
        short = (name for name, value in vars(model).items() if not isinstance(value, (dict, list, set, tuple)))
        only |= {Data: _SOLVER, type(model): frozenset(short), ModelBuilder: frozenset()}
        if slots is not None:
            only[HeldOutSlots] = frozenset(vars(slots)) - {"_policies"}  # the judge loads them again
        self._capture = Capture({"env": env.unwrapped, "slots": slots, **carriers, **physics}, only=only)
        self._capture.begin()

    def take(self) -> dict[str, Any]:
        """Copy every value that has changed since construction."""
        return {"places": self._capture.take(), "streams": GlobalStreams().to_data()}

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Restore the changed values; all others are as constructed."""
        built, base = self._capture.take_all(), self._env.unwrapped
        with torch.no_grad():  # not inference mode: tensors made there can't be written outside it
            # A step creates some values; they must exist before they can be restored.
            stepped, slots = (base, base.num_envs) if self._view is None else (self._view, self._view.num_envs)
            stepped.step(torch.zeros(slots, base.action_manager.total_action_dim, device=base.device))
            missed = self._capture.put({**built, **state["places"]})
        GlobalStreams.from_data(state["streams"]).restore()
        return _describe(missed)

    def begin_fresh(self) -> None:
        """End the restored episodes."""
        if self._slots is not None:
            self._slots.abandon()
        _begin_episodes(self._env, self._view)


class _Outlasting:
    """Saves and restores only values that outlast an episode."""

    def __init__(self, env: ManagerBasedRLEnv, view: TrainingView | None, inexact: str) -> None:
        """Remember the environment's values right after construction."""
        from ledger_lab.training.capture import Capture

        self.inexact: str | None = inexact
        self._env, self._view = env, view
        base = env.unwrapped
        scene, terrain = base.scene, base.scene.terrain
        entities = [each for name in scene.keys() if (each := scene[name]) is not terrain]  # noqa: SIM118 - no dict
        only = {
            type(base): frozenset({*_COUNTERS, "scene", *(f"{name}_manager" for name in _MANAGERS)}),
            type(scene): frozenset({"_terrain"}),
            type(terrain): frozenset(_TERRAIN),
        }
        self._capture = Capture({"env": base}, closed=[base.sim, *entities], only=only)
        self._capture.begin()

    def take(self) -> dict[str, Any]:
        """Copy counters, changes by a curriculum, and terrain levels."""
        places = self._capture.take(_outlasts)
        places["env", "episode_length_buf"] = self._env.unwrapped.episode_length_buf.cpu().clone()
        return {"places": places, "streams": GlobalStreams().to_data()}

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Restore counters, changes by a curriculum, and terrain levels."""
        missed = self._capture.put(state["places"])
        GlobalStreams.from_data(state["streams"]).restore()
        return _describe(missed)

    def begin_fresh(self) -> None:
        """Begin fresh episodes."""
        _begin_episodes(self._env, self._view)


def _outlasts(place: Place, value: Any) -> bool:  # noqa: ANN401 - a leaf
    """Tell whether a value of a manager or the terrain outlasts an episode."""
    if not isinstance(value, torch.Tensor):
        return True
    return place[0].startswith(("env.curriculum_manager", "env.scene"))


def _begin_episodes(env: ManagerBasedRLEnv, view: TrainingView | None) -> None:
    """Reset an environment without a curriculum update; training slots keep the ages of their episodes.

    The ages spread time-outs over time; with all ages at zero, all episodes would time out together.
    """
    base = env.unwrapped
    seen = base if view is None else view
    ages = base.episode_length_buf[: seen.num_envs].clone()
    with torch.no_grad(), _curriculum_paused(base.curriculum_manager):
        (env if view is None else view).reset()
    seen.episode_length_buf = ages


@contextmanager
def _curriculum_paused(curriculum: Any) -> Iterator[None]:  # noqa: ANN401 - Isaac Lab's manager
    """Keep a curriculum from evaluating unfinished episodes."""
    compute = curriculum.compute
    curriculum.compute = lambda env_ids=None: None
    try:
        yield
    finally:
        curriculum.compute = compute


def _describe(missed: Sequence[Place]) -> str | None:
    """Describe briefly what could not be restored; ``None`` if everything was."""
    if not missed:
        return None
    path, name = missed[0]
    return f"{path}.{name} could not be restored" + (f", nor {len(missed) - 1} more" if missed[1:] else "")
