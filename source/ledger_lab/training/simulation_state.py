"""What a simulation goes on from when its process has ended in between.

MuJoCo-Warp on the CPU goes on bit for bit: everything that its next step depends on is put back. Of other physics
engines only what outlasts an episode is known from outside: counters, what a curriculum has changed, terrain levels.
There, training goes on with fresh episodes.
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
"""Of MuJoCo's data, what a step begins with: its documentation calls it the integration state. All other arrays are
computed anew by each step."""

_COUNTERS = ("common_step_counter", "_sim_step_counter", "episode_length_buf")
_MANAGERS = ("command", "event", "curriculum", "reward", "termination", "action", "observation")
_TERRAIN = ("terrain_levels", "terrain_types", "env_origins")


class SimulationState(Protocol):
    """Takes what a simulation goes on from, and puts it back."""

    inexact: str | None
    """Why a training that goes on is not, bit for bit, one that was never interrupted; ``None`` if it is."""

    def take(self) -> dict[str, Any]:
        """Return what the simulation goes on from, as plain values and tensors; between two steps."""

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Let a freshly built simulation go on from a state.

        Args:
            state: What :meth:`take` returned, of a simulation that was built alike.

        Returns:
            What could not be put back; ``None`` if everything was that was taken. Unless that was in all processes of
            a training, and is all that the next step depends on, :meth:`begin_anew` is to be called in all of them.
        """

    def begin_anew(self) -> None:
        """Begin fresh episodes, with what outlasts them as it was put back."""


def simulation_state(
    env: ManagerBasedRLEnv,
    view: TrainingView | None,
    slots: HeldOutSlots | None,
    loop: Sequence[tuple[object, Sequence[str]]] | None,
) -> SimulationState:
    """Return what takes and puts back the state of a simulation. To be called before the first step is trained.

    Args:
        env: The environment, as ``gym.make`` returns it.
        view: What the learner sees of it; ``None`` if that is all.
        slots: Its held-out slots, attached, where there are any.
        loop: What the training loop carries along, see :meth:`ledger_lab.runners.adapter.Trainer.carried`.
    """
    why = why_inexact(env.unwrapped.cfg, goes_on=loop is not None)
    return _Whole(env, view, slots, loop or ()) if why is None else _Outlasting(env, view, why)


def why_inexact(cfg: ManagerBasedRLEnvCfg, *, goes_on: bool) -> str | None:
    """Return why a training that is resumed is not, bit for bit, one that was never interrupted; ``None`` if it is.

    Args:
        cfg: The environment's configuration.
        goes_on: Whether the training loop can go on in the middle of episodes.
    """
    physics = physics_name(cfg)
    if not goes_on:
        return "networks remember what they saw in their episodes"
    if cfg.sim.device != "cpu":
        return "on GPUs only what outlasts an episode is saved"
    if physics != "newton/mjwarp":
        return f"{physics} keeps its state to itself"
    if cfg.sim.physics.solver_cfg.use_mujoco_cpu:
        return "MuJoCo, which steps in place of MuJoCo-Warp, keeps its state to itself"
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
        """Remember how everything was built."""
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
        # Its tables of pairs and labels are longer than all else, and as the builder made them.
        short = (name for name, value in vars(model).items() if not isinstance(value, (dict, list, set, tuple)))
        only |= {Data: _SOLVER, type(model): frozenset(short), ModelBuilder: frozenset()}
        if slots is not None:
            only[HeldOutSlots] = frozenset(vars(slots)) - {"_policies"}  # the judge loads them again
        self._capture = Capture({"env": env.unwrapped, "slots": slots, **carriers, **physics}, only=only)
        self._capture.begin()

    def take(self) -> dict[str, Any]:
        """Copy everything that has changed since it was built."""
        return {"places": self._capture.take(), "streams": GlobalStreams().to_data()}

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Put back what had changed; everything else is as it was built."""
        built, base = self._capture.take_all(), self._env.unwrapped
        with torch.no_grad():  # not in inference mode: tensors that are made there can't be written elsewhere
            # What steps create has to be there before it can be what it was.
            stepped, slots = (base, base.num_envs) if self._view is None else (self._view, self._view.num_envs)
            stepped.step(torch.zeros(slots, base.action_manager.total_action_dim, device=base.device))
            missed = self._capture.put({**built, **state["places"]})
        GlobalStreams.from_data(state["streams"]).restore()
        return _told(missed)

    def begin_anew(self) -> None:
        """Give up the episodes that were put back."""
        if self._slots is not None:
            self._slots.abandon()
        _begin_episodes(self._env, self._view)


class _Outlasting:
    """What outlasts an episode."""

    def __init__(self, env: ManagerBasedRLEnv, view: TrainingView | None, inexact: str) -> None:
        """Remember how the environment was built."""
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
        """Copy counters, what a curriculum has changed, and where on the terrain everybody is."""
        places = self._capture.take(_outlasts)
        places["env", "episode_length_buf"] = self._env.unwrapped.episode_length_buf.cpu().clone()
        return {"places": places, "streams": GlobalStreams().to_data()}

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Put it back."""
        missed = self._capture.put(state["places"])
        GlobalStreams.from_data(state["streams"]).restore()
        return _told(missed)

    def begin_anew(self) -> None:
        """Begin fresh episodes."""
        _begin_episodes(self._env, self._view)


def _outlasts(place: Place, value: Any) -> bool:  # noqa: ANN401 - a leaf
    """Tell whether a value of a manager, or of the terrain, means something beyond an episode."""
    if not isinstance(value, torch.Tensor):
        return True
    return place[0].startswith(("env.curriculum_manager", "env.scene"))


def _begin_episodes(env: ManagerBasedRLEnv, view: TrainingView | None) -> None:
    """Reset an environment without its curriculum noticing; training slots keep the ages of their episodes.

    Ages keep time-outs spread as they were; with all of them at zero, all episodes would end at once.
    """
    base = env.unwrapped
    seen = base if view is None else view
    ages = base.episode_length_buf[: seen.num_envs].clone()
    with torch.no_grad(), _unnoticed(base.curriculum_manager):
        (env if view is None else view).reset()
    seen.episode_length_buf = ages


@contextmanager
def _unnoticed(curriculum: Any) -> Iterator[None]:  # noqa: ANN401 - Isaac Lab's manager
    """Keep a curriculum from looking at episodes that nobody has finished."""
    compute = curriculum.compute
    curriculum.compute = lambda env_ids=None: None
    try:
        yield
    finally:
        curriculum.compute = compute


def _told(missed: Sequence[Place]) -> str | None:
    """Say in a few words what could not be put back; ``None`` if everything could."""
    if not missed:
        return None
    path, name = missed[0]
    return f"{path}.{name} could not be put back" + (f", nor {len(missed) - 1} more" if missed[1:] else "")
