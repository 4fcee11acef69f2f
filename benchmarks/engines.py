"""``python -m benchmarks engines``: success of the same policies on the same episodes under two physics engines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.comparison import add_json, without
from ledger_lab.errors import UserError
from ledger_lab.ledger import EvaluationStarted, Outcomes, PanelResult, Run, read_ledger
from ledger_lab.panels import Comparison, compare_paired, wilson_interval
from ledger_lab.panels.physics import NATIVE, WARP
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.units import share_within

_ENGINES = (WARP, NATIVE)


@dataclass(frozen=True, kw_only=True)
class Both:
    """Scores of one policy on the same episodes under both engines."""

    task: str
    checkpoint_sha256: str
    panel: str
    warp: Outcomes
    """Outcomes with MuJoCo-Warp."""
    native: Outcomes
    """Outcomes with MuJoCo's C code."""

    @property
    def difference(self) -> Comparison:
        """Success with MuJoCo's C code minus success with MuJoCo-Warp, paired by seed."""
        return compare_paired(self.warp.success, self.native.success, self.warp.seed)


def bench_engines(argv: Sequence[str]) -> int:
    """Compare the scores of policies under MuJoCo-Warp and under MuJoCo's C code.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If the ledger has no policy with valid scores under both engines.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks engines",
        description="Compare the success of policies under MuJoCo-Warp with their success under MuJoCo's C code, on "
        "the same seeds. The scores are read from a ledger; nothing is simulated. First score each policy under both "
        "engines: evaluate.py --task TASK --pretrained --sim physics=newton_mujoco, or physics=newton_mjwarp if it was "
        "trained with MuJoCo's C code.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks engines logs",
    )
    parser.add_argument("log_root", metavar="LOG_ROOT", type=Path, help="Ledger that contains the scores.")
    add_json(parser, "the successes of every policy and the differences")
    args = parser.parse_args(argv)
    found = [each for run in read_ledger(args.log_root).runs for each in scored_under_both(run)]
    if not found:
        raise UserError(f"{args.log_root} contains no policy with scores under both engines: see --help")
    make_console().print(_table(found))
    write_findings(args.json, policies=[_plain(each) for each in found])
    return 0


def scored_under_both(run: Run) -> Iterator[Both]:
    """Yield the policies of a run that have a valid score under both engines, on the same episodes of a panel.

    Everything but the physics and the packages is the same in both scores.

    Args:
        run: The run.

    Raises:
        UserError: If the scores have different episodes, or if there are several with other settings of one engine.
    """
    scores: dict[tuple[str, str, str], dict[str, dict[str, Outcomes]]] = {}
    for evaluation in run.evaluations:
        fields = {each.panel_id: each.panel_fields for each in evaluation.of(EvaluationStarted)}
        for row in evaluation.of(PanelResult):
            if row.invalid is None:
                physics = fields[row.panel_id]["physics"]
                scored = (row.checkpoint_sha256, row.panel, without(fields[row.panel_id], "physics", "packages"))
                by_settings = scores.setdefault(scored, {}).setdefault(physics["engine"], {})
                by_settings[without(physics)] = row.outcomes
    for (checkpoint, panel, _), by_engine in scores.items():
        if by_engine.keys() >= {*_ENGINES}:
            if any(len(by_engine[name]) > 1 for name in _ENGINES):
                raise UserError(
                    f"run {run.run_id} has scores on {panel} with several settings of one engine: copy the evaluations "
                    "with one of them to a ledger of their own"
                )
            warp, native = (next(iter(by_engine[name].values())) for name in _ENGINES)
            if (warp.cell, warp.seed) != (native.cell, native.seed):
                raise UserError(f"run {run.run_id}: its scores on {panel} under both engines have different episodes")
            yield Both(task=run.declared.task, checkpoint_sha256=checkpoint, panel=panel, warp=warp, native=native)


def _plain(both: Both) -> dict[str, Any]:
    """Return the scores of a policy as JSON."""
    return {
        "task": both.task,
        "panel": both.panel,
        "checkpoint_sha256": both.checkpoint_sha256,
        "episodes": both.warp.episodes,
        "successes": {WARP: both.warp.successes, NATIVE: both.native.successes},
        "difference": asdict(both.difference),
    }


def _table(found: Sequence[Both]) -> Table:
    """Return one row per policy."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("task", "MuJoCo-Warp (95 %)", "MuJoCo's C code (95 %)", "difference (95 %)", "only one succeeds", "p"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for both in found:
        shares = [
            share_within(each.successes / each.episodes, wilson_interval(each.successes, each.episodes))
            for each in (both.warp, both.native)
        ]
        paired = both.difference
        table.add_row(both.task, *shares, paired.points, f"{paired.only_first} / {paired.only_second}", paired.p_text)
    return table
