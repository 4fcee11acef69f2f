"""``python -m benchmarks preemptions``: a training with many interruptions, compared with one without."""

from __future__ import annotations

import argparse
import math
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from benchmarks.comparison import add_json, script
from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256
from ledger_lab.ledger import STATE_FILE, Run, StateRestored, Status, read_ledger
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE, exit_status_of
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_HOW = ("SIGTERM", "SIGKILL training", "SIGKILL supervisor", "SIGUSR1", "SIGKILL both")
_STARTING = 4
"""One of this many interruptions comes while an attempt starts."""
_USD_PER_HOUR = 3.6
_LAST = 10
"""Number of final iterations whose returns are compared."""
_SLACK_S = 2.0
"""Largest difference between a process's lifetime as its parent sees it and as the ledger records it [s]."""


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """An interrupted attempt."""

    how: str
    attempt: int | None
    """Its number; ``None`` if it was ended before it got a number."""
    life_s: float
    """Time until all of its processes had ended [s]."""
    exit_status: int
    starting: bool
    """Whether it was interrupted during start-up on purpose."""


def bench_preemptions(argv: Sequence[str]) -> int:
    """Interrupt a training at random times, resume it each time, and check its ledger.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if everything is exact, else 1.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks preemptions",
        description="Check that a training gives the right results after many interruptions. The benchmark trains the "
        "cart-pole and interrupts it at random moments, a quarter of them during start-up. It sends SIGTERM or SIGUSR1 "
        "to the training, or SIGKILL to the training, its supervisor process or both. After each interruption, it "
        "resumes the training. After the last interruption, it lets the training finish. Then it checks the exit "
        "statuses, the checkpoints, and that the target is reached. The ledger must count each iteration once, and the "
        "totals of steps, time and cost must be exact. On a CPU, the results must equal those of a training without "
        "interruptions.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks preemptions --count 5 physics=ovphysx",
    )
    parser.add_argument("overrides", nargs="*", help="Override of the training, for example physics=ovphysx.")
    parser.add_argument("--count", type=int, default=20, help="Number of interruptions (default: 20).")
    parser.add_argument(
        "--within_s",
        type=float,
        default=10.0,
        help="Longest time from the start of a process, or of its first iteration, to the interruption [s] (default: "
        "10).",
    )
    parser.add_argument(
        "--max_iterations", type=int, default=600, help="Number of iterations of the training (default: 600)."
    )
    parser.add_argument(
        "--save_state_every",
        type=int,
        default=5,
        help="Number of iterations from one saved state to the next (default: 5).",
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random moments and signals (default: 0).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    add_json(parser, "every interruption")
    args = parser.parse_args(argv)
    if args.count < 1 or args.within_s <= 0:
        raise UserError("--count must be at least 1, and --within_s positive")
    console, chance = make_console(), random.Random(args.seed)
    request = f"--max_iterations {args.max_iterations} --no_stop_at_target --usd_per_hour {_USD_PER_HOUR}".split()
    request += [
        "--save_state_every",
        str(args.save_state_every),
        "--device",
        args.device,
        "--seed",
        "1",
        *args.overrides,
    ]
    interruptions: list[Interruption] = []
    with tempfile.TemporaryDirectory() as folder, Progress(console, "attempts", args.count + 2) as progress:
        root, alone = Path(folder, "interrupted"), Path(folder, "alone")
        for index in range(args.count):
            how, after_s = _HOW[index % len(_HOW)], chance.uniform(0.0, args.within_s)
            starting = index % _STARTING == _STARTING - 1
            interruptions.append(_interrupt(root, request, how, after_s, starting=starting))
            progress.advance(index + 1, how)
        life_s = _whole_life(_command(root, request))
        progress.advance(args.count + 1, "one without interruptions")
        _whole_life(_command(alone, request))
        (run,), (twin,) = read_ledger(root).runs, read_ledger(alone).runs
        last = Interruption(how="none", attempt=run.attempts[-1].number, life_s=life_s, exit_status=0, starting=False)
        lives = {each.attempt: each for each in (*interruptions, last)}
        wrong = [*wrong_exits(interruptions), *_what_is_wrong(run, lives), *_differences(run, twin)]
        facts, without = _facts(run), _facts(twin)
    how_often = Counter(each.how for each in interruptions)
    figures = (
        f"{len(interruptions)} interruptions ({', '.join(f'{count} {how}' for how, count in how_often.items())}) · "
        f"{facts['attempts']} attempts in the ledger, {facts['restored']} of them went on from a state · "
        f"{facts['env_steps']} steps, ${facts['usd']:.4f}, {facts['wall_s']:.1f} s, of which restart "
        f"{facts['restart_s']:.1f} s"
    )
    console.print(figures, markup=False, soft_wrap=True)
    console.print(
        f"mean return of the last iterations {_last(facts):.2f}, without interruptions {_last(without):.2f}",
        soft_wrap=True,
    )
    if not wrong:
        console.print(
            "every exit status is right, every iteration is counted once, steps and cost are exact, the target is "
            "reached, checkpoints are whole",
            soft_wrap=True,
        )
    for each in wrong:
        console.print(each, style="red", markup=False, soft_wrap=True)
    rows = [asdict(each) for each in interruptions]
    write_findings(
        args.json,
        hardware=hardware_facts(),
        interruptions=rows,
        ledger=facts,
        without_interruptions=without,
        wrong=wrong,
    )
    return int(bool(wrong))


def _command(root: Path, request: Sequence[str]) -> list[str]:
    """Return the command line that begins a training, or resumes the training under a root."""
    train = [sys.executable, script("train.py"), "--log_root", str(root)]
    runs = read_ledger(root).runs if root.is_dir() else ()
    return [*train, "--resume", runs[0].declared.run_id] if runs else [*train, *request]


def _interrupt(root: Path, request: Sequence[str], how: str, after_s: float, *, starting: bool) -> Interruption:
    """Start an attempt, let it train for some time unless it is to end during start-up, and end it.

    The first attempt is ended only after it has saved a state, else nothing could be resumed.
    """
    first = not root.is_dir()
    before = {attempt.number for run in _runs(root) for attempt in run.attempts}
    began_s = time.monotonic()
    process = subprocess.Popen(_command(root, request), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while first and process.poll() is None and not list(root.rglob(STATE_FILE)):
        time.sleep(0.1)
    while not (first or starting) and process.poll() is None and not _trains(root, before):
        time.sleep(0.1)
    while starting and process.poll() is None and not psutil.Process(process.pid).children():
        time.sleep(0.01)  # there is no attempt before there is a supervisor
    time.sleep(after_s)
    if process.poll() is not None:
        raise RuntimeError(f"the attempt ended by itself, with exit status {process.returncode}: a training of more "
                           "--max_iterations lasts longer")  # fmt: skip
    workers = psutil.Process(process.pid).children()
    name, _, victim = how.partition(" ")
    if victim != "training":
        process.send_signal(signal.Signals[name])
    if victim in ("training", "both"):
        for worker in workers:
            worker.kill()
    exit_status = process.wait()
    psutil.wait_procs(workers, timeout=120)
    life_s = time.monotonic() - began_s
    new = [attempt.number for run in _runs(root) for attempt in run.attempts if attempt.number not in before]
    number = new[0] if new else None
    return Interruption(how=how, attempt=number, life_s=life_s, exit_status=exit_status, starting=starting)


def wrong_exits(interruptions: Sequence[Interruption]) -> Iterator[str]:
    """Yield the interrupted attempts whose exit status would not make a scheduler requeue them.

    Args:
        interruptions: The interruptions; at each, there was a state to resume from.
    """
    due = {"SIGTERM": EXIT_REQUEUE, "SIGUSR1": EXIT_REQUEUE, "SIGKILL training": exit_status_of(Status.KILLED)}
    for number, each in enumerate(interruptions, start=1):
        right = due.get(each.how, -signal.SIGKILL)
        if each.exit_status != right:
            when = " in start-up" if each.starting else ""
            yield f"interruption {number}, by {each.how}{when}: exit status {each.exit_status}, not {right}"


def _trains(root: Path, before: Set[int]) -> bool:
    """Tell whether a new attempt has completed an iteration."""
    return any(
        attempt.sums.iterations for run in _runs(root) for attempt in run.attempts if attempt.number not in before
    )


def _whole_life(command: Sequence[str]) -> float:
    """Run an attempt to its end; return its time [s]."""
    began_s = time.monotonic()
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"exit status {finished.returncode}: {finished.stdout[-2000:]}{finished.stderr[-2000:]}")
    return time.monotonic() - began_s


def _runs(root: Path) -> Sequence[Run]:
    """Return the runs under a root, which may not exist yet."""
    return read_ledger(root).runs if root.is_dir() else ()


def _what_is_wrong(run: Run, lives: Mapping[int | None, Interruption]) -> Iterator[str]:
    """List the faults in the ledger of an interrupted training."""
    declared, summary = run.declared, summarize_run(run)
    counted = [window.iteration for _, window in run.windows if window.figures]
    if counted != list(range(1, declared.max_iterations + 1)):
        yield f"iterations are not counted once each, in order: {counted}"
    if summary.env_steps != declared.max_iterations * declared.env_steps_per_iteration:
        yield f"{summary.env_steps} steps"
    walls_s = [attempt.wall_ns / 1e9 for attempt in run.attempts]
    expected_usd = sum(map(math.ceil, walls_s)) * _USD_PER_HOUR / 3600  # each attempt is billed by whole seconds
    if summary.billable_usd is None or not math.isclose(summary.billable_usd, expected_usd):
        yield f"the cost is {summary.billable_usd}, and not the {expected_usd} of all attempts"
    if abs(sum(summary.phases.values()) - sum(walls_s)) > 1e-6:
        yield f"phases sum to {sum(summary.phases.values())} s, attempts to {sum(walls_s)} s"
    if not summary.target_reached:
        yield "the target was not reached"
    for attempt in run.attempts:
        life = lives[attempt.number]
        lost = "supervisor" in life.how or "both" in life.how  # no process was left to record the end
        wall_s = attempt.wall_ns / 1e9
        if wall_s > life.life_s + _SLACK_S or (not lost and wall_s < life.life_s - _SLACK_S):
            yield f"attempt {attempt.number} lived for {life.life_s:.1f} s, and has {wall_s:.1f} s in the ledger"
    for saved in run.checkpoints:
        if file_sha256(run.directory / saved.path) != saved.sha256:
            yield f"{saved.path} is not what was saved"


def _differences(run: Run, twin: Run) -> Iterator[str]:
    """List the results in which a training differs from the uninterrupted training, if the difference is not chance."""
    if any(attempt.of(StateRestored) for attempt in run.attempts):  # its episodes began anew
        return
    ours, theirs = ({saved.iteration: saved.sha256 for saved in each.checkpoints} for each in (run, twin))
    if other := [iteration for iteration, sha256 in theirs.items() if ours.get(iteration) != sha256]:
        yield f"its checkpoints after {other} iterations are not those without interruptions"
    learned, alone = ({w.iteration: w.figures for _, w in each.windows if w.figures} for each in (run, twin))
    if strange := [iteration for iteration, figures in alone.items() if learned.get(iteration) != figures]:
        yield f"returns or losses of iterations {strange} are not those without interruptions"
    # Proofs use other seeds in each run, and their outcome may change which policies are checked later.
    told, expected = (
        {row.checkpoint_sha256: row.outcomes for row in each.results if row.purpose == "check"} for each in (run, twin)
    )
    both = told.keys() & expected.keys()
    if not both or any(told[sha256] != expected[sha256] for sha256 in both):
        yield "its held-out episodes are not those without interruptions"


def _facts(run: Run) -> dict[str, Any]:
    """Return the figures of an interrupted training."""
    summary = summarize_run(run)
    return {
        "attempts": len(run.attempts),
        "restored": sum(len(attempt.of(StateRestored)) for attempt in run.attempts),
        "statuses": Counter(str(attempt.status) for attempt in run.attempts),
        "env_steps": summary.env_steps,
        "usd": summary.billable_usd,
        "wall_s": summary.wall_s,
        "restart_s": summary.phases.get("restart", 0.0),
        "to_target_s": summary.wall_to_target_s,
        "heldout_success": [c.heldout_successes for c in summary.checkpoints if c.heldout_successes is not None],
        "mean_return": [window.figures["mean_return"] for _, window in run.windows if "mean_return" in window.figures],
    }


def _last(facts: dict[str, Any]) -> float:
    """Return the mean of the last returns."""
    return fmean(facts["mean_return"][-_LAST:])
