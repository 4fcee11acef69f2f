"""``python -m benchmarks optimizers``: Adam's step by loop, foreach and fused, beside the gradients it follows."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings

if TYPE_CHECKING:
    import torch

_KINDS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def bench_optimizers(argv: Sequence[str]) -> int:
    """Time one gradient step of a recipe's networks, and print the optimizer's share.

    Policy and value function are networks of the same widths, as in PPO. All three implementations step in turn, on the
    same gradients.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a size is not positive.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks optimizers",
        description="Measure the time of a step of the optimizer Adam in three forms: with a loop over "
        "parameters, with foreach and with fused. For comparison, the benchmark also measures the "
        "forward and backward passes of one minibatch. The default sizes are those of "
        "LedgerLab-Cartpole.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks optimizers --hidden 256 128 --minibatch 8192",
    )
    parser.add_argument("--observations", type=int, default=4, help="Number of values of an observation (default: 4).")
    parser.add_argument(
        "--hidden", type=int, nargs="+", default=[32, 32], help="Widths of the hidden layers (default: 32 32)."
    )
    parser.add_argument("--minibatch", type=int, default=2048, help="Number of samples of a minibatch (default: 2048).")
    parser.add_argument("--repeats", type=int, default=500, help="Number of steps of each form of Adam (default: 500).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if min(args.observations, args.minibatch, args.repeats, *args.hidden) < 1:
        raise UserError("all sizes must be at least 1")

    import torch

    parameters, gradients = gradient_step(args.observations, args.hidden, args.minibatch, args.device)
    optimizers = {kind: torch.optim.Adam(parameters, lr=1e-3, **options) for kind, options in _KINDS.items()}
    steps: dict[str, Callable[[], object]] = {"gradients": gradients}
    steps |= {kind: optimizer.step for kind, optimizer in optimizers.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(args.repeats + 10):
        for name, step in steps.items():
            begun = time.perf_counter()
            step()
            if args.device.startswith("cuda"):
                torch.cuda.synchronize(args.device)
            times[name].append(time.perf_counter() - begun)
    medians_us = {name: 1e6 * statistics.median(spent[10:]) for name, spent in times.items()}
    table = Table("", "median", "of a gradient step", box=None, pad_edge=False)
    table.add_row("gradients", f"{medians_us['gradients']:.0f} µs", "")
    for kind in _KINDS:
        whole = medians_us["gradients"] + medians_us[kind]
        table.add_row(f"Adam, {kind}", f"{medians_us[kind]:.0f} µs", f"{medians_us[kind] / whole:.1%}")
    make_console().print(table)
    write_findings(args.json, hardware=hardware_facts(), medians_us=medians_us)
    return 0


def gradient_step(
    observations: int, hidden_dims: Sequence[int], minibatch: int, device: str
) -> tuple[list[torch.nn.Parameter], Callable[[], None]]:
    """Make a policy and a value network on random observations.

    Args:
        observations: Number of values of an observation.
        hidden_dims: Widths of the hidden layers.
        minibatch: Number of observations.
        device: Their device.

    Returns:
        The parameters of both networks, and a function that computes their gradients and clips them.
    """
    import torch

    torch.manual_seed(0)
    widths = [observations, *hidden_dims]
    modules: list[list[torch.nn.Module]] = []
    for _ in ("policy", "value"):
        layers: list[torch.nn.Module] = []
        for width, following in zip(widths, widths[1:], strict=False):
            layers += [torch.nn.Linear(width, following), torch.nn.ELU()]
        modules.append([*layers, torch.nn.Linear(widths[-1], 1)])
    networks = torch.nn.ModuleList(torch.nn.Sequential(*layers) for layers in modules).to(device)
    parameters = list(networks.parameters())
    batch = torch.randn(minibatch, observations, device=device)

    def gradients() -> None:
        networks.zero_grad()
        sum((network(batch).square().mean() for network in networks), torch.zeros((), device=device)).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)

    return parameters, gradients
