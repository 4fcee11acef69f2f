"""Leaves out imports that take seconds at each start and that a training does not use."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ledger_lab.ledger.cores import imports
from ledger_lab.panels.physics import is_mujoco

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_MOVIES = "moviepy.editor"
_RECORDER = "isaaclab.envs.utils.video_recorder"


def import_environment(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Import Isaac Lab's environment with its physics, and its movie library only if the configuration records videos.

    The movie library imports matplotlib, IPython and pygame, which takes 0.9 s, and searches for a sound card.

    Args:
        env_cfg: Configuration of the environment.
    """
    with imports():
        if env_cfg.video_recorders:
            import_video_recorder()
        elif _MOVIES not in sys.modules:
            sys.modules[_MOVIES] = None  # type: ignore[assignment]  # Python then raises ImportError, as Isaac Lab expects
            try:
                importlib.import_module(_RECORDER)
            finally:
                del sys.modules[_MOVIES]
        importlib.import_module("isaaclab.envs.manager_based_rl_env")
        manager = getattr(env_cfg.sim.physics, "class_type", None)  # a class, or "module:class"
        if manager is not None:
            importlib.import_module(manager.partition(":")[0] if isinstance(manager, str) else manager.__module__)
        if is_mujoco(env_cfg):
            importlib.import_module("mujoco_warp")


def import_video_recorder() -> Any:  # noqa: ANN401 - a module, whose names mypy does not know
    """Import Isaac Lab's video recorder together with the movie library.

    Returns:
        The module ``isaaclab.envs.utils.video_recorder``.
    """
    recorder: Any = importlib.import_module(_RECORDER)
    if recorder.ImageSequenceClip is None:
        recorder.ImageSequenceClip = importlib.import_module(_MOVIES).ImageSequenceClip
    return recorder
