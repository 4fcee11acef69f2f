"""``python -m benchmarks overhead``: the cost of metering, compared with plain ``isaaclab train``."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.table import Table
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.comparison import add_json, run_python, script
from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.units import quantity

_HEARTBEATS = {"rsl_rl": "Perf/total_fps", "rl_games": "info/epochs", "skrl": "Policy / Standard deviation"}
"""A scalar that each library writes once per iteration in both arms; only its time stamps are used."""

_ARMS = ("metered", "plain")
_PLAIN_DEVICES = {
    "rsl_rl": ["agent.device"],
    "rl_games": ["agent.params.config.device", "agent.params.config.device_name"],
    "skrl": [],
}
"""Overrides that make the agent of ``isaaclab train`` compute on the requested device."""


@dataclass(frozen=True, kw_only=True)
class _Training:
    """What both arms train."""

    task: str
    rl_library: str
    num_envs: int
    max_iterations: int
    skip: int
    """Iterations to leave out at the beginning."""
    device: str
    in_turn: bool
    """Whether the arms never train at the same time."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One training of each arm, at the same time or in immediate succession."""

    first: str
    """The arm on the first half of the cores, or the arm that ran first."""
    together: bool
    """Whether both ran at the same time."""
    metered_steps_per_s: float
    plain_steps_per_s: float
    iterations: int
    """Number of compared iterations of the slower arm."""

    @property
    def ratio(self) -> float:
        """Metered ÷ plain."""
        return self.metered_steps_per_s / self.plain_steps_per_s


@dataclass(frozen=True, kw_only=True)
class _Loop:
    """End times of a training's iterations."""

    beats_s: list[float]
    """End times [s]."""
    steps_per_beat: int
    """Environment steps of an iteration."""

    def within(self, begin_s: float, end_s: float) -> _Loop:
        """Return the iterations that ended between two times."""
        return replace(self, beats_s=[beat_s for beat_s in self.beats_s if begin_s <= beat_s <= end_s])

    @property
    def iterations(self) -> int:
        """Number of iterations with known start and end."""
        return len(self.beats_s) - 1

    @property
    def steps_per_s(self) -> float:
        """Environment steps per second."""
        return self.iterations * self.steps_per_beat / (self.beats_s[-1] - self.beats_s[0])


