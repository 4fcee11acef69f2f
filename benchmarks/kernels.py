"""``python -m benchmarks kernels``: kernels of tasks, compiled for a GPU on a machine without one."""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.comparison import require_tasks, run_python
from benchmarks.gpu.parts import TASKS
from benchmarks.gpu.surroundings import CACHES
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.progress import Progress

_OLDEST = 75
"""Oldest architecture for which Warp compiles by itself."""


def bench_kernels(argv: Sequence[str]) -> int:
    """Compile the kernels of each task.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a task is unknown, or Warp cannot compile for the architecture.
        RuntimeError: If a training fails.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks kernels",
        description="Compile the kernels of tasks for a GPU, on a machine that needs none. `benchmarks gpu --caches "
        "FOLDER` then finds them on the machine with the GPU, and spends its minutes on measurements. Each task is "
        "trained for one iteration on the CPU, and each module that Warp loads is compiled for the GPU, too. Kernels "
        "that only exist on a GPU are not among them.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks kernels --architecture 90 --caches caches",
    )
    parser.add_argument(
        "--architecture",
        type=int,
        required=True,
        metavar="N",
        help="Compute capability of the GPU without its dot, for example 90 for an H100 or H200.",
    )
    parser.add_argument(
        "--caches", type=Path, required=True, metavar="FOLDER", help="Folder for compiled kernels, as of `gpu`."
    )
    parser.add_argument(
        "--tasks", nargs="+", default=TASKS, metavar="TASK", help="Tasks (default: those of the GPU kit)."
    )
    args = parser.parse_args(argv)
    require_tasks(args.tasks)
    if args.caches.exists() and not args.caches.is_dir():
        raise UserError(f"--caches {args.caches} is not a folder: name a folder for compiled kernels")
    _require_architecture(args.architecture)
    table = Table("task", "modules", "compiled in", "longest", box=None, pad_edge=False)
    console = make_console()
    with Progress(console, "compiling", len(args.tasks)) as progress:
        for done, task in enumerate(args.tasks, 1):
            compiled_s = _compile(task, args.architecture, args.caches)
            spent_s = sorted(compiled_s.values())
            table.add_row(task, str(len(spent_s)), f"{sum(spent_s):.0f} s", f"{spent_s[-1]:.0f} s")
            progress.advance(done)
    console.print(table)
    return 0


def _require_architecture(architecture: int) -> None:
    """Refuse an architecture for which Warp's compiler has no code."""
    import warp

    warp.init()
    known = sorted(each for each in warp._src.context.runtime.nvrtc_supported_archs if each >= _OLDEST)
    if architecture not in known:
        names = ", ".join(map(str, known)) or "none"
        raise UserError(f"--architecture {architecture}: this Warp compiles for {names}")


def _compile(task: str, architecture: int, caches: Path) -> dict[str, float]:
    """Train a task for one iteration, with two episodes of its panel; return the seconds per module."""
    from ledger_lab.panels.panel import find_panels
    from ledger_lab.tasks.registry import default_panel

    with tempfile.TemporaryDirectory() as folder:
        found, scored, name = Path(folder) / "compiled.json", ["--no_eval"], default_panel(task)
        if name is not None:
            text = find_panels().get(name, Path(name)).read_text(encoding="utf-8")
            panel = Path(folder) / "panel.toml"
            panel.write_text(re.sub(r"(?m)^count = .*$", "count = 2", text), encoding="utf-8")
            scored = ["--panel", str(panel), "--target", "0.1", "--no_stop_at_target"]  # provable with two episodes
        command = [
            *("-m", "benchmarks.gpu.ahead", str(architecture), str(found), "--task", task),
            *("--device", "cpu", "physics=newton_mjwarp", "--num_envs", "8", "--max_iterations", "1", "--seed", "1"),
            *(*scored, "--log_root", folder),
        ]
        environ = os.environ | {"WARP_CACHE_PATH": str(caches.absolute() / CACHES["WARP_CACHE_PATH"])}
        run_python(command, task, environ=environ)
        compiled_s: dict[str, float] = json.loads(found.read_text(encoding="utf-8"))
    return compiled_s
