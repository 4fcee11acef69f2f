"""``python -m benchmarks replay``: LedgerLab's replay memory beside SKRL's: size, writing, drawing, and saving."""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings

if TYPE_CHECKING:
    import torch

_NAMES = ("observations", "actions", "rewards", "next_observations", "terminated")
"""What SKRL's agents draw of each transition."""
_TIMEOUTS = 0.001
"""Share of the transitions that end with a timeout."""
_STOCK, _OURS, _SUMS = "SKRL", "LedgerLab", "LedgerLab, sums of rewards"
"""The memories."""
_CALLS = ("write a step", "draw a batch")
"""What is measured."""


def bench_replay(argv: Sequence[str]) -> int:
    """Fill the memories with the same transitions, draw from them in turn, and save one of LedgerLab's.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a size is not positive.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks replay",
        description="Measure memory per transition, and the times to write a step and to draw a batch, of LedgerLab's "
        "replay memory, without and with sums of rewards, and of SKRL's. The memories are full, and are written "
        "and drawn from in turn. Then measure the time to save LedgerLab's for the first time, and after some new "
        "steps. The default sizes are those of a quadruped with 1024 environments.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks replay --num_envs 4096 --batch 8192 --device cuda",
    )
    sizes = {
        "observations": (48, "Number of values of an observation"),
        "actions": (12, "Number of values of an action"),
        "num_envs": (1024, "Number of environments"),
        "steps": (1024, "Steps of each environment that the memories hold"),
        "batch": (4096, "Transitions per batch"),
        "n_step": (3, "Rewards in a sum"),
        "repeats": (500, "Number of steps and of batches to measure"),
    }
    for name, (usual, what) in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=usual, help=f"{what} (default: {usual}).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    parser.add_argument("--folder", type=Path, default=None, help="Folder to save in (default: that of the system).")
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if min(getattr(args, name) for name in sizes) < 1:
        raise UserError("all sizes must be at least 1")

    import torch

    torch.manual_seed(0)
    device = torch.device(args.device)
    with torch.device(device):
        memories = _memories(args, device)
        step = _transition(args)
        for _ in range(args.steps):
            for memory in memories.values():
                memory.add_samples(**step)
        times = _times(memories, args, step)
    transitions = args.steps * args.num_envs
    stock = memories[_STOCK]
    stock_bytes = sum(tensor.nbytes for tensor in stock.tensors.values()) + stock.all_sequence_indexes.nbytes
    held = {_STOCK: stock_bytes / transitions}
    held |= {name: memories[name].replay.nbytes / transitions for name in (_OURS, _SUMS)}
    saved = _save(memories[_OURS].replay, args.folder)
    table = Table("", "bytes per transition", *_CALLS, box=None, pad_edge=False)
    for name in memories:
        spent = [f"{times[name, what]:.0f} µs" for what in _CALLS]
        table.add_row(name, f"{held[name]:.0f}", *spent)
    console = make_console()
    console.print(table)
    for what, (size_bytes, spent_s) in saved.items():
        console.print(f"{what}: {size_bytes / 1e6:.0f} MB in {spent_s:.2f} s, {size_bytes / 1e6 / spent_s:.0f} MB/s")
    write_findings(
        args.json,
        hardware=hardware_facts(),
        arguments={name: getattr(args, name) for name in (*sizes, "device")},
        bytes_per_transition=held,
        medians_us={f"{name} {what}": spent for (name, what), spent in times.items()},
        saves={what: {"size_bytes": size_bytes, "spent_s": spent_s} for what, (size_bytes, spent_s) in saved.items()},
    )
    return 0


def _memories(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Return empty memories of each kind."""
    import torch
    from skrl.memories.torch import RandomMemory

    from ledger_lab.off_policy.skrl.memory import SkrlMemory

    kinds: dict[str, Any] = {_STOCK: RandomMemory, _OURS: SkrlMemory, _SUMS: SkrlMemory}
    memories = {
        name: kind(memory_size=args.steps, num_envs=args.num_envs, device=device, replacement=True)
        for name, kind in kinds.items()
    }
    memories[_SUMS].sum_rewards(args.n_step, SimpleNamespace(discount_factor=0.99))
    for memory in memories.values():
        for name in ("observations", "next_observations"):
            memory.create_tensor(name, size=args.observations, dtype=torch.float32)
        memory.create_tensor("actions", size=args.actions, dtype=torch.float32)
        memory.create_tensor("rewards", size=1, dtype=torch.float32)
        memory.create_tensor("terminated", size=1, dtype=torch.bool)
    return memories


def _transition(args: argparse.Namespace) -> dict[str, torch.Tensor]:
    """Return a step of all environments, after which a few episodes have timed out."""
    import torch

    seen = torch.randn(args.num_envs, args.observations)
    timed_out = torch.rand(args.num_envs, 1) < _TIMEOUTS
    return {
        "observations": seen,
        "next_observations": torch.where(timed_out, seen, seen + 0.1),
        "actions": torch.randn(args.num_envs, args.actions),
        "rewards": torch.randn(args.num_envs, 1),
        "terminated": torch.zeros(args.num_envs, 1, dtype=torch.bool),
    }


def _times(
    memories: dict[str, Any], args: argparse.Namespace, step: dict[str, torch.Tensor]
) -> dict[tuple[str, str], float]:
    """Return the median times of the calls that a memory has, by memory and call [µs]."""
    import torch

    spent: dict[tuple[str, str], list[float]] = {}
    for _ in range(args.repeats):
        for name, memory in memories.items():
            draw = functools.partial(memory.sample, names=_NAMES, batch_size=args.batch)
            calls: list[Callable[[], object]] = [functools.partial(memory.add_samples, **step), draw]
            for what, call in zip(_CALLS, calls, strict=True):
                begun = time.perf_counter()
                call()
                if args.device.startswith("cuda"):
                    torch.cuda.synchronize(args.device)
                spent.setdefault((name, what), []).append(time.perf_counter() - begun)
    return {of: 1e6 * statistics.median(each[len(each) // 10 :]) for of, each in spent.items()}


def _save(memory: Any, within: Path | None) -> dict[str, tuple[int, float]]:  # noqa: ANN401 - imported late
    """Return size [B] and time [s] of a save, and of restoring."""
    import torch

    from ledger_lab.off_policy.replay_memory import ReplayMemory

    assert isinstance(memory, ReplayMemory)
    with tempfile.TemporaryDirectory(dir=within) as folder:
        path = Path(folder, "memory.pt")
        begun = time.perf_counter()
        torch.save(memory.state(), path)
        found = {"save": (path.stat().st_size, time.perf_counter() - begun)}
        begun = time.perf_counter()
        memory.restore(torch.load(path, weights_only=True, map_location="cpu"))
        found["restore"] = (path.stat().st_size, time.perf_counter() - begun)
    return found
