"""Leaves out imports that take seconds at each start and that a training does not use."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ledger_lab.ledger.cores import imports
from ledger_lab.panels.physics import is_mujoco

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_COMPILER = "torch._dynamo"
_MOVIES = "moviepy.editor"
_RECORDER = "isaaclab.envs.utils.video_recorder"


def postpone_compiler() -> None:
    """Import torch's compiler only when something uses it; this saves 0.9 s where nothing is compiled.

    Optimizers and ``tensordict`` import ``torch._dynamo`` only to mark functions that it must not compile, and rl_games
    only to change one of its settings.
    """
    import torch

    if _COMPILER not in sys.modules:
        sys.modules[_COMPILER] = torch._dynamo = _Postponed(_COMPILER)


class _Postponed(ModuleType):
    """Stands in for ``torch._dynamo`` until something is compiled.

    It accepts what eager code tells the compiler, and passes that on when the compiler is imported.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._marked: list[tuple[str, Callable[..., Any]]] = []
        """Marks of functions: the name of the compiler's function that sets the mark, and the marked function."""
        self._disabled: list[Callable[..., Any]] = []
        self.config = _PostponedSettings()

    def graph_break(self, msg: str = "") -> None:
        """Do nothing: no graph is being recorded."""

    def allow_in_graph(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Remember a function that compiled code may call without looking into it."""
        self._marked.append(("allow_in_graph", fn))
        return fn

    def assume_constant_result(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Remember a function whose result compiled code may keep."""
        self._marked.append(("assume_constant_result", fn))
        return fn

    def disable(
        self, fn: Callable[..., Any] | None = None, recursive: bool = True, **options: object
    ) -> Callable[..., Any]:
        """Return a function that is not to be compiled. Only torch's own functions ask with ``wrapping=False``."""
        if fn is None or options != {"wrapping": False}:
            return self._load().disable(fn, recursive, **options)
        self._disabled.append(fn)
        return fn

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the compiler has
        return getattr(self._load(), name)

    def _load(self) -> ModuleType:
        """Import the compiler in place of this module."""
        if sys.modules.get(_COMPILER) is self:
            del sys.modules[_COMPILER]
            compiler = importlib.import_module(_COMPILER)
            for mark, fn in self._marked:
                getattr(compiler, mark)(fn)
            for fn in self._disabled:
                delattr(fn, "__dynamo_disable")  # torch asks again at the next call
            for name, value in vars(self.config).items():
                setattr(compiler.config, name, value)
        return importlib.import_module(_COMPILER)


class _PostponedSettings:
    """Stands in for ``torch._dynamo.config`` until something is compiled: it keeps settings that are set."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the settings have
        return getattr(importlib.import_module(f"{_COMPILER}.config"), name)


@contextmanager
def functions_compiled_later() -> Iterator[None]:
    """Make ``torch.compile`` put off the compilation of functions to their first call, while a library is imported.

    rl_games defines an example network with a compiled method, which alone would import the compiler.
    """
    import torch

    compile_now = torch.compile

    def compile_later(model: Any = None, **options: Any) -> Any:  # noqa: ANN401 - as torch.compile
        if model is None:
            return functools.partial(compile_later, **options)
        if not isinstance(model, FunctionType):
            return compile_now(model, **options)
        compiled = functools.cache(lambda: compile_now(model, **options))

        @functools.wraps(model)
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            return compiled()(*args, **kwargs)

        return call

    torch.compile = compile_later
    try:
        yield
    finally:
        torch.compile = compile_now


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
