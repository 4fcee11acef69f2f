"""``python -m benchmarks ground``: success on held-out ground, compared with success on the ground of the training."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from rich.table import Table

from benchmarks.comparison import add_json, without
from ledger_lab.errors import UserError
from ledger_lab.ledger import EvaluationStarted, Outcomes, PanelResult, Run, read_ledger
from ledger_lab.panels import Comparison, compare_paired, wilson_interval
from ledger_lab.panels.ground import declared_ground, generated_terrain
from ledger_lab.panels.panel import stream_key
from ledger_lab.panels.streams import OwnDraws, SlotStreams
from ledger_lab.panels.terrain import place_on_patches
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.units import share_within

_GROUNDS = ("trained", "held_out")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """An episode on both grounds: the same seed, level, kind of ground, start and command."""

    seed: int
    level: int
    """Row of the patch: 0 is easiest."""
    kind: int
    """Column of the patch."""
    trained: bool
    """Whether the policy succeeded on the ground of the training."""
    held_out: bool
    """Whether it succeeded on held-out ground."""


def bench_ground(argv: Sequence[str]) -> int:
    """Compare the scores of one checkpoint on both grounds.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If the ledger has no scores of one checkpoint on both grounds.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks ground",
        description="Compare the success of a policy on the patches of its training with its success on held-out "
        "patches, by the level of the patches, in otherwise the same simulation. The scores are read from a ledger; "
        "nothing is simulated. First score the policy on both grounds: evaluate.py RUN --sim ground=trained, or --sim "
        "ground=held_out if the run was trained with an older version.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks ground logs",
    )
    parser.add_argument(
        "log_root",
        metavar="LOG_ROOT",
        type=Path,
        help="Ledger that contains the scores, and evaluations of no other run.",
    )
    add_json(parser, "the outcomes on every patch")
    args = parser.parse_args(argv)
    registered_tasks()
    runs = [run for run in read_ledger(args.log_root).runs if run.evaluations]
    if len(runs) != 1:
        raise UserError(f"{args.log_root} contains evaluations of {len(runs)} runs: it must be one run")
    pairs = pairs_of(runs[0])
    if not pairs:
        raise UserError(f"{args.log_root} contains no checkpoint with scores on both grounds: see --help")
    found = {how: compare(pairs, by_patch=how == "patch") for how in ("seed", "patch")}
    console = make_console()
    console.print(_table(pairs))
    console.print(
        f"held-out minus trained ground: {found['seed'].points}, paired by seed; {found['patch'].points} if the "
        f"episodes of a patch count as one; only on trained ground {found['seed'].only_first}, only on held-out ground "
        f"{found['seed'].only_second} of {len(pairs)} episodes, p = {found['seed'].p_text} (exact McNemar test)",
        markup=False,
    )
    declared = runs[0].declared
    write_findings(
        args.json,
        task=declared.task,
        run_id=declared.run_id,
        checkpoints=sorted({checkpoint_sha256 for checkpoint_sha256, *_ in _on_both_grounds(runs[0])}),
        difference={how: asdict(comparison) for how, comparison in found.items()},
        patches=_by_patch(pairs),
    )
    return 0


def pairs_of(run: Run) -> list[Pair]:
    """Return the episodes of a run's evaluations that were scored on both grounds.

    Everything but the ground and the packages is the same in both scores.

    Args:
        run: The run.

    Raises:
        UserError: If there are such episodes in several simulations, for example with several engines.
    """
    return [pair for grounds in _on_both_grounds(run).values() for pair in _paired(run, grounds)]


def _on_both_grounds(run: Run) -> dict[tuple[str, str, str], dict[str, Outcomes]]:
    """Return the scores on both grounds, by the hash of the checkpoint, the panel and the rest of the simulation."""
    scores: dict[tuple[str, str, str], dict[str, Outcomes]] = {}
    for journal in run.evaluations:
        fields = {row.panel_id: row.panel_fields for row in journal.of(EvaluationStarted)}
        for row in journal.of(PanelResult):
            if row.invalid is None:
                panel_fields = fields[row.panel_id]
                rest = without(panel_fields, "ground", "packages", "scene")
                same = scores.setdefault((row.checkpoint_sha256, row.panel, rest), {})
                same[declared_ground(panel_fields)] = row.outcomes
    on_both = {scored: grounds for scored, grounds in scores.items() if set(grounds) == set(_GROUNDS)}
    if len(on_both) > len({scored[:2] for scored in on_both}):
        raise UserError(
            f"run {run.run_id} has scores on both grounds in several simulations, for example with several engines: "
            "copy the evaluations in one of them to a ledger of their own"
        )
    return on_both


