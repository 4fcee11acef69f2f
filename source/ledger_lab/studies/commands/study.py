"""``scripts/study.py``: runs all trainings of a study one after the other, and reports them."""

from __future__ import annotations

import pkgutil
import shlex
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.ledger import STATE_FILE, Run, Status
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.few_runs import least_p_value
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.compare import (
    LEVEL,
    Finding,
    compare_runs,
    correct_for_all,
    require_pooled,
    select_side,
    show_finding,
)
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR, make_console
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.reports.terminal.request import Program, Request, flag, log_root_flag
from ledger_lab.reports.watch.words import alert_lines, spend_words
from ledger_lab.studies.across_tasks import across_tasks
from ledger_lab.studies.checks import check_machines, check_sizes, require_unchanged
from ledger_lab.studies.declared import Study, Training, check_arguments, load_study
from ledger_lab.studies.study import StudyTrainings, clusters_of, is_being_trained, lock_name
from ledger_lab.studies.trainings import only_program, train_command, train_here
from ledger_lab.studies.watched import watch_study


@dataclass(frozen=True, kw_only=True)
class TrainingsRequest(Request):
    """What a user asks of a program that makes many trainings, here or on a cluster."""

    log_root: Path = log_root_flag()
    on: str | None = flag(
        None,
        "Submit the trainings to a cluster. CLUSTER is the name of a file in config/clusters, or your own .toml file. "
        "The file sets the root folder of the ledger.",
        metavar="CLUSTER",
    )
    at_once: int | None = flag(None, "Largest number of trainings that run at the same time on a cluster.")
    dry_run: bool = flag(
        False, "Only print the commands of the next trainings; with --on, the files that would be submitted."
    )
    status: bool = flag(False, "Only show how the trainings stand.")
    cancel: bool = flag(False, "End all trainings that wait or run on a cluster.")

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        self.require_at_most_one("dry_run", "status", "cancel")
        if self.at_once is not None and self.at_once < 1:
            raise UserError(f"--at_once {self.at_once}: must be at least 1")
        if self.on is not None and self.log_root != Path("logs"):
            raise UserError(f"--log_root {self.log_root}: the cluster file sets it: leave it out")


