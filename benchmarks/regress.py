"""Benchmark: what a user feels, compared with an older checkout of LedgerLab."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table

from benchmarks.comparison import ROOT, add_json
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings

_RUNS, _ROWS = 30_000, 1_200_000
_SAMPLES = 1_000_000
"""Sizes of the synthetic ledgers: many small runs, and one run with many samples."""

_WRITE = "import sys\nfrom pathlib import Path\nfrom benchmarks.synthetic_ledger import write_ledger\n" + (
    "write_ledger(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))\n"
)


@dataclass(frozen=True)
class Checkout:
    """A source tree, run with the packages of this environment or of its own."""

    root: Path
    figures: dict[str, list[float]] = field(default_factory=dict)
    """What was measured, by the name of the figure."""

    @property
    def python(self) -> str:
        """Its own Python, if it has an environment; otherwise this one."""
        own = self.root / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    def run(self, *arguments: str | Path) -> tuple[float, str]:
        """Run Python in the checkout to its end, and return the wall time [s] and what was printed.

        Args:
            arguments: Arguments of Python.

        Raises:
            RuntimeError: If the program fails.
        """
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.root / "source"), str(self.root)])}
        began_s = time.perf_counter()
        done = subprocess.run(
            [self.python, *map(str, arguments)], cwd=self.root, env=environ, capture_output=True, text=True, check=False
        )
        spent_s = time.perf_counter() - began_s
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, arguments))} of {self.root} failed: {done.stderr[-2000:]}")
        return spent_s, done.stdout

    def note(self, name: str, value: float) -> None:
        """Keep a figure."""
        self.figures.setdefault(name, []).append(value)


def _help(checkout: Checkout, scratch: Path) -> None:
    """Measure how long ``--help`` takes."""
    checkout.note("train.py --help [s]", checkout.run("scripts/train.py", "--help")[0])


def _start(checkout: Checkout, scratch: Path) -> None:
    """Measure how long a training of one iteration takes, nearly all of it start-up."""
    log_root = Path(tempfile.mkdtemp(dir=scratch))
    short = ("--num_envs", "64", "--max_iterations", "1", "--no_eval", "--device", "cpu", "--log_root", log_root)
    checkout.note("start-up: one iteration [s]", checkout.run("scripts/train.py", *short)[0])


def _main_job(checkout: Checkout, scratch: Path) -> None:
    """Measure how long the cart-pole takes until it is proven, and how fast it trains."""
    log_root = Path(tempfile.mkdtemp(dir=scratch))
    seed = str(11 + len(checkout.figures.get("main job: cart-pole to its target [s]", ())))
    spent_s, _ = checkout.run("scripts/train.py", "--seed", seed, "--device", "cpu", "--log_root", log_root)
    checkout.note("main job: cart-pole to its target [s]", spent_s)
    (run,) = json.loads(checkout.run("scripts/report.py", "--log_root", log_root, "--json", "-")[1])["runs"]
    checkout.note("training on the CPU [steps/s]", run["env_steps_per_s"])


def _reports(name: str, runs: int, rows: int) -> Callable[[Checkout, Path], None]:
    """Return a measurement of the report of a synthetic ledger, which each checkout writes for itself, once."""

    def measure(checkout: Checkout, scratch: Path) -> None:
        log_root = scratch / f"{checkout.root.name}-{runs}"
        if not log_root.exists():
            log_root.mkdir()
            checkout.run("-c", _WRITE, log_root, str(runs), str(rows))
        checkout.note(name, checkout.run("scripts/report.py", "--log_root", log_root)[0])

    return measure


PARTS: Mapping[str, Callable[[Checkout, Path], None]] = {
    "help": _help,
    "start": _start,
    "main_job": _main_job,
    "runs": _reports(f"report of {_RUNS:,} runs [s]", _RUNS, _ROWS),
    "samples": _reports(f"report of {_SAMPLES:,} samples [s]", 1, _SAMPLES),
}
"""What is measured, by the names that ``--parts`` takes."""


def ratios(new: Checkout, old: Checkout) -> list[tuple[str, float, float, float]]:
    """Return each figure with its medians in both checkouts, and the ratio of new to old.

    Args:
        new: This checkout.
        old: The older one.
    """
    found = []
    for name, values in new.figures.items():
        now, before = statistics.median(values), statistics.median(old.figures[name])
        found.append((name, before, now, now / before))
    return found


def bench_regress(argv: Sequence[str]) -> int:
    """Measure both checkouts in turns, and print the ratios.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks regress",
        description="Compare this checkout with an older one: --help, start-up, the main job (the cart-pole until its "
        "policy is proven), training speed on the CPU, and reports of large synthetic ledgers. Both checkouts are "
        "measured in turns, and the medians are printed. A checkout with a .venv uses it.",
    )
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT", help="Folder of the older checkout.")
    parser.add_argument("--rounds", type=int, default=3, help="Measurements of each checkout (default: 3).")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="What to measure (default: all)."
    )
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if not (args.old / "scripts" / "train.py").is_file():
        raise UserError(f"{args.old}: there is no scripts/train.py: name the folder of a checkout")
    if args.rounds < 1:
        raise UserError("--rounds must be at least 1")
    old, new = Checkout(args.old.resolve()), Checkout(ROOT)
    with tempfile.TemporaryDirectory(prefix="regress-") as scratch:
        folders = {checkout.root: Path(tempfile.mkdtemp(dir=scratch)) for checkout in (old, new)}
        for part in args.parts:
            for number in range(args.rounds):
                for checkout in (old, new) if number % 2 == 0 else (new, old):
                    PARTS[part](checkout, folders[checkout.root])
    table = Table("figure", "old", "new", "new / old", box=None, pad_edge=False)
    for name, before, now, ratio in ratios(new, old):
        table.add_row(name, f"{before:,.3g}", f"{now:,.3g}", f"{ratio:.2f}")
    make_console().print(table)
    write_findings(args.json, old=old.figures, new=new.figures)
    return 0
