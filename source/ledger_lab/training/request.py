"""The request of a user to ``scripts/train.py``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import Timing, require_cohort_name
from ledger_lab.ledger.libraries import LIBRARIES, PPO, algorithms
from ledger_lab.ledger.rows import Event
from ledger_lab.panels.panel import require_target
from ledger_lab.reports.terminal.exit_status import EXIT_LIMIT, EXIT_REQUEUE
from ledger_lab.reports.terminal.request import (
    DEFAULT_TASK,
    FlagGroup,
    Named,
    Program,
    SimulationRequest,
    flag,
    flag_names,
    log_root_flag,
)
from ledger_lab.training.supervision.attempt import GRACE_S, PATIENCE

STATE_AT_LATEST_S = 300.0
"""Largest age of the last saved state without ``--save_state_every`` [s]."""

_LONGEST_GRACE_S = 86_400

LearningRateRule = Literal["sqrt", "linear"]
"""How a learning rate grows with the batch."""


def parse_stop_on(text: str) -> list[str]:
    """Read ``--stop_on``.

    Args:
        text: Names of events, separated by commas.

    Returns:
        The events that end the run. ``non_finite`` is always among them: no policy learns from NaN or infinity.

    Raises:
        UserError: If a name is not the name of an event.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [str(event) for event in Event]
    for name in names:
        if name not in known:
            raise UserError(f"--stop_on {name!r}: no such event: {nearest(name, known)} (--help_all explains them)")
    return [event for event in known if event in names or event == Event.NON_FINITE]


def list_health_events() -> str:
    """Return a text for ``--help`` that explains each event in a line."""
    width = max(map(len, Event)) + 1
    events = (f"    {f'{event}:':<{width}}  {event.meaning}" for event in Event)
    return "\n".join(
        ["A health event is a sign that a training goes wrong. Every event is printed and recorded.", *events]
    )


TASK = FlagGroup("task")
_HEALTH = FlagGroup("health events", list_health_events())
_PROCESSES = FlagGroup("processes")
_ELSEWHERE = FlagGroup("other machines")
_JUDGE = FlagGroup("evaluation")
_GOING_ON = FlagGroup(
    "interruptions",
    "After SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU or Ctrl-C, the training finishes its iteration, saves its state and "
    f"exits. The exit status is 130 after Ctrl-C. After another signal, it is {EXIT_REQUEUE} if --resume can continue "
    "the run, and 143 if there is no state to continue from. With --on, the job then starts the training again, "
    "except on the cluster local.",
)
_LEDGER = FlagGroup("price and ledger")


@dataclass(frozen=True, kw_only=True)
class TaskRequest(SimulationRequest):
    """What a user asks of a program that trains a task."""

    overrides: tuple[str, ...] = ()
    """Hydra overrides."""
    task: str = flag(
        DEFAULT_TASK,
        f"Gymnasium id of the task; scripts/list_envs.py --all lists all tasks (default: {DEFAULT_TASK}).",
        group=TASK,
    )
    rl_library: str | None = flag(None, f"RL library: {', '.join(LIBRARIES)} (default: set by the task).")
    num_envs: int | None = flag(
        None,
        "Environments per process (default: set by the task; on a GPU, 4096 for LedgerLab's tasks, with a learning "
        "rate that grows with the square root of the batch).",
    )
    seed: int | None = flag(None, "Seed of the training (default: drawn at random, and recorded).")


