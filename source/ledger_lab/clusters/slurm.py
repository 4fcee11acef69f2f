"""Slurm: one array job for a plan, with a batch script that people can read.

The batch script runs on the first node, outside the container. It passes signals to the step, writes the exit status,
and decides whether to requeue the job. These facts of Slurm determine how:

1. ``scontrol requeue $SLURM_JOB_ID``, in the array task whose id is that of the array, requeues all tasks. The script
   names the task, as ``ARRAY_INDEX``.
2. ``scancel`` sends the same SIGTERM as a preemption. ``scontrol show job`` tells them apart: a cancelled job is no
   longer ``RUNNING``; a preempted job has a ``PreemptTime``.
3. In the grace time of a preemption, only the step gets SIGTERM. If the step ends, Slurm does not requeue the job by
   itself.
4. What still runs when the grace time ends is requeued by Slurm. A second requeueing fails, which is no error.
5. Where Slurm cancels preempted jobs, it ignores ``--requeue``. Submitting the study again submits what is missing.
6. ``--gpus-per-task=1`` hides GPUs from the other processes of a training. A step has one task per node, with all GPUs.
7. Nodes may have no network, no writable home, and a shared file system without locks.
   :mod:`ledger_lab.clusters.planned` and the ledger allow for that.

submitit can't do this: its jobs are pickled functions that it requeues by itself, also after a cancellation, and people
can't read them.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ledger_lab.clusters.engine import Engine, GpuSite, Place, Queued, variable
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import NoAnswerError, Program
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from ledger_lab.ledger import STATE_FILE, SchedulerJob
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE

_SCRIPT = "job.sbatch"
_ANSWER_S = 60.0
"""Longest time that a command of Slurm may take [s]."""
_FIRST_PORT, _PORTS = 20_000, 10_000
"""Ports of rendezvous; they are below those that systems give to outgoing connections."""
_NOT_OURS = re.compile(r"SBATCH_|SQUEUE_|SCANCEL_|SLURM_(?!CONF|JWT)")
"""Environment variables that would change what the commands of Slurm do. ``SBATCH_ARRAY_INX`` replaces the option in
the script; ``SQUEUE_STATES`` hides jobs, so that they would be submitted again; an enclosing job sets its own."""
_NEVER = re.compile(
    r"^(PartitionTimeLimit|PartitionNodeLimit|PartitionConfig|BadConstraints|InvalidAccount|InvalidQOS|MaxMemPerLimit|"
    r"AccountNotAllowed|QOSNotAllowed|DependencyNeverSatisfied|ReservationDeleted|ReservationInvalid|QOSMin\w+|"
    r"(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?)$|(account|QOS) not (known|permitted)"
)
"""Reasons for which a job waits that only its owner can remove. A limit per user or group passes when jobs end."""
_MEANINGS = (
    (_NEVER, "never starts: cancel it, and correct the cluster file"),
    (re.compile("JobHeld|JobHoldMaxRequeue|requeued held"), "is held: scontrol release lets it start"),
    (re.compile(r"Grp(?!\w*Run)\w*(Minutes|Wall)"), "the account or QOS has used up its share of computing time"),
)
"""What reasons mean that do not pass when other jobs end."""


_WAYS_OUT = {
    "SubmitJob": "each training counts as one job: wait until some of your jobs have ended, or make smaller studies",
    "violates accounting/QOS policy": "correct account, time, gpus, cpus, memory or options in the cluster file",
    "nvalid job array": "the cluster takes fewer trainings at once (MaxArraySize): make smaller studies",
    "MaxJobCount": "the cluster takes no more jobs: try again later",
    "Unable to contact": "try again later, or ask the administrators",
    "nvalid": "correct this key or option in the cluster file",
}
"""Parts of Slurm's messages, with what to do; the first part that fits counts."""
_BODY = """\
{prepare}set -u
index=$SLURM_ARRAY_TASK_ID
task=${{SLURM_ARRAY_JOB_ID}}_$index # $SLURM_JOB_ID can mean all tasks of the array
# In UTC, because local time jumps when daylight saving time begins or ends.
show_job() {{ TZ=UTC SLURM_TIME_FORMAT=standard scontrol show job --oneliner "$task"; }}

LEDGER_LAB_SLURM_JOB=$(show_job)
LEDGER_LAB_NODES=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export LEDGER_LAB_SLURM_JOB LEDGER_LAB_NODES

# Slurm sends USR1 to this script alone, {grace_s} s before the time limit; srun passes it on to the training.
step=
time_is_up=
pass_on() {{ [[ -z $step ]] || kill -s "$1" "$step" 2>/dev/null; }}
trap 'time_is_up=yes; pass_on USR1' USR1
trap 'pass_on TERM' TERM

umask o-w # what this job writes decides what its next part runs
rm -f "exits/$index"
echo "$SLURM_ARRAY_JOB_ID" >"started/$index"
srun {srun} \\
    {command} slurm "$PWD" "$index" \\
    {plan_sha256} &
step=$!
[[ -z $time_is_up ]] || pass_on USR1
wait "$step"
status=$?
while kill -0 "$step" 2>/dev/null; do # a signal has ended the wait, and not the step
    wait "$step"
    status=$?
done
wait "$step" 2>/dev/null # the status of a step that ended between the two commands
last=$?
((last == 127)) || status=$last
echo "$status" >"exits/$index"

# {requeue}: the system asked the training to end, and it can be resumed. 143: it had saved no state yet. After a
# failure (1), a refusal (2) and Ctrl-C (130), the job ends. A job that its owner has cancelled is no longer RUNNING.
if ((status == {requeue} || status == 143)); then
    now=$(show_job)
    if [[ $now != *JobState=* ]]; then
        echo "job.sbatch: Slurm does not answer, so the job is not requeued: submit the training again"
    elif [[ $now != *JobState=RUNNING* ]]; then
        echo "job.sbatch: Slurm has ended the job, or requeues it by itself"
    elif [[ $now =~ \\ PreemptTime=[0-9] ]]; then
        echo "job.sbatch: preempted; requeueing $task"
        scontrol requeue "$task" || echo "job.sbatch: Slurm requeues the job by itself"
    elif [[ $time_is_up && "$(cat "runs/$index" 2>/dev/null)/{state}" -nt "started/$index" ]]; then
        echo "job.sbatch: the time is up; requeueing $task"
        scontrol requeue "$task"
    elif [[ $time_is_up ]]; then
        echo "job.sbatch: no state was saved in the whole time of the job, so it is not requeued: allow more time"
    fi
fi
exit "$status"
"""


