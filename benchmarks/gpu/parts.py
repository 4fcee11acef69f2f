"""The parts of the GPU kit, the most important first."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.comparison import ROOT
from benchmarks.gpu.checks import CHECKS
from benchmarks.gpu.part import FIGURES, Part, read_figures
from benchmarks.gpu.readers import read_output, read_speed, read_training, read_without_cuda

ANYMAL = "LedgerLab-Velocity-Flat-AnymalC"
_CARTPOLE, _ANT = "LedgerLab-Cartpole", "LedgerLab-Ant"
_LIFT, _NAVIGATION = "LedgerLab-Lift-Cube-Franka", "LedgerLab-Navigation-Flat-AnymalC"
_ROUGH = "LedgerLab-Velocity-Rough-AnymalC"
TASKS = (_CARTPOLE, _ANT, ANYMAL, _NAVIGATION, _LIFT, _ROUGH)
"""Tasks that the parts train."""
_INTO = f"{{folder}}/{FIGURES}"
_SCORED = 4096
"""Environments of the trainings that are compared with each other."""
_SIZES = {65_536: 10, 1024: 30, 16_384: 16}
"""Numbers of environments of the other trainings, with their iterations."""


_QUICK_LIMIT_S = 300.0
"""Time limit of the parts that check the kit, perhaps on a busy machine [s]."""


def all_parts(device: str, *, quick: bool = False) -> list[Part]:
    """Return the parts in the order in which they run.

    Args:
        device: ``cuda``, ``cuda:N`` or ``cpu``.
        quick: Whether to return a small part of each kind, to check the kit itself.
    """
    if quick:
        return [replace(part, limit_s=_QUICK_LIMIT_S) for part in _quick(device)]
    return list(_whole(device))


def _whole(device: str) -> Iterator[Part]:
    """Yield everything that a GPU is to show."""
    yield _device(device)
    yield _start("start-cold", "start-up with the kernel caches as the kit finds them: empty, if it makes them", device)
    yield _start("start-warm", "the same with the caches that the first start-up has filled", device)
    yield _compile(device, ANYMAL, _NAVIGATION, _ANT)
    yield _tests(60)
    yield _trained(_ANT, "rsl_rl", device, limit_s=90)
    yield _speed(_SCORED, device)
    yield _speed(_SCORED, device, scored=True)
    checks = {each.name: each for each in _checks(device)}
    yield from (checks.pop(f"check-{name}") for name in ("rays", "skrl", "fault", "memory"))
    yield _waits(ANYMAL, device, _SCORED)
    yield _trained(_CARTPOLE, "rsl_rl", device, limit_s=60)
    yield _speed(_SCORED, device, suffix="-launched", extra=("env.sim.physics.use_cuda_graph=False",))
    yield _speed(_SCORED, device, scored=True, suffix="-synchronized", extra=("--timing", "synchronized"))
    yield _trained(ANYMAL, "rsl_rl", device, limit_s=150)
    yield _doctor()
    yield _overhead(device, num_envs=_SCORED, iterations=40, skip=5)
    yield from checks.values()
    for num_envs, iterations in _SIZES.items():
        yield _speed(num_envs, device, iterations=iterations)
        yield _speed(num_envs, device, iterations=iterations, scored=True)
    for library in ("skrl", "rl_games"):
        yield _trained(_CARTPOLE, library, device, limit_s=60)
    for task in (_LIFT, _NAVIGATION, _ROUGH, _CARTPOLE):
        yield _waits(task, device, 1024)
    yield _speed(_SCORED, device, task=_NAVIGATION, suffix="-navigation", iterations=16)
    for library in ("skrl", "rl_games"):
        yield _trained(_ANT, library, device, limit_s=90)
    for library in ("skrl", "rl_games"):
        yield _trained(ANYMAL, library, device, limit_s=180)


def _quick(device: str) -> Iterator[Part]:
    """Yield a part of each kind, as small as possible."""
    yield _device(device)
    yield _compile(device, _CARTPOLE)
    yield _tests(60)
    yield _waits(_CARTPOLE, device, 64, iterations=4, skip=2)
    yield _speed(64, device, scored=True, task=_CARTPOLE, iterations=4, skip=2)
    yield from (each for each in _checks(device) if each.name in ("check-skrl", "check-memory"))
    yield _start("start-warm", "start-up", device)
    yield _doctor()
    yield _overhead(device, num_envs=64, iterations=5, skip=2, extra=("--in_turn",))


def _device(device: str) -> Part:
    """Return the part that describes the machine."""
    return Part(
        name="device",
        what="device, driver and versions, by NVML, nvidia-smi, torch and Warp",
        command=("-m", "benchmarks.gpu.device", _INTO, device),
        read=read_figures,
        limit_s=90,
    )


def _start(name: str, what: str, device: str) -> Part:
    """Return a training that consists of little more than its start-up."""
    return Part(
        name=name,
        what=what,
        command=_training(_CARTPOLE, "rsl_rl", device, "--num_envs", "256", "--max_iterations", "2", "--no_eval"),
        read=read_training,
        limit_s=240,
    )


def _compile(device: str, *tasks: str) -> Part:
    """Return the part that fills the caches for the parts that follow."""
    return Part(
        name="compile",
        what=f"kernels of {', '.join(tasks)}, compiled side by side",
        command=("-m", "benchmarks.gpu.compilation", _INTO, "{folder}", device, *tasks),
        read=read_figures,
        limit_s=240,
    )


def _doctor() -> Part:
    """Return the checks of the machine."""
    return Part(
        name="doctor",
        what="the checks of scripts/doctor.py",
        command=("scripts/doctor.py", "--json", "--limit_s", "60"),
        read=read_output,
        limit_s=70,
        needs_device=False,
    )


def _tests(limit_s: float) -> Part:
    """Return the tests that need a GPU."""
    marked = re.compile(r"mark\.gpu\b")
    files = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if marked.search(path.read_text("utf-8"))]
    plugins = (argument for name in ("cacheprovider", "dash", "hydra_pytest") for argument in ("-p", f"no:{name}"))
    return Part(
        name="tests",
        what="the tests that need a GPU",
        command=(
            *("-m", "pytest", "-q", "-o", "addopts=", "--import-mode=importlib", *plugins, "-m", "gpu"),
            *("-p", "benchmarks.gpu.results_of_tests", f"--results={_INTO}"),
            *(str(path.relative_to(ROOT)) for path in files),
        ),
        read=read_figures,
        limit_s=limit_s,
    )


def _trained(task: str, library: str, device: str, *, limit_s: float) -> Part:
    """Return a training until a policy is proven."""
    return Part(
        name=f"train-{_short(task)}-{library}",
        what=f"{task} trained to its target with {library}",
        command=_training(task, library, device),
        read=read_training,
        limit_s=limit_s,
        least_s=30,
    )


def _speed(
    num_envs: int,
    device: str,
    *,
    scored: bool = False,
    task: str = ANYMAL,
    iterations: int = 30,
    skip: int = 4,
    suffix: str = "",
    extra: tuple[str, ...] = (),
) -> Part:
    """Return a training of some iterations, with or without held-out slots."""
    slots = ("--no_stop_at_target",) if scored else ("--no_eval",)
    sizes = ("--num_envs", str(num_envs), "--max_iterations", str(iterations))
    return Part(
        name=f"speed-{num_envs}{'-scored' if scored else ''}{suffix}",
        what=f"speed of {task} with {num_envs} environments, {'with' if scored else 'without'} held-out slots"
        + (f", {' '.join(extra)}" if extra else ""),
        command=_training(task, "rsl_rl", device, "--no_symmetry", *slots, *sizes, *extra),
        read=functools.partial(read_speed, skip=skip),
        limit_s=120,
    )


def _waits(task: str, device: str, num_envs: int, *, iterations: int = 8, skip: int = 2) -> Part:
    """Return the part that counts how often the host waits for the device."""
    training = _training(
        *(task, "rsl_rl", device, "--no_stop_at_target"),
        *("--num_envs", str(num_envs), "--max_iterations", str(iterations)),
    )[1:]
    return Part(
        name=f"waits-{_short(task)}",
        what=f"how often the host waits for the GPU per environment step of {task}, with held-out slots",
        command=("-m", "benchmarks.gpu.waits", _INTO, str(skip), *training),
        read=read_figures,
        limit_s=180,
    )


def _checks(device: str) -> Iterator[Part]:
    """Yield the checks of CUDA that a CPU can only emulate."""
    few = ("--max_iterations", "2", "--num_envs", "64", "--no_eval")
    yield Part(
        name="check-rays",
        what="--timing synchronized while the query of a ray caster is captured",
        command=_training(_NAVIGATION, "rsl_rl", device, *few, "--timing", "synchronized"),
        read=read_training,
        limit_s=120,
    )
    yield Part(
        name="check-skrl",
        what="whether SKRL leaves the GPU alone on --device cpu",
        command=("-m", "benchmarks.gpu.waits", _INTO, "1", *_training(_CARTPOLE, "skrl", "cpu", *few)[1:]),
        read=read_without_cuda,
        limit_s=90,
    )
    for name, check in CHECKS.items():
        yield Part(
            name=f"check-{name}",
            what=(check.__doc__ or "").strip().splitlines()[0].rstrip("."),
            command=("-m", "benchmarks.gpu.checks", _INTO, device, name),
            read=read_figures,
            limit_s=90,
        )


def _overhead(device: str, *, num_envs: int, iterations: int, skip: int, extra: tuple[str, ...] = ()) -> Part:
    """Return the comparison with ``isaaclab train``."""
    return Part(
        name="overhead",
        what="speed of train.py without scoring, compared with `isaaclab train`",
        command=(
            *("-m", "benchmarks", "overhead", "--pairs", "1", "--num_envs", str(num_envs), "--device", device),
            *("--max_iterations", str(iterations), "--skip", str(skip), "--json", _INTO, *extra),
        ),
        read=read_figures,
        limit_s=150,
        least_s=45,
    )


def _training(task: str, library: str, device: str, *arguments: str) -> tuple[str, ...]:
    """Return the command of a training."""
    return (
        *("scripts/train.py", "--task", task, "--rl_library", library, "--device", device, "--seed", "1"),
        *("--grace_s", "8", "--log_root", "{folder}", *arguments),
    )


def _short(task: str) -> str:
    """Return the name of the robot or the object of a task."""
    known = {_CARTPOLE: "cartpole", _ANT: "ant", ANYMAL: "anymal", _ROUGH: "rough"}
    return known.get(task) or task.split("-")[1].lower()
