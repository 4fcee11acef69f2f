"""``scripts/study.py``: runs all trainings of a study one after the other, and reports them."""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import FrameType

from ledger_lab.commands.compare import RunComparison, compare_runs, show_comparison
from ledger_lab.commands.report import build_report
from ledger_lab.costs import least_p_value
from ledger_lab.errors import UserError
from ledger_lab.ledger import STATE_FILE, Run, StateSaved, Status
from ledger_lab.ledger.endings import Terminated
from ledger_lab.ledger.find import read_runs
from ledger_lab.reports import summarize_run
from ledger_lab.reports.across_tasks import across_tasks_notes, across_tasks_table, aggregate_arms
from ledger_lab.reports.compare import FEW
from ledger_lab.reports.corrected_tests import LEVEL, correct_for_all
from ledger_lab.studies import Study, Training, check_arguments, load_study
from ledger_lab.terminal.console import EXIT_USER_ERROR, make_console
from ledger_lab.terminal.exit_status import ENDING, EXIT_REQUEUE, exception_of
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.request import Request, flag, log_root_flag

_ENDED_FROM_OUTSIDE = {Status.INTERRUPTED, Status.PREEMPTED, Status.KILLED, Status.LOST}
"""Ends that say nothing about the arm. Such a training is resumed from its saved state, or repeated; its cost stays in
the ledger."""


@dataclass(frozen=True, kw_only=True)
class StudyRequest(Request):
    """What a user asks of ``scripts/study.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="study.py",
        usage="study.py [-h] [--log_root LOG_ROOT] [--dry_run] STUDY [-- TRAIN_ARGUMENT ...]",
        description=(
            "Train a task in every combination of some settings, with several seeds, and compare the results. A study "
            "file lists the settings (factors), their values and the seeds. The trainings run one after the other. At "
            "the end, the program prints a report of all runs, and compares each arm with the first arm as "
            "report.py --compare does, with p-values that are corrected for the number of tests. With fewer than "
            f"{FEW} seeds, it does not compare arms. If a factor names several tasks, arms are compared within each "
            "task, and figures over all tasks are printed. If you start the program again, it runs only the trainings "
            "that are not finished. An interrupted training continues from its saved state; without a state, it starts "
            f"from the beginning. If a signal ends the program, the exit status is {EXIT_REQUEUE}, and a batch job can "
            "requeue itself. Arguments after -- are passed to every training."
        ),
        terms=("factor", "arm", "run", "cohort", "state", "ledger"),
        examples=("study.py libraries --dry_run", "study.py libraries -- --usd_per_hour 0.10"),
    )

    study: str = flag(
        MISSING, "Study file: a name from config/studies, or your own .toml file.", metavar="STUDY", positional=True
    )
    log_root: Path = log_root_flag()
    dry_run: bool = flag(False, "Only print the commands of the trainings that are not finished.")


def run_study(argv: Sequence[str]) -> int:
    """Make the trainings of a study that are missing from the ledger, and report all of them.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if every training is complete, 1 if one failed, 75 if the system asked the study to end.

    Raises:
        UserError: If there is no such study, or a training refuses its arguments.
    """
    at = [*argv, "--"].index("--")
    request, extra = StudyRequest.parse(argv[:at]), check_arguments("after --", list(argv[at + 1 :]))
    study = load_study(request.study)
    console = make_console()
    runs = _runs(study, request.log_root)
    missing = [training for training in study.trainings() if not _is_made(training, runs)]
    count = len(study.seeds) * len(study.arms)
    console.print(
        f"study {study.name}: {study.about} · {len(study.arms)} arms × {len(study.seeds)} seeds · "
        f"{count - len(missing)} of {count} trainings are in {request.log_root}",
        soft_wrap=True,
    )
    for line in _planning_lines(study):
        console.print(line, soft_wrap=True)
    if request.dry_run:
        for training in missing:
            command = _command(training, study, runs, request.log_root, extra)
            console.print(shlex.join(command), soft_wrap=True)
        return 0
    for number, training in enumerate(missing, start=count - len(missing) + 1):
        what = " ".join((*training.arm.levels, f"seed {training.seed}"))
        console.print("", f"[{number}/{count}] {what}", sep="\n", soft_wrap=True)
        command = _command(training, study, runs, request.log_root, extra)
        try:
            status = _train(command)
        except Terminated:
            console.print("run the command again to continue the study")
            return EXIT_REQUEUE
        if status == EXIT_USER_ERROR:
            interrupted = _resumable(training, runs)
            way = f"correct {request.study}"
            if interrupted is not None:
                way = (
                    f"correct that, or resume it with scripts/train.py --resume {interrupted.declared.run_id}, or "
                    f"remove {interrupted.directory / STATE_FILE} to start it again"
                )
            raise UserError(f"study {study.name}: the training of {what} was refused (see the message above): {way}")
    console.print()
    return _report(study, request.log_root)


def _planning_lines(study: Study) -> list[str]:
    """Return what the number of seeds rules out, before time is spent."""
    comparisons = len(study.arms) - len(study.arms_by_task())
    seeds, tests = len(study.seeds), 2 * comparisons  # of time and cost
    if not comparisons:
        return []
    if seeds < FEW:
        return [f"{seeds} seeds per arm are too few to compare arms: use at least {FEW}"]
    least = tests * least_p_value(seeds, seeds)
    if least > LEVEL:
        return [
            f"{seeds} seeds per arm are too few for {tests} tests (time and cost of {comparisons} arms, if the runs "
            f"have a price): no corrected p-value can be below {least:.2g}; use more seeds or fewer arms"
        ]
    return []


def _command(training: Training, study: Study, runs: Sequence[Run], log_root: Path, extra: Sequence[str]) -> list[str]:
    """Return the command line that starts or resumes a training."""
    asked = [*training.arm.arguments, *extra]
    if interrupted := _resumable(training, runs):
        what = ["--resume", interrupted.declared.run_id, *_repeated_flags(asked)]
    else:
        what = [*asked, "--seed", str(training.seed), "--cohort", training.arm.cohort]
        what += ["--cohort_size", str(len(study.seeds))]
    return [sys.executable, str(Path(sys.argv[0]).with_name("train.py")), *what, "--log_root", str(log_root)]


def _repeated_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that a run does not declare, and that must be repeated to resume it."""
    parser = argparse.ArgumentParser(add_help=False)
    for repeated in ("--nproc", "--mirror", "--grace_s"):
        parser.add_argument(repeated, action="append", default=[])
    said, _ = parser.parse_known_args(list(arguments))
    return [each for name, values in vars(said).items() for value in values for each in (f"--{name}", value)]