@dataclass(frozen=True, kw_only=True)
class SlurmSite(GpuSite):
    """Keys of a cluster with Slurm. ``grace_s`` is the time before the limit at which a training is asked to end."""

    time: str
    """Time limit of a job, as Slurm writes it."""
    partition: str | None = None
    account: str | None = None
    cpus: int | None = None
    """Processors per node; ``None`` for the default of the cluster."""
    memory: str | None = None
    """Memory per node, as Slurm writes it; ``None`` for the default of the cluster."""
    modules: tuple[str, ...] = ()
    """Modules to load."""
    container: Path | None = None
    """Image for apptainer; ``None`` for none."""
    python: str = field(default_factory=lambda: sys.executable)
    """Python on the nodes, or in the container."""
    options: tuple[str, ...] = ()
    """Further options of ``sbatch``."""


SLURM = Program(
    install="use a machine from which you can submit jobs",
    answer_s=_ANSWER_S,
    withheld=_NOT_OURS,
    ways_out=_WAYS_OUT,
)
"""The commands of Slurm."""


class Slurm(Engine):
    """Runs a plan as an array job of Slurm."""

    name = "slurm"
    site = SlurmSite
    program = SLURM

    def check(self, site: SlurmSite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if site.container is not None and not site.container.exists():
            raise UserError(f"cluster {site.name}: no container {site.container}: build it, or correct the path")
        SLURM.ask("sbatch", "--version")
        if "DOWN" in (said := SLURM.ask("scontrol", "ping")) and "UP" not in said:
            raise UserError(
                f"Slurm does not answer ({said.splitlines()[0]}): try again later, or ask the administrators"
            )

    def files(self, site: SlurmSite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``job.sbatch``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        options = {
            "job-name": name,
            "array": f"0-{len(plan.trainings) - 1}{'' if plan.at_once is None else f'%{plan.at_once}'}",
            "output": "output/%a.log",
            "open-mode": "append",
            "requeue": True,
            "time": site.time,
            "signal": f"B:USR1@{site.grace_s}",
            "nodes": plan.nodes,
            "ntasks-per-node": 1,
            "cpus-per-task": site.cpus,
            "mem": site.memory,
            "gres": f"gpu:{site.gpus}" if site.gpus else None,
            "partition": site.partition,
            "account": site.account,
        }
        srun = {
            "nodes": plan.nodes,
            "ntasks": plan.nodes,
            "ntasks-per-node": 1,
            "cpus-per-task": site.cpus,
            "kill-on-bad-exit": 0,
            "label": True if plan.nodes > 1 else None,
        }
        prepare = [f"module load {each} || exit 2" for each in site.modules]
        prepare += [f"export {key}={shlex.quote(value)}" for key, value in site.environment.items()]
        body = _BODY.format(
            prepare="".join(f"{line}\n" for line in prepare) + ("\n" if prepare else ""),
            grace_s=site.grace_s,
            srun=" ".join(_flags(srun)),
            command=shlex.join([*_container(site), site.python, "-P", "-m", "ledger_lab.clusters.planned"]),
            plan_sha256=plan.sha256,
            requeue=EXIT_REQUEUE,
            state=STATE_FILE,
        )
        header = "".join(f"#SBATCH {option}\n" for option in (*_flags(options), *site.options))
        return {
            _SCRIPT: "#!/bin/bash\n"
            f"{header}#\n# Array task N makes the training in line N of plan.jsonl, counted from 0.\n"
            f"# The last argument of srun's command is the SHA-256 of plan.jsonl: a changed plan is refused.\n\n{body}"
        }

    def target(self, site: SlurmSite) -> str:
        """Return the name of the cluster; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return _cluster_name()

    def submit_command(self, submission: Submission) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return ["sbatch", "--parsable", _SCRIPT]

    def submit(self, submission: Submission) -> str:
        """Submit the files in the folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            said = SLURM.ask(*self.submit_command(submission), cwd=submission.folder)
        except UserError as error:
            return self.found_after(submission, error)
        job = said.strip().rpartition("\n")[2].partition(";")[0]
        if not job.isdecimal():
            return self.found_after(submission, NoAnswerError(f"sbatch printed {said[:80]!r} instead of a job's id"))
        if (never := _never_starts(job)) is not None:
            SLURM.ask("scancel", job)
            raise UserError(
                f"the job would never start ({never}), and is cancelled: correct partition, account, time, gpus, cpus, "
                "memory or options in the cluster file"
            )
        return job

    def find(self, submission: Submission) -> str | None:
        """Return the id of the job; see :class:`~ledger_lab.clusters.engine.Engine`.

        A task that has started has written the id. Other tasks are in the queue, or were, a few minutes ago.
        """
        _require_same_cluster(submission)
        written = [path.read_text(encoding="ascii", errors="replace") for path in submission.folder.glob("started/*")]
        name = f"--name={submission.job_name}"
        said = SLURM.ask("squeue", "--noheader", "--federation", "--states=all", name, "--format=%F")
        found = [each for each in (*said.split(), *map(str.strip, written)) if each]  # a file may just be begun
        if bad := [each for each in found if not each.isdecimal()]:
            raise UserError(f"{bad[0][:80]!r} is not the id of a job of {submission.folder}: ask the administrators")
        return found[0] if found else None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`.

        The name of a job is unique. A controller that lost its state gives ids a second time.
        """
        _require_same_cluster(submission)
        name = f"--name={submission.job_name}"
        return read_squeue(SLURM.ask("squeue", "--noheader", "--federation", "--array", name, "--format=%K|%T|%r|%N"))

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            said = SLURM.ask("scontrol", "show", "job", "--oneliner", f"{submission.job}_{index}")
        except UserError as error:
            if "Invalid job id" in str(error):
                return None
            raise
        return explain_ending(said) if f"JobName={submission.job_name}" in said.split() else None

    def cancel_command(self, submission: Submission) -> list[str]:
        """Return the command that cancels a job."""
        return ["scancel", submission.job]

    def cancel(self, submission: Submission) -> None:
        """End all trainings of a submission; see :class:`~ledger_lab.clusters.engine.Engine`."""
        _require_same_cluster(submission)
        super().cancel(submission)

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job, array = variable(environ, "SLURM_JOB_ID"), variable(environ, "SLURM_ARRAY_JOB_ID")
        restarts, names = int(environ.get("SLURM_RESTART_COUNT", "0")), variable(environ, "LEDGER_LAB_NODES").split()
        if not names:
            raise UserError("LEDGER_LAB_NODES is empty: scontrol does not answer on this node: submit again later")
        port = _FIRST_PORT + (int(job) + 997 * restarts) % _PORTS
        return Place(
            job=SchedulerJob(
                engine=self.name,
                job=array,
                index=index,
                restarts=restarts,
                partition=environ.get("SLURM_JOB_PARTITION"),
                nodes=names,
                queue_s=queue_seconds(environ.get("LEDGER_LAB_SLURM_JOB", "")),
            ),
            rendezvous=f"{names[0]}:{port}" if nodes > 1 else None,
            rendezvous_id=f"{job}-{restarts}",
        )


def _flags(values: Mapping[str, object]) -> list[str]:
    """Return options of a command; those that are ``None`` are left out, and switches are ``True``."""
    given = {key: value for key, value in values.items() if value is not None}
    return [f"--{key}" if value is True else f"--{key}={value}" for key, value in given.items()]


def _cluster_name() -> str:
    """Return ``ClusterName`` of Slurm's configuration; empty if it does not tell."""
    found = re.search(r"^ClusterName\s*=\s*([\w.-]+)\s*$", SLURM.ask("scontrol", "show", "config"), re.MULTILINE)
    return found[1] if found is not None else ""


def _require_same_cluster(submission: Submission) -> None:
    """Refuse to ask another cluster than the one that has the jobs: there, they seem to have ended.

    Raises:
        UserError: If this machine belongs to another cluster.
    """
    if submission.target and (here := _cluster_name()) not in (submission.target, ""):
        raise UserError(
            f"{submission.folder} was submitted to cluster {submission.target}, and this machine belongs to cluster "
            f"{here}: call on a machine of {submission.target}"
        )


def _container(site: SlurmSite) -> list[str]:
    """Return the beginning of a command that runs in the container of a site."""
    if site.container is None:
        return []
    gpus = ["--nv"] if site.gpus else []
    return ["apptainer", "exec", *gpus, "--bind", str(site.log_root), str(site.container)]


def queue_seconds(job: str) -> float | None:
    """Return how long a job waited for its present start [s], by Slurm's clock; ``None`` if the times contradict that.

    Slurm sets ``SubmitTime`` anew when it requeues a job.

    Args:
        job: What ``scontrol show job --oneliner`` prints.
    """
    times = {key: value for key, value in re.findall(r"\b(SubmitTime|StartTime)=(\S+)", job)}
    try:
        submitted, started = (datetime.fromisoformat(times[key]) for key in ("SubmitTime", "StartTime"))
    except (KeyError, ValueError):
        return None
    waited_s = (started - submitted).total_seconds()
    return waited_s if waited_s >= 0.0 else None


def read_squeue(said: str) -> dict[int, Queued]:
    """Return the trainings that wait or run, from ``squeue --array --format=%K|%T|%r|%N``.

    Args:
        said: What it printed.

    Returns:
        The trainings by index.

    Raises:
        UserError: If it printed anything else. A training that is missed here would be submitted again.
    """
    found = {}
    for line in said.splitlines():
        if (parts := re.fullmatch(r"([0-9]+)\|(\w+)\|(.*)\|(.*)", line.strip())) is None:
            raise UserError(
                f"squeue printed {line[:80]!r}, which LedgerLab does not understand: ask the administrators"
            )
        index, state, reason, nodes = parts.groups()
        runs = state not in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
        where = f" on {nodes}" if nodes else ""
        meaning = next((f": {means}" for pattern, means in _MEANINGS if pattern.search(reason)), "")
        why = f" ({reason}{meaning})" if not runs and reason not in ("", "None") else ""
        found[int(index)] = Queued(runs, f"{state.lower()}{where}{why}")
    return found


def _never_starts(job: str) -> str | None:
    """Return why a job that Slurm has taken never starts; ``None`` if it may, or if Slurm does not answer.

    Many clusters take jobs that exceed the limits of a partition, and leave them in the queue.
    """
    try:
        reasons = SLURM.ask("squeue", "--noheader", f"--jobs={job}", "--format=%r")
    except UserError:  # the job is submitted all the same, and --status asks again
        return None
    return next((line for each in reasons.splitlines() if _NEVER.search(line := each.strip())), None)


def explain_ending(job: str) -> str | None:
    """Explain an end from what ``scontrol show job --oneliner`` prints; ``None`` if it tells nothing."""
    fields = dict(re.findall(r"\b(JobState|Reason|ExitCode|NodeList)=(\S*)", job))
    state = fields.get("JobState")
    if state is None:
        return None
    if fields.get("ExitCode") == "0:53":  # slurmd's own signal for this
        return (
            f"Slurm could not open the output file on {fields.get('NodeList', 'the node')}: log_root must be a folder "
            "that all nodes share"
        )
    reason = fields.get("Reason", "None")
    return state.lower().replace("_", " ") + ("" if reason == "None" else f" ({reason})")


ENGINE = Slurm()
