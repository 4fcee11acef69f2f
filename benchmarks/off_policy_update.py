"""``python -m benchmarks off_policy_update``: the parts of a gradient step of SAC and TD3, and ways to make it faster.

The learner is the one that a training has, with a replay memory that is full of random transitions. Only the simulation
is missing.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.comparison import add_json
from benchmarks.off_policy_learner import Turns, cases
from benchmarks.off_policy_parts import PARTS, PUBLISHED, parts_ms
from benchmarks.off_policy_variants import VARIANTS, compare, skipped
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress


def bench_off_policy_update(argv: Sequence[str]) -> int:
    """Time the parts of a gradient step, and whole updates with each change, beside updates as they are.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a number is not positive, or there is no such device.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks off_policy_update",
        description="Measure the parts of a gradient step of SAC and of TD3 (SKRL): sampling, targets, critics, actor, "
        "entropy and soft update. Then measure what changes of the update do: the soft update with "
        "torch._foreach_lerp_, torch.compile of the networks and of the whole update, and CUDA graphs (on a GPU). Each "
        "change takes turns with the update as it is, on the same batches. The first updates of both are also compared "
        "number by number. The sizes are those of the cart-pole's recipe, and those of a quadruped with 48 "
        "observations, 12 actions, two hidden layers of 256 and batches of 1024. The file of --json is written anew "
        "after each measurement.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks off_policy_update --device cuda --json update.json",
    )
    parser.add_argument("--updates", type=int, default=10, help="Updates of a turn (default: 10).")
    parser.add_argument("--rounds", type=int, default=5, help="Turns of each variant (default: 5).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    parser.add_argument(
        "--algorithm", nargs="+", choices=["sac", "td3"], default=["sac", "td3"], help="Algorithms (default: both)."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="Two turns of four updates, and nothing is compiled. This checks the benchmark, and says nothing about "
        "speed.",
    )
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if min(args.updates, args.rounds) < 1:
        raise UserError("--updates and --rounds must be at least 1")
    if args.quick:
        args.updates, args.rounds = 4, 2
    learners = cases(replay_steps=8) if args.quick else cases()

    import torch

    if args.device != "cpu" and not torch.cuda.is_available():
        raise UserError(f"--device {args.device}: this machine has no GPU that torch can use: leave it out")
    learners = [each for each in learners if each.algorithm in args.algorithm]
    turns = Turns(updates=args.updates, rounds=args.rounds, device=args.device)
    left_out = skipped(args.device, quick=args.quick)
    figures: list[dict[str, Any]] = []
    console, load, steps = make_console(), os.getloadavg()[0], len(learners) * (1 + len(VARIANTS))

    def advance(progress: Progress) -> None:
        """Show the progress, and write the figures so far: a user may end the benchmark while a compiler works."""
        done = sum(1 + len(each["variants"]) for each in figures)
        write_findings(
            args.json,
            hardware=hardware_facts(),
            arguments={name: getattr(args, name) for name in ("device", "algorithm", "updates", "rounds", "quick")},
            load=load,
            published=PUBLISHED,
            complete=done == steps,
            figures=figures,
        )
        progress.advance(done)

    with Progress(console, "updating", steps) as progress:
        advance(progress)  # a file that can't be written shows before the work
        for case in learners:
            parts = parts_ms(case, turns)
            figures.append({"algorithm": case.algorithm, "size": case.name, "parts_ms": parts, "variants": {}})
            advance(progress)
            for variant in VARIANTS:
                reason = left_out.get(variant)
                measured = {"not_measured": reason} if reason else compare(case, variant, turns)
                figures[-1]["variants"][variant] = measured
                advance(progress)
    console.print(_table_of_parts(figures), _table_of_variants(figures), sep="\n\n")
    return 0


def _table_of_parts(figures: Sequence[dict[str, Any]]) -> Table:
    """Return the shares of the parts, beside the published ones."""
    table = Table("algorithm", "size", "gradient step", *PARTS, box=None, pad_edge=False)
    for found in figures:
        spent_ms, whole_ms = found["parts_ms"], sum(found["parts_ms"].values())
        shares = (f"{spent_ms[part] / whole_ms:.0%}" if part in spent_ms else "–" for part in PARTS)
        table.add_row(found["algorithm"], found["size"], f"{whole_ms:.2f} ms", *shares)
    published = (f"{PUBLISHED[part]:.0%}" if part in PUBLISHED else "–" for part in PARTS)
    table.add_row("sac", "published, rlox", "–", *published)
    return table


def _table_of_variants(figures: Sequence[dict[str, Any]]) -> Table:
    """Return the effect of each change."""
    titles = ("algorithm", "size", "change", "as it is", "changed", "ratio", "first turn", "largest difference")
    table = Table(*titles, box=None, pad_edge=False)
    for found, (variant, measured) in itertools.chain.from_iterable(
        zip(itertools.repeat(found), found["variants"].items(), strict=False) for found in figures
    ):
        row = [found["algorithm"], found["size"], variant]
        if "not_measured" in measured:
            table.add_row(*row, "–", "–", f"not measured: {measured['not_measured']}")
            continue
        least, middle, most = measured["ratio"]
        row += [f"{measured[name]:.2f} ms" for name in ("as_it_is_ms", "changed_ms")]
        row += [f"{middle:.2f} ({least:.2f} to {most:.2f})", f"{measured['first_turn_s']:.1f} s"]
        table.add_row(*row, f"{measured['largest_difference']:.1e}")
    return table
