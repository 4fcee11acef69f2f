"""The state of a simulation that a resumed training continues from.

With MuJoCo on the CPU, training continues bit for bit: everything that the next step depends on is restored. Other
physics engines do not expose their state, so only values that outlast an episode are restored: counters, changes by a
curriculum, terrain levels. Training then continues with fresh episodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.panels.physics import is_mujoco, physics_name
from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.panels.view import TrainingView
from ledger_lab.panels.whole_simulation import refresh_properties, settle_properties, whole_simulation
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg

    from ledger_lab.panels.capture import Capture, Place

_COUNTERS = ("common_step_counter", "_sim_step_counter", "episode_length_buf")
_MANAGERS = ("command", "event", "curriculum", "reward", "termination", "action", "observation")
_TERRAIN = ("terrain_levels", "terrain_types", "env_origins")


class SimulationState(ABC):
    """Saves and restores the state of a simulation."""

    def __init__(
        self, env: ManagerBasedRLEnv, view: TrainingView | None, capture: Capture, inexact: str | None = None
    ) -> None:
        """Remember all values right after construction.

        Args:
            env: The environment.
            view: The learner's view of it; ``None`` if the learner sees all slots.
            capture: Reads and writes the values.
            inexact: See :attr:`inexact`.
        """
        self._env, self._view, self._capture = env, view, capture
        self.inexact = inexact
        """Why a resumed training does not equal an uninterrupted training bit for bit; ``None`` if it does."""
        capture.begin()

    @abstractmethod
    def take(self) -> dict[str, Any]:
        """Return the state between two steps, as plain values and tensors."""

    @abstractmethod
    def put(self, state: Mapping[str, Any]) -> str | None:
        """Restore a state into a freshly built simulation.

        Args:
            state: The result of :meth:`take` from a simulation that was built the same way.

        Returns:
            What could not be restored; ``None`` if everything was. Call :meth:`begin_fresh` in all processes if any of
            them could not restore everything, or if the state is inexact.
        """

    def begin_fresh(self) -> None:
        """Begin fresh episodes without a curriculum update; keep the restored values that outlast episodes.

        Training slots keep the ages of their episodes, which spread time-outs over time. With all ages at zero, all
        episodes would time out together.
        """
        base = self._env.unwrapped
        seen = base if self._view is None else self._view
        ages = base.episode_length_buf[: seen.num_envs].clone()
        with torch.no_grad(), replaced(base.curriculum_manager, compute=lambda env_ids=None: None):
            (self._env if self._view is None else self._view).reset()
        seen.episode_length_buf = ages


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
        loop: State carried by the training loop, see :meth:`ledger_lab.training.runners.adapter.Trainer.carried`.
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
    if not is_mujoco(cfg):
        return f"{physics} does not expose its state"
    if cfg.sim.physics.solver_cfg.use_mujoco_cpu:
        return "MuJoCo, which replaces MuJoCo-Warp here, does not expose its state"
    return None


class _Whole(SimulationState):
    """Everything that the next step depends on."""

    def __init__(
        self,
        env: ManagerBasedRLEnv,
        view: TrainingView | None,
        slots: HeldOutSlots | None,
        loop: Sequence[tuple[object, Sequence[str]]],
    ) -> None:
        """Remember all values right after construction."""
        self._slots = slots
        carriers = {f"loop{number}": carrier for number, (carrier, _) in enumerate(loop)}
        only: dict[type, frozenset[str]] = {type(carrier): frozenset(names) for carrier, names in loop}
        if slots is not None:
            # the judge restores policies and replays; a rehearsal is over
            only[HeldOutSlots] = frozenset(vars(slots)) - {"_policies", "_replay_slots", "_rehearsal"}
        super().__init__(env, view, whole_simulation(env.unwrapped, {"slots": slots, **carriers}, only))

    def take(self) -> dict[str, Any]:
        """Copy every value that has changed since construction."""
        settle_properties()
        return {"places": self._capture.take(), "streams": GlobalStreams().to_data()}

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Restore the changed values; all others are as constructed."""
        built, base = self._capture.take_all(), self._env.unwrapped
        with torch.no_grad():  # not inference mode: tensors made there can't be written outside it
            # A step creates some values; they must exist before they can be restored.
            stepped, slots = (base, base.num_envs) if self._view is None else (self._view, self._view.num_envs)
            stepped.step(torch.zeros(slots, base.action_manager.total_action_dim, device=base.device))
            missed = self._capture.put({**built, **state["places"]})
        refresh_properties()
        GlobalStreams.from_data(state["streams"]).restore()
        return _describe(missed)

    def begin_fresh(self) -> None:
        """End the restored episodes."""
        if self._slots is not None:
            self._slots.abandon()
        super().begin_fresh()


class _Outlasting(SimulationState):
    """Saves and restores only values that outlast an episode."""

    def __init__(self, env: ManagerBasedRLEnv, view: TrainingView | None, inexact: str) -> None:
        """Remember the environment's values right after construction."""
        from ledger_lab.panels.capture import Capture

        base = env.unwrapped
        scene, terrain = base.scene, base.scene.terrain
        entities = [each for name in scene.keys() if (each := scene[name]) is not terrain]  # noqa: SIM118 - no dict
        only = {
            type(base): frozenset({*_COUNTERS, "scene", *(f"{name}_manager" for name in _MANAGERS)}),
            type(scene): frozenset({"_terrain"}),
            type(terrain): frozenset(_TERRAIN),
        }
        super().__init__(env, view, Capture({"env": base}, closed=[base.sim, *entities], only=only), inexact)

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


def _outlasts(place: Place, value: Any) -> bool:  # noqa: ANN401 - a leaf
    """Tell whether a value of a manager or the terrain outlasts an episode."""
    if not isinstance(value, torch.Tensor):
        return True
    return place[0].startswith(("env.curriculum_manager", "env.scene"))


def _describe(missed: Sequence[Place]) -> str | None:
    """Describe briefly what could not be restored; ``None`` if everything was."""
    if not missed:
        return None
    path, name = missed[0]
    return f"{path}.{name} could not be restored" + (f", nor {len(missed) - 1} more" if missed[1:] else "")
