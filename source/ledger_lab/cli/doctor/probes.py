"""Questions to the system's libraries, asked in a process of its own; prints the answer as JSON.

``python -m ledger_lab.cli.doctor.probes NAME``. An error ends the process with a traceback, whose last line says the
cause.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

_PLATFORM_DEVICE, _VENDOR, _OPENGL_API = 0x313F, 0x3053, 0x30A2
_PBUFFER_CONFIG = (0x3033, 0x0001, 0x3040, 0x0008, 0x3038)
"""Surface type: pbuffer. Renderable type: OpenGL. End of the list."""


def egl() -> dict[str, Any]:
    """Open a display without a screen as pyglet does, which Newton's viewer uses.

    The constants are those of EGL 1.5 and of the extensions ``EGL_EXT_platform_device`` and
    ``EGL_EXT_device_enumeration``.

    Returns:
        Number of devices, vendor, version, and the number of configurations that can render to memory.

    Raises:
        OSError: If there is no EGL, or it has no display.
    """
    library = ctypes.CDLL("libEGL.so.1")
    library.eglGetProcAddress.restype = ctypes.c_void_p
    library.eglQueryString.restype = ctypes.c_char_p
    library.eglQueryString.argtypes = [ctypes.c_void_p, ctypes.c_int]
    pointers, count = (ctypes.c_void_p * 32)(), ctypes.c_int()
    address = library.eglGetProcAddress(b"eglQueryDevicesEXT")
    query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address or 0)
    if not address or not query(32, ctypes.byref(pointers), ctypes.byref(count)) or count.value < 1:
        raise OSError("EGL lists no device")
    open_display = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
        library.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    )
    display = ctypes.c_void_p(open_display(_PLATFORM_DEVICE, pointers[0], None))
    major, minor, configs = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if not library.eglInitialize(display, ctypes.byref(major), ctypes.byref(minor)):
        raise OSError("EGL can't open its first device: is it readable (/dev/dri)?")
    wanted = (ctypes.c_int * len(_PBUFFER_CONFIG))(*_PBUFFER_CONFIG)
    usable = library.eglBindAPI(_OPENGL_API) and library.eglChooseConfig(
        display, wanted, None, 0, ctypes.byref(configs)
    )
    if not usable or not configs.value:
        raise OSError("EGL has no configuration for OpenGL without a screen")
    vendor = library.eglQueryString(display, _VENDOR).decode(errors="replace")
    return {"devices": count.value, "vendor": vendor, "version": f"{major.value}.{minor.value}"}


def nvml() -> dict[str, Any]:
    """Return the driver's version and the names of the GPUs, by the library that meters use.

    Raises:
        OSError: If the library is missing or refuses.
    """
    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlErrorString.restype = ctypes.c_char_p

    def asked(name: str, *arguments: object) -> None:
        if code := getattr(library, name)(*arguments):
            raise OSError(f"{name}: {library.nvmlErrorString(code).decode()}")

    asked("nvmlInit_v2")
    text, count = ctypes.create_string_buffer(96), ctypes.c_uint()
    asked("nvmlSystemGetDriverVersion", text, len(text))
    driver = text.value.decode()
    asked("nvmlDeviceGetCount_v2", ctypes.byref(count))
    names = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        asked("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        asked("nvmlDeviceGetName", handle, text, len(text))
        names.append(text.value.decode())
    return {"driver": driver, "names": names}


def cuda() -> dict[str, Any]:
    """Return the newest CUDA version that the driver supports, as ``[major, minor]``.

    Raises:
        OSError: If the driver's library is missing or refuses.
    """
    library, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    if code := library.cuDriverGetVersion(ctypes.byref(version)):
        raise OSError(f"cuDriverGetVersion: error {code}")
    return {"version": [version.value // 1000, version.value % 1000 // 10]}


def torch() -> dict[str, Any]:
    """Return what torch says about CUDA and the threads that it uses."""
    import torch as library

    found: dict[str, Any] = {"version": library.__version__, "cuda": library.version.cuda}
    found["devices"] = [library.cuda.get_device_name(index) for index in range(library.cuda.device_count())]
    found["available"] = library.cuda.is_available()
    return found


def step(device: str) -> dict[str, Any]:
    """Make a few steps of 16 cart-poles with the physics engine that a training uses on the device.

    Args:
        device: ``cpu`` or ``cuda:N``.

    Raises:
        FloatingPointError: If observations are not finite.
    """
    import torch as library

    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.cpu_graphs import recorded_physics
    from ledger_lab.training.runners.physics_engine import with_default_physics
    from ledger_lab.training.runners.session import environment, require_runtime, simulation_app

    registered_tasks()
    task = "LedgerLab-Cartpole"
    cfg, _ = resolve_configs(task, "rsl_rl", with_default_physics(task, [], device))
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = 16, device, 1
    launcher = {"device": device}
    require_runtime(cfg, launcher)
    with simulation_app(cfg, launcher), environment(task, cfg) as env, recorded_physics(env):
        env.reset()
        actions = library.zeros(16, env.unwrapped.action_manager.total_action_dim, device=device)
        for _ in range(4):
            observations, *_ = env.step(actions)
        if not bool(observations["policy"].isfinite().all()):
            raise FloatingPointError("observations are not finite")
    return {"steps": 4}


PROBES: dict[str, Callable[..., dict[str, Any]]] = {
    "egl": egl,
    "nvml": nvml,
    "cuda": cuda,
    "torch": torch,
    "step": step,
}


if __name__ == "__main__":
    answer = json.dumps(PROBES[sys.argv[1]](*sys.argv[2:]))
    sys.stdout.write(f"\n{answer}\n")
    sys.stdout.flush()
