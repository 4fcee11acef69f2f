"""Records Newton's physics step on the CPU, and replays it without Python between the kernels.

On a GPU, Isaac Lab captures a physics step as a CUDA graph. On a CPU it launches hundreds of kernels one by one from
Python, which takes several times as long as the kernels. Warp can record a step on the CPU as well, and replay it in
C++ (``warp.capture_begin`` on a CPU device); loops of the solver are recorded as loops. Only MuJoCo, by MuJoCo-Warp or
by its own C code, is recorded; a test proves that replayed steps equal launched steps bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledger_lab.panels.physics import is_mujoco

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_STEPS = ("_simulate_full", "_simulate_physics_only")
"""Isaac Lab's two step functions: with and without motors that Newton computes. A simulation uses one of them."""


@contextmanager
def recorded_physics(env: ManagerBasedRLEnv) -> Iterator[None]:
    """Replay the physics step of an environment from a recording, if it runs on Newton on the CPU.

    The first step is launched as usual and recorded; later steps are replayed. Isaac Lab discards the recording
    whenever it would discard a CUDA graph. ``env.sim.physics.use_cuda_graph=False`` turns this off.

    Args:
        env: The environment, as ``gym.make`` returns it.
    """
    import warp
    from isaaclab.utils.string import string_to_callable
    from isaaclab_newton.physics import NewtonManager

    cfg = env.unwrapped.cfg
    if env.unwrapped.device != "cpu" or not is_mujoco(cfg) or not cfg.sim.physics.use_cuda_graph:
        yield
        return
    manager = string_to_callable(str(cfg.sim.physics.class_type))
    launches = {name: getattr(manager, name) for name in _STEPS}
    own = {name: vars(manager).get(name) for name in _STEPS}

    def recorded(launch: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            if NewtonManager._graph is None:
                launch()
                with warp.ScopedCapture(device="cpu") as capture:
                    launch()
                NewtonManager._graph = capture.graph
            else:
                warp.capture_launch(NewtonManager._graph)

        return replay

    for name, launch in launches.items():
        setattr(manager, name, staticmethod(recorded(launch)))
    try:
        yield
    finally:
        for name, step in own.items():
            delattr(manager, name)  # a base class's own step is visible again
            if step is not None:
                setattr(manager, name, step)
        NewtonManager._graph = None