def _resumable(training: Training, runs: Sequence[Run]) -> Run | None:
    """Return the latest run of a training with a saved state to resume from, if there is one."""
    left = [
        run
        for run in runs
        if _belongs_to(training, run)
        and (run.directory / STATE_FILE).is_file()
        and any(attempt.of(StateSaved) for attempt in run.attempts)
    ]
    return left[-1] if left else None


def _runs(study: Study, log_root: Path) -> list[Run]:
    """Return the runs of the study in the ledger."""
    cohorts = {arm.cohort for arm in study.arms}
    return [run for run in read_runs(log_root) if run.declared.cohort in cohorts and run.attempts]


def _is_made(training: Training, runs: Sequence[Run], but: Collection[Status] = _ENDED_FROM_OUTSIDE) -> bool:
    """Tell whether a training has a run that is proven, or whose status is not one of those in ``but``."""
    return any(_belongs_to(training, run) and (run.attempts[-1].status not in but or run.proven) for run in runs)


def _belongs_to(training: Training, run: Run) -> bool:
    """Tell whether a run belongs to a training."""
    return (run.declared.cohort, run.declared.seed) == (training.arm.cohort, training.seed)


def _train(command: Sequence[str]) -> int:
    """Train, and return the exit status. A signal that asks the study to end is passed on to the training."""
    asked: list[signal.Signals] = []
    with subprocess.Popen(command) as process:

        def pass_on(signum: int, _: FrameType | None) -> None:
            asked.append(signal.Signals(signum))
            process.send_signal(signum)

        heard = [signum for signum in ENDING if signal.getsignal(signum) is not signal.SIG_IGN]  # nohup ignores SIGHUP
        former = {signum: signal.signal(signum, pass_on) for signum in heard}
        try:
            status = process.wait()
        finally:
            for signum, handler in former.items():
                signal.signal(signum, handler)
    if asked:
        raise exception_of(asked[0])
    return status


def _report(study: Study, log_root: Path) -> int:
    """Print the report of a study's runs, the comparison of each arm with the first arm of its task, and a summary."""
    runs = _runs(study, log_root)
    if not runs:
        raise UserError(f"study {study.name}: no training recorded a run in {log_root}: see the messages above")
    build_report([*(run.declared.run_id for run in runs), "--log_root", str(log_root)])
    _compare(study, runs)
    failed = set(Status) - {Status.COMPLETED, Status.TARGET_REACHED}
    return 0 if all(_is_made(training, runs, failed) for training in study.trainings()) else 1


def _compare(study: Study, runs: Sequence[Run]) -> None:
    """Compare each arm with the first arm of its task, as ``report.py --compare`` does, corrected for their number."""
    console = make_console()
    sizes = {arm.cohort: len(study.seeds) for arm in study.arms}
    comparisons: list[RunComparison] = []
    refused = False
    for first, *others in study.arms_by_task():
        for arm in others:
            try:
                comparisons.append(compare_runs(first.cohort, arm.cohort, runs, None, declared_sizes=sizes))
            except UserError as error:
                refused = True
                console.print("", f"A = {first.cohort} · B = {arm.cohort}: {error}", sep="\n", soft_wrap=True)
    raw = [(each.finding.time_p_value, each.finding.cost_p_value) for each in comparisons]
    for comparison, corrected in zip(comparisons, correct_for_all(raw), strict=True):
        console.print()
        show_comparison(comparison, corrected)
    if len(study.arms_by_task()) > 1 and not refused:
        _aggregate(study, runs)


def _aggregate(study: Study, runs: Sequence[Run]) -> None:
    """Print the figures of each setting over all tasks."""
    console, tasks = make_console(), study.arms_by_task()
    times: dict[str, list[list[float | None]]] = {}
    for arm in (arm for arms in tasks for arm in arms):
        kept = [
            run
            for run in runs
            if run.declared.cohort == arm.cohort and (run.attempts[-1].status not in _ENDED_FROM_OUTSIDE or run.proven)
        ]
        name = "-".join(arm.setting) or study.name
        times.setdefault(name, []).append([summarize_run(run).wall_to_target_s for run in kept])
    arms = aggregate_arms(times)
    console.print()
    if arms is None:
        console.print("no figures over all tasks: on some task, no run reached the target, or an arm has no run")
        return
    console.print(*across_tasks_notes(arms, len(tasks)), sep="\n", soft_wrap=True)
    console.print(across_tasks_table(arms))