def _paired(run: Run, grounds: Mapping[str, Outcomes]) -> list[Pair]:
    """Pair the episodes of one panel."""
    trained, held_out = (grounds[name] for name in _GROUNDS)
    if (trained.cell, trained.seed) != (held_out.cell, held_out.seed):
        raise UserError("the scores on both grounds have different episodes")
    declared = run.declared
    env_cfg, _ = resolve_configs(declared.task, declared.rl_library, declared.overrides, declared.agent)
    generator = generated_terrain(env_cfg).terrain_generator
    levels, kinds = patches(declared.task, trained.seed, generator.num_rows, generator.num_cols)
    return [
        Pair(seed=seed, level=level, kind=kind, trained=here, held_out=there)
        for seed, level, kind, here, there in zip(
            trained.seed, levels, kinds, trained.success, held_out.success, strict=True
        )
    ]


def patches(task: str, seeds: Sequence[int], levels: int, kinds: int) -> tuple[list[int], list[int]]:
    """Return the patches of episodes, drawn as a simulation draws them.

    Args:
        task: Gymnasium id of the task.
        seeds: Seeds of the episodes.
        levels: Rows of patches of one ground.
        kinds: Columns of patches.

    Returns:
        Level and column of each episode.
    """
    count = len(seeds)
    terrain = SimpleNamespace(
        terrain_origins=torch.zeros(levels, kinds, 3),
        terrain_levels=torch.zeros(count, dtype=torch.long),
        terrain_types=torch.zeros(count, dtype=torch.long),
        env_origins=torch.zeros(count, 3),
    )
    base: Any = SimpleNamespace(scene=SimpleNamespace(terrain=terrain), device="cpu")
    streams, slots = SlotStreams(count), np.arange(count)
    streams.restart(slots, np.array([stream_key("episode", task, seed) for seed in seeds], dtype=np.uint64))
    with OwnDraws(streams, slots, "the patch"):
        place_on_patches(base, torch.arange(count))
    return terrain.terrain_levels.tolist(), terrain.terrain_types.tolist()


def compare(pairs: Sequence[Pair], by_patch: bool) -> Comparison:
    """Compare held-out ground with the ground of the training.

    Args:
        pairs: The episodes.
        by_patch: Whether the episodes of a patch are one cluster, because they share its shape on each ground.
    """
    numbers = {patch: number for number, patch in enumerate(sorted({(pair.level, pair.kind) for pair in pairs}))}
    clusters = [numbers[pair.level, pair.kind] for pair in pairs] if by_patch else None
    return compare_paired([pair.trained for pair in pairs], [pair.held_out for pair in pairs], clusters)


def _by_patch(pairs: Sequence[Pair]) -> list[dict[str, int]]:
    """Count the episodes of each patch by their outcomes on both grounds."""
    found = []
    for level, kind in sorted({(pair.level, pair.kind) for pair in pairs}):
        outcomes = Counter((pair.trained, pair.held_out) for pair in pairs if (pair.level, pair.kind) == (level, kind))
        counts = {
            "both": outcomes[True, True],
            "only_trained": outcomes[True, False],
            "only_held_out": outcomes[False, True],
            "neither": outcomes[False, False],
        }
        found.append({"level": level, "kind": kind, **counts})
    return found


def _table(pairs: Sequence[Pair]) -> Table:
    """Return the successes on both grounds, by level."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("level", "episodes", "trained ground (95 %)", "held-out ground (95 %)"):
        table.add_column(name, justify="right")
    levels = sorted({pair.level for pair in pairs})
    for name, chosen in (*((str(level), [level]) for level in levels), ("all", levels)):
        here = [pair for pair in pairs if pair.level in chosen]
        shares = [[getattr(pair, ground) for pair in here] for ground in _GROUNDS]
        cells = [share_within(sum(each) / len(each), wilson_interval(sum(each), len(each))) for each in shares]
        table.add_row(name, str(len(here)), *cells)
    return table