def bench_overhead(argv: Sequence[str]) -> int:
    """Train both ways, and print the ratio of environment steps per second.

    Both arms train the same task with the same recipe in separate processes. On a CPU they run at the same time, each
    on half of the cores, and swap halves from pair to pair: other load on the machine then slows both, and the noise is
    smaller than between successive trainings. On a GPU, which can't be halved, they take turns.

    Both speeds come from the time stamps of the library's own TensorBoard file: environment steps of all iterations but
    the first few, divided by their time, while both arms are in their loops. So everything in the loop counts: rollout,
    update, logging and checkpoints.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks overhead",
        description="Compare the speed of scripts/train.py with that of plain `isaaclab train`, with the same "
        "task, recipe and environments. The output is the ratio of environment steps per second, with "
        "its spread. On a CPU, both programs train at the same time, each on one half of the cores. "
        "They swap halves after each pair. On a GPU, they train one after the other.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks overhead --rl_library skrl --pairs 4",
    )
    parser.add_argument("--task", default="LedgerLab-Cartpole", help="Task to train (default: LedgerLab-Cartpole).")
    parser.add_argument(
        "--rl_library", choices=list(_HEARTBEATS), default="rsl_rl", help="RL library (default: rsl_rl)."
    )
    parser.add_argument("--num_envs", type=int, default=1024, help="Number of environments (default: 1024).")
    parser.add_argument(
        "--max_iterations", type=int, default=40, help="Number of iterations per training (default: 40)."
    )
    parser.add_argument(
        "--skip", type=int, default=5, help="Number of first iterations that do not count (default: 5)."
    )
    parser.add_argument("--pairs", type=int, default=6, help="Number of pairs of trainings (default: 6).")
    parser.add_argument("--device", default="cpu", help="Device of both programs (default: cpu).")
    parser.add_argument(
        "--in_turn",
        action="store_true",
        help="Also train one after the other on a CPU, for trainings that are too short to run at the same time.",
    )
    add_json(parser, "every pair")
    args = parser.parse_args(argv)
    if args.pairs < 1 or args.max_iterations < args.skip + 2:
        raise UserError("--pairs must be at least 1, and --max_iterations at least --skip + 2")

    console = make_console()
    training = _Training(
        task=args.task,
        rl_library=args.rl_library,
        num_envs=args.num_envs,
        max_iterations=args.max_iterations,
        skip=args.skip,
        device=args.device,
        in_turn=args.in_turn,
    )
    pairs: list[Pair] = []
    with Progress(console, "pairs", args.pairs) as progress:
        for index in range(args.pairs):
            pairs.append(_pair(_ARMS if index % 2 == 0 else _ARMS[::-1], training))
            progress.advance(index + 1, f"ratio {pairs[-1].ratio:.3f}")
    ratios = sorted(pair.ratio for pair in pairs)
    table = Table("pair", "first", "metered steps/s", "plain steps/s", "ratio", box=None, pad_edge=False)
    for index, pair in enumerate(pairs, start=1):
        table.add_row(
            str(index),
            pair.first,
            quantity(pair.metered_steps_per_s),
            quantity(pair.plain_steps_per_s),
            f"{pair.ratio:.3f}",
        )
    console.print(table)
    console.print(
        f"metered ÷ plain: median {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f} "
        f"over {len(ratios)} pairs"
    )
    median = statistics.median(ratios)
    rows = [asdict(pair) for pair in pairs]
    write_findings(args.json, hardware=hardware_facts(), median_ratio=median, pairs=rows)
    return 0


def _pair(order: tuple[str, str], training: _Training) -> Pair:
    """Train once with each arm, in an order."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    together = training.device == "cpu" and half > 0 and not training.in_turn
    with ThreadPoolExecutor(2 if together else 1) as pool:
        where = (cores[:half], cores[half : 2 * half]) if together else (cores, cores)
        loops = dict(zip(order, pool.map(lambda arm, on: _train(arm, training, on), order, where), strict=True))
    whole = min(loop.iterations for loop in loops.values())
    if together:
        begin_s = max(loop.beats_s[0] for loop in loops.values())
        end_s = min(loop.beats_s[-1] for loop in loops.values())
        loops = {arm: loop.within(begin_s, end_s) for arm, loop in loops.items()}
    iterations = min(loop.iterations for loop in loops.values())
    if 2 * iterations < whole:
        raise UserError(
            f"both trainings ran at the same time for {iterations} of {whole} iterations only: use a larger "
            f"--max_iterations than {training.max_iterations}"
        )
    metered, plain = (loops[arm].steps_per_s for arm in _ARMS)
    return Pair(
        first=order[0],
        together=together,
        metered_steps_per_s=metered,
        plain_steps_per_s=plain,
        iterations=iterations,
    )


def _train(arm: str, training: _Training, cores: Sequence[int]) -> _Loop:
    """Train once, in a new process, on some cores."""
    os.sched_setaffinity(0, cores)  # for this thread and its child processes
    common = ["--task", training.task, "--rl_library", training.rl_library, "--num_envs", str(training.num_envs)]
    common += ["--max_iterations", str(training.max_iterations), "--device", training.device, "--seed", "1"]
    with tempfile.TemporaryDirectory() as folder:
        # On a CPU, only the metered arm can replay recorded physics, and only this arm takes MuJoCo's C code by default
        # for LedgerLab's tasks. Both are off, so they can't hide the overhead.
        launched = ["env.sim.physics.use_cuda_graph=False"] if training.device == "cpu" else []
        launched += ["physics=newton_mjwarp"] if launched and training.task.startswith("LedgerLab-") else []
        elsewhere = [f"{override}={training.device}" for override in _PLAIN_DEVICES[training.rl_library]]
        program = {
            "metered": [os.path.abspath(script("train.py")), *common, "--no_eval", "--log_root", folder, *launched],
            "plain": ["-m", "isaaclab", "train", *common, *elsewhere],
        }[arm]
        run_python(program, f"the {arm} training", cwd=Path(folder))
        (events,) = Path(folder).rglob("events.out.tfevents.*")
        accumulator = EventAccumulator(str(events), size_guidance={"scalars": 0})
        accumulator.Reload()
        beats = accumulator.Scalars(_HEARTBEATS[training.rl_library])[training.skip :]
        horizon = _horizon(Path(folder), training.rl_library)
    return _Loop(beats_s=[beat.wall_time for beat in beats], steps_per_beat=horizon * training.num_envs)


def _horizon(folder: Path, library: str) -> int:
    """Return the steps per iteration and environment, from the configuration that both arms write."""
    (agent,) = folder.rglob("params/agent.yaml")
    key = dialect_of(library).overrides["horizon"].rpartition(".")[2]
    lines = (line.strip() for line in agent.read_text(encoding="utf-8").splitlines())
    return int(next(line for line in lines if line.startswith(f"{key}:")).partition(":")[2])