@dataclass(frozen=True, kw_only=True)
class StudyRequest(TrainingsRequest):
    """What a user asks of ``scripts/study.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="study.py",
        description=(
            "Train a task in every combination of some settings, with several seeds, and compare the results. A study "
            "file lists the settings (factors), their values and the seeds. The trainings run one after the other. At "
            "the end, the program prints a report of all runs, and compares each combination (arm) with the first, "
            "as report.py compare does, with p-values that are corrected for the number of tests. With fewer than "
            f"{FEWEST_RUNS} seeds, it does not compare arms. If a factor names several tasks, arms are compared within "
            "each task, and a table compares them over all tasks. If you start the program again, it runs only the "
            "trainings that are not finished. An interrupted training continues from its saved state; without a state, "
            f"it starts from the beginning. If the system ends the program, the exit status is {EXIT_REQUEUE}; after "
            "Ctrl-C, it is 130. "
            "Arguments after -- are passed to every training. With --on, the program submits the missing trainings to "
            "a cluster, and does not wait for them. When all trainings have finished, the same command prints the "
            "report. Without --on, the program leaves out the trainings that wait or run on a cluster. A study "
            "file can list sizes (processes, machines and environments) in a table [scaling], and clusters in a table "
            "[machine]. With [machine], the program submits each training to its cluster, and --on is not needed."
        ),
        examples=(
            "study.py libraries --dry_run",
            "study.py libraries -- --usd_per_hour 0.10",
            "study.py libraries --on slurm --at_once 4",
            "study.py libraries --on slurm --status",
            "study.py weak_scaling",
        ),
    )

    study: str = flag(
        MISSING, "Study file: a name from config/studies, or your own .toml file.", metavar="STUDY", positional=True
    )
    nodes: int = flag(1, "Number of machines of each training (default: 1). The table [scaling] sets it for each size.")

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        super().__post_init__()
        if self.nodes < 1:
            raise UserError(f"--nodes {self.nodes}: must be at least 1")

    def require_fit(self, study: Study) -> None:
        """Check the flags that depend on the study.

        Args:
            study: The study.

        Raises:
            UserError: If a flag needs another flag, or contradicts the study.
        """
        if study.machines and self.on is not None:
            raise UserError(f"--on {self.on}: study {study.name} names its clusters in [machine]: leave --on out")
        if study.machines and self.log_root != Path("logs"):
            raise UserError(f"--log_root {self.log_root}: the cluster files of {study.name} set it: leave it out")
        if study.scaling is not None and self.nodes > 1:
            raise UserError(f"--nodes {self.nodes}: study {study.name} sets it in [scaling]: leave --nodes out")
        given = [name for name in ("at_once", "status", "cancel") if getattr(self, name)]
        given += ["nodes"] if self.nodes > 1 else []
        if given and self.on is None and not study.machines:
            raise UserError(f"--{given[0]} needs --on CLUSTER")


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
    request = StudyRequest.parse(argv[:at])
    study = load_study(request.study)
    request.require_fit(study)
    extra = check_arguments("after --", list(argv[at + 1 :]), study.flags)
    console, clusters = make_console(), clusters_of(study, request.on)
    log_root = next(iter(clusters.values()))[1].log_root if clusters else request.log_root
    now = StudyTrainings(study, log_root, clusters)
    missing = now.missing()
    console.print(now.head(), soft_wrap=True)
    if request.cancel:
        console.print(now.cancel())
    elif request.status or (clusters and not missing and now.any_goes_on()):
        now.show(console)
        _show_watch(study, log_root, console, ask=True)
    else:
        require_unchanged(study, now.all_runs(), extra)
        _tell_first(study, now, extra, console)
        if missing and clusters:
            now.submit(extra, console, nodes=request.nodes, at_once=request.at_once, dry_run=request.dry_run)
        elif request.dry_run:
            for each in missing:
                console.print(shlex.join(train_command(now.arguments(each, extra), log_root)), soft_wrap=True)
        else:
            return _train(now, request, extra, console) or _report_ended(now, extra, console)
    return 0


def _train(now: StudyTrainings, request: StudyRequest, extra: Sequence[str], console: Console) -> int:
    """Make the missing trainings of a study on this machine.

    Returns:
        0, or 75 if a signal ended the program.
    """
    study, missing, count = now.study, now.missing(), len(now.study.seeds) * len(now.study.arms)
    for number, training in enumerate(missing, start=count - len(missing) + 1):
        what = f"[{number}/{count}] {_words(training)}"
        with only_program(now.log_root, lock_name(training)) as kept:
            now = StudyTrainings(study, now.log_root, {})  # other programs may have submitted or started it meanwhile
            if kept is None or training not in now.missing():
                console.print(f"{what}: another program has made, started or submitted it")
                continue
            console.print("", what, sep="\n", soft_wrap=True)
            try:
                status = train_here(train_command(now.arguments(training, extra), now.log_root), keeps=kept)
            except Terminated:
                console.print("run the command again to continue the study")
                return EXIT_REQUEUE
        if status == EXIT_USER_ERROR:
            raise _refusal(now, training, way=f"correct {request.study}")
    return 0


def _report_ended(now: StudyTrainings, extra: Sequence[str], console: Console) -> int:
    """Report a study whose trainings have all ended; else, show them.

    Returns:
        0, or 1 if all trainings have ended and one of them failed.
    """
    console.print()
    now = StudyTrainings(now.study, now.log_root, now.clusters)
    going_on = [each for each in now.missing() if is_being_trained(each, now.log_root)]
    if going_on or now.any_goes_on():
        console.print("other programs still make trainings of this study: run the command again for the report")
        now.show(console)
        return 0
    return _report(now)


def _tell_first(study: Study, now: StudyTrainings, extra: Sequence[str], console: Console) -> None:
    """Check the runs, the machines and the sizes of a study, and print what a user should know before it goes on.

    Raises:
        UserError: If runs were trained otherwise, or a size or a machine can't work.
    """
    missing = now.missing()
    if missing and now.clusters:
        check_machines(study, {level: site for level, (_, site) in now.clusters.items()}, extra)
    elif missing and (several := next((arm for arm in study.arms if (arm.nodes or 1) > 1), None)):
        raise UserError(
            f"study {study.name}: size {several.size} needs {several.nodes} machines: add --on CLUSTER, or leave this "
            "size out"
        )
    for line in [*_planning_lines(study), *(check_sizes(study, extra) if missing else [])]:
        console.print(line, soft_wrap=True)
    if study.budget_usd is not None or study.budget_h is not None:
        _show_watch(study, now.log_root, console)


def _words(training: Training) -> str:
    """Return the levels and the seed of a training."""
    return " ".join((*training.arm.levels, f"seed {training.seed}"))


def _refusal(now: StudyTrainings, training: Training, way: str) -> UserError:
    """Return what is said of a training that was refused.

    Args:
        now: The trainings of the study.
        training: The training.
        way: Way out if the training was not to be resumed.
    """
    if (interrupted := now.resumable(training.key)) is not None:
        way = (
            f"correct that, or resume it with scripts/train.py --resume {shlex.quote(interrupted.run_id)}, or remove "
            f"{interrupted.directory / STATE_FILE} to start it again"
        )
    what = _words(training)
    return UserError(f"study {now.study.name}: the training of {what} was refused (see the message above): {way}")


def _planning_lines(study: Study) -> list[str]:
    """Return what the number of seeds rules out, before time is spent."""
    comparisons = len(study.arms) - len(study.arms_by_task())
    seeds, tests = len(study.seeds), 2 * comparisons  # of time and cost
    if not comparisons:
        return []
    if seeds < FEWEST_RUNS:
        words = "1 seed per arm is" if seeds == 1 else f"{seeds} seeds per arm are"
        return [f"{words} too few to compare arms: use at least {FEWEST_RUNS}"]
    least = tests * least_p_value(seeds, seeds)
    if least > LEVEL:
        return [
            f"{seeds} seeds per arm are too few for {tests} tests (time and cost of {comparisons} arms, if the runs "
            f"have a price): no corrected p-value can be below {least:.2g}; use more seeds or fewer arms"
        ]
    return []


def _show_watch(study: Study, log_root: Path, console: Console, *, ask: bool = False) -> None:
    """Print the spend of a study, its forecast and its budget, and the alerts about it."""
    found = watch_study(study, log_root, ask=ask)
    for spend in found.studies:
        console.print(spend_words(spend), soft_wrap=True, markup=False)
    for line in alert_lines(found.alerts):
        console.print(line, soft_wrap=True)


def _report(now: StudyTrainings) -> int:
    """Print the report of a study's runs, how they scale, and the comparison of each arm with the first of its task.

    Returns:
        0, or 1 if a training failed.
    """
    study, runs = now.study, now.all_runs()
    if not runs:
        raise UserError(f"study {study.name}: no training recorded a run in {now.log_root}: see the messages above")
    asked = [*(run.run_id for run in runs), "--log_root", str(now.log_root)]
    build_report = pkgutil.resolve_name("ledger_lab.cli.report:build_report")  # as if the user had called it
    build_report(asked)
    if study.scaling is not None:
        make_console().print()
        build_report(["scaling", *asked])
    _compare(study, runs)
    failed = set(Status) - {Status.COMPLETED, Status.TARGET_REACHED, Status.LIMIT_REACHED}
    succeeded = (any(run.has_finished(failed) for run in now.runs[each.key]) for each in study.trainings())
    return 0 if all(succeeded) else 1


def _compare(study: Study, runs: Sequence[Run]) -> None:
    """Compare each arm with the first arm of its task, as ``report.py compare`` does, corrected for their number."""
    console = make_console()
    sizes = {arm.cohort: len(study.seeds) for arm in study.arms}
    findings: list[Finding] = []
    refused = False
    for first, *others in study.arms_by_task():
        for arm in others:
            try:
                findings.append(compare_runs(first.cohort, arm.cohort, runs, declared_sizes=sizes))
            except UserError as error:
                refused = True
                console.print("", f"A = {first.cohort} · B = {arm.cohort}: {error}", sep="\n", soft_wrap=True)
    for finding in correct_for_all(findings):
        console.print()
        show_finding(finding)
    if len(study.arms_by_task()) > 1 and not refused:
        _aggregate(study, runs)


def _aggregate(study: Study, runs: Sequence[Run]) -> None:
    """Print the figures of each setting over all tasks."""
    console, tasks = make_console(), study.arms_by_task()
    times: dict[str, list[list[float | None]]] = {}
    for arm in (arm for arms in tasks for arm in arms):
        try:
            side = select_side(arm.cohort, runs)  # as in the comparisons
            require_pooled(side)
        except UserError as error:
            console.print("", f"no figures over all tasks: {error}", sep="\n", markup=False, soft_wrap=True)
            return
        name = "-".join(arm.setting) or study.name
        times.setdefault(name, []).append([each.wall_to_target_s for each in side.summaries])
    console.print()
    if (found := across_tasks(times)) is None:
        console.print("no figures over all tasks: on some task, no run reached the target, or an arm has no run")
        return
    notes, table = found
    console.print(*notes, sep="\n", soft_wrap=True)
    console.print(table)
