"""What the doctor asks with Python's own library alone: about packages, and, in processes of their own, about drivers.

``python -m ledger_lab.cli.probes NAME`` answers a question, and prints the answer as JSON. An error ends the process
with a traceback, whose last line tells the cause.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

NEEDED = (
    *("isaaclab", "newton", "mujoco", "mujoco-warp", "warp-lang", "torch", "rsl-rl-lib", "gymnasium", "numpy", "scipy"),
    *("rich", "msgspec", "orjson", "psutil", "nvidia-ml-py"),
)
"""Packages without which no training runs."""
OPTIONAL = ("skrl", "rl-games", "gym", "duckdb", "jinja2", "markupsafe", "plotly", "moviepy")
"""Packages for two RL libraries, reports and videos."""
REINSTALL = "remove .venv/.complete, and call ./isaaclab.sh again"

_MOST_NAMES = 6


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    level: Literal["ok", "warn", "fail"]
    """``warn``: a training can run, but something is slower, missing or at risk. ``fail``: trainings do not work."""
    text: str
    """The fact, in one line."""
    way_out: str | None = None
    """What to do; ``None`` if all is well."""

    def line(self, name: str) -> str:
        """Return the line about a check.

        Args:
            name: Name of the check.
        """
        way_out = "" if self.way_out is None else f" → {self.way_out}"
        return f"{self.level:4}  {name:12}  {self.text}{way_out}"


def ok(text: str) -> Finding:
    """Return a finding that needs nothing to be done."""
    return Finding("ok", text)


def warn(text: str, way_out: str) -> Finding:
    """Return a finding with which trainings still work."""
    return Finding("warn", text, way_out)


def fail(text: str, way_out: str) -> Finding:
    """Return a finding with which trainings do not work."""
    return Finding("fail", text, way_out)


def check_python(found: tuple[int, ...] = sys.version_info[:3], executable: str = sys.executable) -> Finding:
    """Check the version of Python.

    Args:
        found: The version.
        executable: The interpreter.
    """
    text = f"{'.'.join(map(str, found))}, {executable}"
    if found[:2] != (3, 12):
        return fail(f"{text}: Isaac Lab 3.0 needs Python 3.12", "use ./isaaclab.sh -p, which installs it")
    return ok(text)


def installed_version(name: str) -> str | None:
    """Return the version of an installed package; ``None`` if it is missing.

    Args:
        name: Name of the distribution.
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_packages(lock: str | None, installed: Callable[[str], str | None] = installed_version) -> Finding:
    """Compare the installed packages with the lock file.

    Args:
        lock: Text of the lock file, as pip and uv write it; ``None`` if there is none beside the source.
        installed: Returns the version of an installed package.
    """
    locked: Mapping[str, str] = dict(re.findall(r"^([\w.-]+)==([\w.!+-]+)", lock or "", re.M))
    found = {name: installed(name) for name in {*NEEDED, *OPTIONAL, *locked}}
    if missing := [name for name in NEEDED if found[name] is None]:
        return fail(f"missing: {_some(missing)}", REINSTALL)
    if missing := [name for name in OPTIONAL if found[name] is None]:
        return warn(f"missing: {_some(missing)}; some RL libraries, reports or videos do not work", REINSTALL)
    present = {name: each.partition("+")[0] for name, each in found.items() if each is not None}  # without +cu130
    other = [
        f"{name} {present[name]} instead of {wanted}"
        for name, wanted in sorted(locked.items())
        if name in present and present[name] != wanted.partition("+")[0]
    ]
    if other:
        return warn(f"other versions: {_some(other)}; recorded scores may not be comparable", REINSTALL)
    known = "in the locked versions" if locked else "and no lock file to compare their versions with"
    return ok(f"{len(present)} packages, {known}")


def _some(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def broken_installation(error: ImportError) -> str:
    """Return what to say of a machine on which LedgerLab itself can't be imported: only the packages can be checked.

    Args:
        error: Why the import failed.
    """
    found = {"Python": check_python(), "packages": check_packages(None)}
    found["imports"] = fail(f"{type(error).__name__}: {error}", REINSTALL)
    lines = [each.line(name) for name, each in found.items()]
    text = "\n".join([*lines, f"this machine is not fit for trainings: {REINSTALL}"])
    return text.replace("→", "->")  # what shows other characters to an ASCII terminal may be what is broken


def egl() -> dict[str, Any]:
    """Open a window without a screen by the library that Newton's viewer draws with."""
    import pyglet

    pyglet.options.headless = True
    import pyglet.window
    from pyglet.gl import gl_info

    pyglet.window.Window(16, 16, visible=False)
    return {"renderer": gl_info.get_renderer()}


def gpu() -> dict[str, Any]:
    """Return what torch says about CUDA, and what the driver says by the meters' library, or why it says nothing."""
    import torch

    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "devices": devices}
    try:
        import pynvml

        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        supported = f"{version // 1000}.{version % 1000 // 10}"
        return {**found, "driver": f"driver {pynvml.nvmlSystemGetDriverVersion()} with CUDA {supported}"}
    except Exception as error:  # noqa: BLE001 - whatever a driver or its library lacks
        return {**found, "driver": None, "reason": f"{type(error).__name__}: {error}"}


def step(device: str) -> dict[str, Any]:
    """Make a few steps of 16 cart-poles with the physics engine that a training uses on the device.

    Args:
        device: ``cpu`` or ``cuda:N``.

    Raises:
        FloatingPointError: If observations are not finite.
    """
    import torch

    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.physics_engine import with_default_physics
    from ledger_lab.training.runners.session import environment, recorded_physics, require_runtime, simulation_app

    registered_tasks()
    task = "LedgerLab-Cartpole"
    cfg, _ = resolve_configs(task, "rsl_rl", with_default_physics(task, [], device))
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = 16, device, 1
    launcher = {"device": device}
    require_runtime(cfg, launcher)
    with simulation_app(cfg, launcher), environment(task, cfg) as env, recorded_physics(env):
        env.reset()
        actions = torch.zeros(16, env.unwrapped.action_manager.total_action_dim, device=device)
        for _ in range(4):
            observations, *_ = env.step(actions)
        if not bool(observations["policy"].isfinite().all()):
            raise FloatingPointError("observations are not finite")
    return {"steps": 4}


PROBES: dict[str, Callable[..., dict[str, Any]]] = {"egl": egl, "gpu": gpu, "step": step}


if __name__ == "__main__":
    answer = json.dumps(PROBES[sys.argv[1]](*sys.argv[2:]))
    sys.stdout.write(f"\n{answer}\n")
