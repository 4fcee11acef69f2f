"""Checks of CUDA that a CPU can only emulate, each in a process of its own, because some of them break the device.

``python -m benchmarks.gpu.checks FILE DEVICE NAME`` writes what it found to FILE; its exit status is 0 if it passed.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.comparison import script
from benchmarks.gpu.part import Figures
from ledger_lab.errors import first_line
from ledger_lab.ledger.endings import status_of

_TASK = "LedgerLab-Cartpole"
_MOST_ELEMENTS = 1 << 42
"""Elements of an array that no device can hold."""


def fault(device: str) -> Figures:
    """After a kernel that destroys the CUDA context, the training counts as crashed, and the error names the fault."""

    def work() -> None:
        import torch
        import warp

        @warp.func_native("*(volatile int*)8 = index;")
        def write_to_no_memory(index: int) -> None: ...

        @warp.kernel(enable_backward=False)
        def faulty() -> None:
            write_to_no_memory(warp.tid())

        with _cartpoles(device):
            warp.launch(faulty, dim=1, device=device)
            warp.zeros(10, device=device)
            torch.cuda.synchronize(device)

    found = _ending(work)
    names_it = any(text in found["error"].lower() for text in ("illegal", "fault", "error 700", "misaligned"))
    return {"passed": found["status"] == "crashed" and names_it, **found}


def memory(device: str) -> Figures:
    """Too large arrays of torch and of Warp count as lack of memory."""

    def by_torch() -> None:
        import torch

        torch.empty(_MOST_ELEMENTS, dtype=torch.float64, device=device)

    def by_warp() -> None:
        import warp

        warp.empty(shape=(1 << 14, 1 << 14, 1 << 14), dtype=float, device=device)

    found = {"torch": _ending(by_torch), "warp": _ending(by_warp)}
    return {"passed": all(each["status"] == "out_of_memory" for each in found.values()), **found}


def fork_after_torch(device: str) -> Figures:
    """A process in which torch uses the GPU forks no pool of processes."""

    def use() -> None:
        import torch

        torch.ones(1, device=device)

    return _forked(use)


def fork_after_warp(device: str) -> Figures:
    """A process in which Warp alone uses the GPU forks no pool of processes."""

    def use() -> None:
        import warp

        warp.ones(1, device=device)

    return _forked(use)


def ground(device: str) -> Figures:
    """Generated ground is the same on the device, on the CPU beside it, and on a machine without a GPU."""
    found = {"device": _ground_sha256(device), "cpu": _ground_sha256("cpu")}
    program = "import sys; from benchmarks.gpu import checks; sys.stdout.write(checks._ground_sha256('cpu'))"
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    alone = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    found["without_gpu"] = alone.stdout[-len(found["cpu"]) :]
    return {"passed": len({*found.values()}) == 1, **found}


def same_gpu(device: str) -> Figures:
    """Two processes that see the same GPU only are refused in one line, and write nothing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, script("train.py"), "--task", _TASK, "--device", "cuda", "--distributed"]
        processes = [
            subprocess.Popen(
                [*command, "--max_iterations", "1", "--no_eval", "--log_root", folder],
                env={
                    **os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": visible
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(2)
        ]  # fmt: skip
        outputs = [process.communicate()[0] for process in processes]
        left = [str(path.relative_to(folder)) for path in Path(folder).rglob("*")]
    statuses = [process.returncode for process in processes]
    told = any("use the same GPU" in output for output in outputs)
    return {
        "passed": statuses == [2, 2] and told and not left,
        "exit_statuses": statuses,
        "outputs": [output[-500:] for output in outputs],
        "left": left,
    }


CHECKS: Mapping[str, Callable[[str], Figures]] = {
    "fault": fault,
    "memory": memory,
    "fork-after-torch": fork_after_torch,
    "fork-after-warp": fork_after_warp,
    "ground": ground,
    "same-gpu": same_gpu,
}


@contextmanager
def _cartpoles(device: str) -> Iterator[None]:
    """Open a simulation of a few cart-poles."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.session import environment, require_runtime, simulation_app

    registered_tasks()
    cfg, _ = resolve_configs(_TASK, "rsl_rl", [])
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = 16, device, 1
    launcher = {"device": device}
    require_runtime(cfg, launcher)
    with simulation_app(cfg, launcher), environment(_TASK, cfg) as env:
        env.reset()
        yield


def _ending(work: Callable[[], None]) -> Figures:
    """Return how a training would be recorded that some work ends."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the error is what is asked for
        return {
            "status": str(status_of(error)),
            "error": f"{type(error).__name__}: {first_line(error)}",
            "notes": getattr(error, "__notes__", []),
        }
    return {"status": None, "error": "no error", "notes": []}


def _forked(use: Callable[[], None]) -> Figures:
    """Count the processes that work before and after the GPU is used."""
    from ledger_lab.ledger.cores import map_on_cores

    def pid(item: int) -> int:
        return os.getpid()

    before = len({*map_on_cores(pid, range(64))})
    use()
    after = {*map_on_cores(pid, range(64))}
    return {"passed": after == {os.getpid()}, "processes_before": before, "processes_after": len(after)}


def _ground_sha256(device: str) -> str:
    """Return a hash of generated ground, of that of the training and of held-out ground."""
    from isaaclab.terrains import MeshRandomGridTerrainCfg, TerrainGeneratorCfg

    from ledger_lab.training.runners.session import held_out_config

    grid = MeshRandomGridTerrainCfg(grid_width=0.45, grid_height_range=(0.05, 0.2))
    found = hashlib.sha256()
    for ground in ("trained", "held_out"):
        cfg = TerrainGeneratorCfg(size=(4.0, 4.0), num_rows=1, num_cols=1, seed=3, sub_terrains={"grid": grid})
        terrain = SimpleNamespace(terrain_type="generator", terrain_generator=cfg)
        scene = SimpleNamespace(num_envs=4, env_spacing=1.0, terrain=terrain)
        task: Any = SimpleNamespace(scene=scene, sim=SimpleNamespace(physics=None))
        generator: Any = held_out_config(task, 1, ground=ground).scene.terrain.terrain_generator
        found.update(generator.class_type(generator, device=device).terrain_mesh.vertices.tobytes())
    return found.hexdigest()


def main(arguments: Sequence[str]) -> int:
    """Carry out a check.

    Args:
        arguments: File to write, device, name of the check.

    Returns:
        0 if it passed, else 1.
    """
    path, device, name = arguments
    found = CHECKS[name]("cuda:0" if device == "cuda" else device)
    Path(path).write_text(json.dumps(found, indent=2), encoding="utf-8")
    if not found["passed"]:
        sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