@dataclass(frozen=True, kw_only=True)
class TrainRequest(TaskRequest):
    """The request of a user to ``scripts/train.py``. Each field except the overrides is a flag of the same name.

    This class checks only values that need no task, library or panel;
    :func:`ledger_lab.training.plan.plan_training` checks the rest.
    """

    program = Program(
        name="train.py",
        description=(
            "Train a task until a policy provably reaches its target, and record success, time and cost. During the "
            "training, policies are checked on held-out episodes, in environments that the learner never sees. A "
            "policy that passes its check is put to the proof: it is scored on fresh episodes. If the proof passes, "
            "the training ends. Without arguments, train.py trains a cart-pole."
        ),
        examples=(
            "train.py --task LedgerLab-Ant --seed 1 --usd_per_hour 0.10",
            "train.py --rl_library skrl --num_envs 512 physics=ovphysx env.episode_length_s=8.0",
        ),
        everyday=(
            *("task", "rl_library", "num_envs", "seed", "max_iterations", "target", "device", "nproc", "on", "resume"),
            *("usd_per_hour", "logger"),
        ),
    )

    agent: str | None = flag(None, "Agent configuration of the task, by its registered name.", metavar="NAME")
    algorithm: str | None = flag(
        None,
        f"Algorithm: {', '.join(algorithms())} (default: {PPO}). sac and td3 learn from a replay memory. SKRL has "
        "both, and rl_games has sac for one process. If the task's usual library does not have the algorithm, SKRL is "
        "used. The agent configuration is LIBRARY_ALGORITHM_cfg_entry_point of the task.",
        metavar="NAME",
    )
    no_symmetry: bool = flag(
        False,
        "Do not learn from mirrored samples. PPO of RSL-RL learns from them by default, if the task can mirror them; "
        "other libraries cannot.",
        group=TASK,
    )
    checkpoint: str | None = flag(
        None,
        "Start with trained networks: those of a checkpoint file, a run (its proven checkpoint, else its last), or "
        "a task with a pretrained policy. Optimizer and iteration count start from zero. The report shows the cost of "
        "the earlier run separately, and the new run has what is left of its error budget. The new task may have "
        "more observations, after those of the checkpoint; their input weights start at zero.",
        metavar="RUN_CHECKPOINT_OR_TASK",
    )
    trust_run: bool = flag(
        False,
        "With --checkpoint: load Python functions, classes and files that are named in the overrides of the earlier "
        "run. Use this flag only if you trust the authors of that run.",
    )
    max_iterations: int | None = flag(None, "Largest number of iterations (default: set by the agent configuration).")
    limit_s: float | None = flag(
        None,
        "Time limit of the run: wall-clock time of all attempts, with start-up and scoring [s] (default: no limit). "
        "The last iteration is completed; its policy is saved, but not scored. The run then has the status "
        f"limit_reached and can't be resumed; the exit status is {EXIT_LIMIT}.",
        metavar="S",
    )
    recipe: str | None = flag(
        None,
        "File with hyperparameters that replace those of the task, by the names that are the same for all libraries. "
        "It can also set the number of environments and overrides of the task.",
        metavar="FILE",
    )
    scale_lr: LearningRateRule | None = flag(
        None,
        "Adapt the learning rate to the batch: environments of all processes × rollout length × epochs. If the batch "
        "is twice as large as the task's own, the rate is √2 times as high with sqrt, and twice as high with linear.",
    )
    keep_minibatch_size: bool = flag(
        False,
        "If the batch differs from the task's own, keep the size of a minibatch (over all processes), and change the "
        "number of minibatches. By default, the number stays the same, and the size changes.",
    )
    stop_on: tuple[str, ...] = flag(
        (str(Event.NON_FINITE),),
        "Health events that end the run, beside non_finite, which always does.",
        group=_HEALTH,
        metavar="EVENT[,EVENT]",
        parse=parse_stop_on,
    )

    nproc: int | None = flag(
        None,
        "Training processes on this machine (default: 1). Each uses its own GPU; without GPUs, they share the CPU. "
        "Their seeds are --seed, --seed + 1, and so on.",
        group=_PROCESSES,
        each_attempt=True,
    )
    distributed: bool = flag(
        False,
        "Take part in a training of several processes that torchrun starts, on one or more machines. For several "
        "processes on this machine, --nproc is simpler.",
        each_attempt=True,
    )
    allow_public_address: bool = flag(
        False,
        "With several machines: allow a public IP address for the connections between processes. torch accepts "
        "commands from every program that can connect to this address, so protect the address with a firewall.",
        each_attempt=True,
    )

    on: str | None = flag(
        None,
        "Submit the training to a cluster: the name of a file in config/clusters, or your own .toml file. The file "
        "also says where the ledger is.",
        group=_ELSEWHERE,
        metavar="CLUSTER",
        each_attempt=True,
    )
    nodes: int | None = flag(
        None,
        "With --on: number of machines (default: 1), each with --nproc processes (default: the GPUs that the file "
        "gives, or 1).",
        each_attempt=True,
    )
    dry_run: bool = flag(False, "With --on: print the files that would be submitted.", each_attempt=True)

    panel: str | None = flag(
        None,
        "Panel to score policies on: a name that list_envs.py --long lists, or your own .toml file (default: by "
        "the task).",
        group=_JUDGE,
    )
    target: float | None = flag(None, "Success rate to reach, above 0 and at most 1 (default: set by the panel).")
    stop_at_target: bool = flag(True, "Train all iterations, also after a policy is proven.")
    eval_every: int | None = flag(
        None,
        "Score a policy every N iterations (default: score the newest policy whenever the previous score is ready).",
    )
    eval: bool = flag(True, "Do not score policies during training. scripts/evaluate.py can score the checkpoints.")

    resume: str | None = flag(
        None,
        "Continue an interrupted run, named by its id or its directory, with the flags of that run.",
        group=_GOING_ON,
        metavar="RUN",
        each_attempt=True,
    )
    save_state_every: int | None = flag(
        None,
        "Save the state every N iterations, for --resume (default: with each checkpoint, and at least every "
        f"{STATE_AT_LATEST_S / 60:g} minutes). With 0, only after a signal, after each proof, and at the end.",
        each_attempt=True,
    )
    save_replay: bool = flag(
        False,
        "With sac and td3, in one process: save the replay memory with the state. Without it, a resumed training first "
        "refills the replay memory. At the start, the program prints how much disk space is needed.",
    )
    grace_s: float = flag(
        GRACE_S,
        f"Time between the first signal of your scheduler and its SIGKILL [s] (default: {GRACE_S:g}). The training "
        f"waits up to {PATIENCE:g} × S for its iteration to end, and LedgerLab kills it after S seconds.",
        metavar="S",
        each_attempt=True,
    )
    allow_changed_code: bool = flag(
        False,
        "With --resume: continue even if code or package versions have changed, except those that scores depend on. "
        "With --checkpoint: continue even if the code of its observations, actions, commands and agent has changed. "
        "Comments, docstrings and layout do not count. The ledger records the changes.",
        each_attempt=True,
    )

    instance: str | None = flag(
        None, "Name of this machine in the price file (default: local, which has no price).", group=_LEDGER
    )
    usd_per_hour: float | None = flag(
        None,
        "Price [USD/h] of one GPU, or of the whole machine if you train on its CPU or name it with --instance.",
    )
    prices: Path | None = flag(
        None, "Your own price file. Its entries replace those of the same name in config/prices.toml."
    )
    cohort: str | None = flag(None, "Name of the cohort that the run belongs to (default: none).")
    cohort_size: int | None = flag(
        None,
        "Number of runs that the cohort will have; one of its runs can set it. The report shows how many are missing.",
    )
    log_root: Path = log_root_flag(each_attempt=True)
    logger: tuple[str, ...] = flag(
        (),
        "Also send the run to tensorboard, wandb or mlflow, by a separate process (default: none). Can be repeated.",
        metavar="NAME",
        each_attempt=True,
    )
    timing: Timing | None = flag(
        None,
        "How phases are timed on a GPU: events (default) does not wait for the GPU; synchronized waits after each "
        "phase, which slows the training; host times only the launches of kernels. On a CPU, host is the only way.",
    )

    def __post_init__(self) -> None:
        """Check the values, and make the paths of a panel file and of a recipe file absolute.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        for name in ("nproc", "on", "nodes", "dry_run"):
            if value := getattr(self, name):
                given = f"--{name}" if name == "dry_run" else f"--{name} {value}"
                raise UserError(f"{given}: give --{name} on the command line of train.py, and write its name in full")
        if self.allow_changed_code and self.resume is None and self.checkpoint is None:
            raise UserError(
                "--allow_changed_code: a new run has no earlier code to differ from; add --resume RUN or --checkpoint "
                "CHECKPOINT"
            )
        if self.keep_minibatch_size and self.scale_lr is not None:
            raise UserError(
                f"--scale_lr {self.scale_lr}: with --keep_minibatch_size, a gradient step has as many samples as "
                "before: leave one of them out"
            )
        for name in ("num_envs", "max_iterations", "eval_every", "cohort_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"--{name} {value}: must be at least 1")
        if self.limit_s is not None and not 0 < self.limit_s < math.inf:
            raise UserError(f"--limit_s {self.limit_s:g}: must be above 0, and finite")
        require_target(self.target)
        if self.save_state_every is not None and self.save_state_every < 0:
            raise UserError(f"--save_state_every {self.save_state_every}: must not be negative")
        if not 0 < self.grace_s <= _LONGEST_GRACE_S:
            raise UserError(f"--grace_s {self.grace_s:g}: must be above 0 and at most {_LONGEST_GRACE_S} (a day)")
        if self.cohort is not None:
            require_cohort_name(self.cohort)
        elif self.cohort_size is not None:
            raise UserError(f"--cohort_size {self.cohort_size}: name the cohort with --cohort")
        if self.panel is not None and Path(self.panel).is_file():
            object.__setattr__(self, "panel", str(Path(self.panel).resolve()))
        if self.recipe is not None:
            object.__setattr__(self, "recipe", str(Path(self.recipe).absolute()))

    def require_saveable_replay(self, processes: int) -> None:
        """Refuse to save the replay memories of several processes.

        Args:
            processes: Processes of the training.

        Raises:
            UserError: If ``save_replay`` is set and there are several processes.
        """
        if self.save_replay and processes > 1:
            raise UserError(
                f"--save_replay: only the replay memory of a single process can be saved, and this training has "
                f"{processes}: train in one process, or leave it out (the memories then refill after an interruption)"
            )

    def named(self) -> Named:
        """Return what the request names; a resumed run has declared its task and its price."""
        runs = tuple(name for name in (self.resume, self.checkpoint) if name is not None)
        named = Named(
            rl_library=self.rl_library, panel=self.panel, loggers=self.logger, runs=runs, log_root=self.log_root
        )
        if self.resume is not None:
            return named
        return replace(
            named, task=self.task, instance=self.instance, usd_per_hour=self.usd_per_hour, prices=self.prices
        )

    def resumed_by(self, asked: TrainRequest) -> TrainRequest:
        """Return the request for the next attempt of a run that was declared with this request.

        Args:
            asked: The request that resumes the run; it sets the flags that may differ between attempts.
        """
        own = {name: getattr(asked, name) for name in flag_names(TrainRequest, each_attempt=True)}
        if asked.save_state_every is None:
            own["save_state_every"] = self.save_state_every
        return replace(self, **own, launcher=asked.launcher)

    def to_data(self) -> dict[str, Any]:
        """Return the request as a JSON value."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self, enc_hook=str))
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a request from the result of :meth:`to_data`.

        Raises:
            TypeError: If a field is unknown.
            ValueError: If a value has the wrong type.
            UserError: If a value is refused.
        """
        if unknown := data.keys() - {each.name for each in fields(cls)}:
            raise TypeError(f"unknown: {', '.join(map(repr, sorted(unknown)))}")
        return msgspec.convert(data, cls, dec_hook=lambda kind, value: kind(value))
