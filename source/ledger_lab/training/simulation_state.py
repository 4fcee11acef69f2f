"""The state of a simulation that a resumed training continues from: what outlasts an episode.

These are counters, changes by a curriculum, terrain levels and random streams. Episodes begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.panels.view import TrainingView
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.panels.capture import Place

_COUNTERS = ("common_step_counter", "_sim_step_counter", "episode_length_buf")
_MANAGERS = ("command", "event", "curriculum", "reward", "termination", "action", "observation")
_TERRAIN = ("terrain_levels", "terrain_types", "env_origins")


class SimulationState:
    """Saves and restores what outlasts an episode."""

    def __init__(self, env: ManagerBasedRLEnv, view: TrainingView | None) -> None:
        """Choose the values.

        Args:
            env: The environment.
            view: The learner's view of it; ``None`` if the learner sees all slots.
        """
        from ledger_lab.panels.capture import Capture

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

    def take(self) -> dict[str, Any]:
        """Return the state between two steps, as plain values and tensors."""
        places = self._capture.take(_outlasts)
        places["env", "episode_length_buf"] = self._env.unwrapped.episode_length_buf.cpu().clone()
        return {"places": places, "streams": GlobalStreams().to_data()}

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Restore a state into a freshly built simulation, and begin episodes without a curriculum update.

        Training slots keep the ages of their episodes, which spread time-outs over time. With all ages at zero, all
        episodes would time out together.

        Args:
            state: The result of :meth:`take` from a simulation that was built the same way.

        Returns:
            What could not be restored; ``None`` if everything was.
        """
        missed = self._capture.put(state["places"])
        GlobalStreams.from_data(state["streams"]).restore()
        base = self._env.unwrapped
        seen = base if self._view is None else self._view
        ages = base.episode_length_buf[: seen.num_envs].clone()
        with torch.no_grad(), replaced(base.curriculum_manager, compute=lambda env_ids=None: None):
            (self._env if self._view is None else self._view).reset()
        seen.episode_length_buf = ages
        if not missed:
            return None
        path, name = missed[0]
        return f"{path}.{name} could not be restored" + (f", nor {len(missed) - 1} more" if missed[1:] else "")


def _outlasts(place: Place, value: Any) -> bool:  # noqa: ANN401 - a leaf
    """Tell whether a value of a manager or the terrain outlasts an episode."""
    return not isinstance(value, torch.Tensor) or place[0].startswith(("env.curriculum_manager", "env.scene"))
