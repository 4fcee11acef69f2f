"""Leaves out imports that take seconds at each start and that a training does not use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ledger_lab.ledger.cores import imports
from ledger_lab.panels.physics import is_mujoco

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_COMPILER = "torch._dynamo"
_MARKS = ("allow_in_graph", "assume_constant_result", "disable")
"""Functions of the compiler that only mark another function."""
_MOVIES = "moviepy.editor"
_RECORDER = "isaaclab.envs.utils.video_recorder"


def postpone_compiler() -> None:
    """Import torch's compiler only when something is compiled; this saves a second at each start.

    Optimizers and ``tensordict`` import ``torch._dynamo`` only to mark functions that it must not compile, and rl_games
    only to change one of its settings.
    """
    import torch

    if _COMPILER not in sys.modules:
        sys.modules[_COMPILER] = torch._dynamo = _Postponed()


class _Postponed(ModuleType):
    """Stands in for ``torch._dynamo``, keeps marks and settings, and passes them on when the compiler is needed."""

    def __init__(self) -> None:
        super().__init__(_COMPILER)
        self._marked: list[tuple[str, Callable[..., Any]]] = []
        self.config = ModuleType(f"{_COMPILER}.config")

    def graph_break(self, msg: str = "") -> None:
        """Do nothing: no graph is being recorded."""

    def _mark(self, mark: str, fn: Callable[..., Any], *_: object, **options: object) -> Callable[..., Any]:
        if options not in ({}, {"wrapping": False}):  # torch's own functions ask so; others want another function
            marked: Callable[..., Any] = getattr(self._load(), mark)(fn, *_, **options)
            return marked
        self._marked.append((mark, fn))
        return fn

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the compiler has
        return partial(self._mark, name) if name in _MARKS else getattr(self._load(), name)

    def _load(self) -> ModuleType:
        """Import the compiler in place of this module."""
        if sys.modules.get(_COMPILER) is self:
            del sys.modules[_COMPILER]
            compiler = importlib.import_module(_COMPILER)
            for mark, fn in self._marked:
                if mark == "disable":
                    vars(fn).pop("__dynamo_disable", None)  # torch asks again at the next call
                else:
                    getattr(compiler, mark)(fn)
            for name, value in vars(self.config).items():
                if not name.startswith("__"):
                    setattr(compiler.config, name, value)
        return sys.modules[_COMPILER]


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
