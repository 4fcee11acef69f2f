"""Runs the commands of Slurm, and reads what they print."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from ledger_lab.clusters.engine import Queued
from ledger_lab.clusters.programs import Program
from ledger_lab.errors import UserError

_ANSWER_S = 60.0
"""Longest time that a command of Slurm may take [s]."""
_INSTALL = "use a machine from which you can submit jobs"
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


def ask_slurm(*command: str, cwd: Path | None = None) -> str:
    """Run a command of Slurm, and return what it printed.

    Args:
        command: The command.
        cwd: Where to run it; ``None`` for here.

    Raises:
        UserError: If Slurm is not installed, does not answer, or refuses the command.
    """
    name, *arguments = command
    program = Program(name=name, install=_INSTALL, answer_s=_ANSWER_S, withheld=_NOT_OURS, ways_out=_WAYS_OUT)
    return program.ask(*arguments, cwd=cwd)


_WAYS_OUT = {
    "SubmitJob": "each training counts as one job: wait until some of your jobs have ended, or make smaller studies",
    "violates accounting/QOS policy": "correct account, time, gpus, cpus, memory or options in the cluster file",
    "Invalid account": "correct account or partition in the cluster file",
    "Invalid partition": "correct partition in the cluster file",
    "invalid partition": "correct partition in the cluster file",
    "permitted to use this partition": "correct partition in the cluster file",
    "Invalid qos": "correct options (--qos) in the cluster file",
    "reservation": "correct options (--reservation) in the cluster file",
    "Invalid license": "correct options (--licenses) in the cluster file",
    "Invalid feature": "correct options (--constraint) in the cluster file",
    "generic resource": "correct gpus in the cluster file",
    "ime limit": "correct time in the cluster file",
    "Memory specification": "correct memory in the cluster file",
    "Requested node configuration": "correct gpus, cpus, memory or --nodes",
    "Node count": "use fewer --nodes",
    "Invalid job array": "the cluster takes fewer trainings at once (MaxArraySize): make smaller studies",
    "MaxJobCount": "the cluster takes no more jobs: try again later",
    "Unable to contact": "try again later, or ask the administrators",
    "is DOWN": "Slurm does not answer: try again later, or ask the administrators",
    "configuration source": "this machine has no configuration of Slurm: use one from which you can submit jobs",
}
"""Parts of Slurm's messages, with what to do; the first part that fits counts."""


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


def never_starts(reasons: str) -> str | None:
    """Return why a job waits for ever, from ``squeue --format=%r``; ``None`` if it does not.

    Many clusters take jobs that exceed the limits of a partition, and leave them in the queue.
    """
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
