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
:mod:`ledger_lab.clusters.planned`
   and the ledger allow for that.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from ledger_lab.clusters.engine import Engine, Place, Queued, UnclearSubmissionError
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.slurm_commands import ask_slurm, explain_ending, never_starts, queue_seconds, read_squeue
from ledger_lab.clusters.slurm_site import SlurmSite
from ledger_lab.clusters.submission_folders import cluster_of, job_name
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from ledger_lab.ledger import STATE_FILE, SchedulerJob
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE

_SCRIPT = "job.sbatch"
_MAY_HAVE_SUBMITTED = re.compile(r"timed out|Zero Bytes|receive failure|shutdown failure|reset by peer")
"""Messages of ``sbatch`` after which the controller may have taken the job."""
_FIRST_PORT, _PORTS = 20_000, 10_000
"""Ports of rendezvous; they are below those that systems give to outgoing connections."""
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


class Slurm(Engine):
    """Runs a plan as an array job of Slurm."""

    name = "slurm"
    site = SlurmSite
    job_id = re.compile(r"[0-9]{1,20}")

    def check(self, site: SlurmSite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if site.container is not None and not site.container.exists():
            raise UserError(f"cluster {site.name}: no container {site.container}: build it, or correct the path")
        ask_slurm("sbatch", "--version")
        if "DOWN" in (said := ask_slurm("scontrol", "ping")) and "UP" not in said:
            raise UserError(
                f"Slurm does not answer ({said.splitlines()[0]}): try again later, or ask the administrators"
            )

    def files(self, site: SlurmSite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``job.sbatch``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        limit = "" if plan.at_once is None else f"%{plan.at_once}"
        options = [
            f"--job-name={name}",
            f"--array=0-{len(plan.trainings) - 1}{limit}",
            "--output=output/%a.log",
            "--open-mode=append",
            "--requeue",
            f"--time={site.time}",
            f"--signal=B:USR1@{site.grace_s}",
            f"--nodes={plan.nodes}",
            "--ntasks-per-node=1",
            *([] if site.cpus is None else [f"--cpus-per-task={site.cpus}"]),
            *([] if site.memory is None else [f"--mem={site.memory}"]),
            *([f"--gres=gpu:{site.gpus}"] if site.gpus else []),
            *([] if site.partition is None else [f"--partition={site.partition}"]),
            *([] if site.account is None else [f"--account={site.account}"]),
            *site.options,
        ]
        srun = [
            f"--nodes={plan.nodes}",
            f"--ntasks={plan.nodes}",
            "--ntasks-per-node=1",
            *([] if site.cpus is None else [f"--cpus-per-task={site.cpus}"]),
            "--kill-on-bad-exit=0",
            *(["--label"] if plan.nodes > 1 else []),
        ]
        prepare = [f"module load {each} || exit 2" for each in site.modules]
        prepare += [f"export {key}={shlex.quote(value)}" for key, value in site.environment.items()]
        body = _BODY.format(
            prepare="".join(f"{line}\n" for line in prepare) + ("\n" if prepare else ""),
            grace_s=site.grace_s,
            srun=" ".join(srun),
            command=shlex.join([*_container(site), site.python, "-P", "-m", "ledger_lab.clusters.planned"]),
            plan_sha256=plan.sha256,
            requeue=EXIT_REQUEUE,
            state=STATE_FILE,
        )
        header = "".join(f"#SBATCH {option}\n" for option in options)
        return {
            _SCRIPT: "#!/bin/bash\n"
            f"{header}#\n# Array task N makes the training in line N of plan.jsonl, counted from 0.\n"
            f"# The last argument of srun's command is the SHA-256 of plan.jsonl: a changed plan is refused.\n\n{body}"
        }

    def submit_command(self, folder: Path) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return ["sbatch", "--parsable", _SCRIPT]

    def submit(self, folder: Path) -> str:
        """Submit the files in a folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        way = f"call again, and LedgerLab looks for it by its name, {job_name(folder)}"
        try:
            said = ask_slurm(*self.submit_command(folder), cwd=folder)
        except UserError as error:
            if _MAY_HAVE_SUBMITTED.search(str(error)):
                raise UnclearSubmissionError(f"{error}: the job may be submitted all the same: {way}") from error
            raise
        job = said.strip().rpartition("\n")[2].partition(";")[0]
        if not self.job_id.fullmatch(job):
            raise UnclearSubmissionError(f"sbatch printed {said[:80]!r} instead of the id of a job: {way}")
        try:
            never = never_starts(ask_slurm("squeue", "--noheader", f"--jobs={job}", "--format=%r"))
        except UserError:  # the job is submitted all the same, and --status asks again
            return job
        if never is not None:
            try:
                ask_slurm(*self.cancel_command(job))
            except UserError as error:
                raise UnclearSubmissionError(
                    f"job {job} was submitted and never starts ({never}): cancel it with scancel {job}, and remove "
                    f"{folder}"
                ) from error
            raise UserError(
                f"the job would never start ({never}), and is cancelled: correct partition, account, time, gpus, cpus, "
                "memory or options in the cluster file"
            )
        return job

    def cluster(self) -> str | None:
        """Return ``ClusterName``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return _configured("ClusterName")

    def find(self, folder: Path) -> str | None:
        """Return the id of the job of an interrupted submission; see :class:`~ledger_lab.clusters.engine.Engine`.

        A task that has started has written the id. Other tasks are in the queue, or were, a few minutes ago.
        """
        _require_same_cluster(folder)
        written = [path.read_text(encoding="ascii", errors="replace") for path in folder.glob("started/*")]
        name = f"--name={job_name(folder)}"
        said = ask_slurm("squeue", "--noheader", "--federation", "--states=all", name, "--format=%F")
        found = sorted({*said.split(), *filter(None, map(str.strip, written))})  # a file may just be begun
        if bad := [each for each in found if not self.job_id.fullmatch(each)]:
            raise UserError(f"{bad[0][:80]!r} is not the id of a job of {folder}: ask the administrators")
        if len(found) > 1:
            raise UserError(
                f"{folder}: jobs {', '.join(found)} come from this submission: cancel them with scancel "
                f"{' '.join(found)}, and remove the folder"
            )
        return found[0] if found else None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`.

        The name of a job is unique. A controller that lost its state gives ids a second time.
        """
        _require_same_cluster(submission.folder)
        _require_visible(submission.folder)
        name = f"--name={job_name(submission.folder)}"
        return read_squeue(ask_slurm("squeue", "--noheader", "--federation", "--array", name, "--format=%K|%T|%r|%N"))

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            said = ask_slurm("scontrol", "show", "job", "--oneliner", f"{submission.job}_{index}")
        except UserError as error:
            if "Invalid job id" in str(error):
                return None
            raise
        ours = f"JobName={job_name(submission.folder)}" in said.split()
        return explain_ending(said) if ours else None

    def cancel_command(self, job: str) -> list[str]:
        """Return the command that cancels a job."""
        return ["scancel", job]

    def cancel(self, submission: Submission) -> None:
        """End all trainings of a submission; see :class:`~ledger_lab.clusters.engine.Engine`."""
        _require_same_cluster(submission.folder)
        ask_slurm(*self.cancel_command(submission.job))

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            job, restarts = environ["SLURM_JOB_ID"], int(environ.get("SLURM_RESTART_COUNT", "0"))
            names = environ["LEDGER_LAB_NODES"].split()
            array = environ["SLURM_ARRAY_JOB_ID"]
        except KeyError as error:
            raise UserError(f"{error.args[0]} is not set: {_SCRIPT} starts this program, within a job") from error
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


def _require_visible(folder: Path) -> None:
    """Refuse to ask about jobs of another user if the cluster hides them: they would be submitted again.

    Raises:
        UserError: If it does.
    """
    owner = folder.stat().st_uid
    if os.getuid() in (owner, 0):
        return
    if "jobs" in (_configured("PrivateData") or ""):
        raise UserError(f"{folder} belongs to user {owner}, and this cluster hides the jobs of other users: ask there")


def _require_same_cluster(folder: Path) -> None:
    """Refuse to ask another cluster than the one that has the jobs: there, they seem to have ended.

    Raises:
        UserError: If this machine belongs to another cluster, and the two share no federation.
    """
    noted = cluster_of(folder)
    if noted is None:
        return
    here = _configured("ClusterName")
    if here in (noted, None):
        return
    if noted not in re.findall(r"[\w.-]+", ask_slurm("scontrol", "show", "federation")):
        raise UserError(
            f"{folder} was submitted to cluster {noted}, and this machine belongs to cluster {here}: call on a machine "
            f"of {noted}"
        )


def _configured(key: str) -> str | None:
    """Return a value of Slurm's configuration; ``None`` if it does not tell."""
    found = re.search(rf"^{key}\s*=\s*(.*?)\s*$", ask_slurm("scontrol", "show", "config"), re.MULTILINE)
    return found[1] if found is not None and found[1] not in ("", "(null)") else None


def _container(site: SlurmSite) -> list[str]:
    """Return the beginning of a command that runs in the container of a site."""
    if site.container is None:
        return []
    gpus = ["--nv"] if site.gpus else []
    return ["apptainer", "exec", *gpus, "--bind", str(site.log_root), str(site.container)]


ENGINE = Slurm()
