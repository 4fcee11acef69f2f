"""The request of a user to ``scripts/train.py``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.ledger import Timing, require_cohort_name
from ledger_lab.ledger.libraries import PPO, algorithms
from ledger_lab.panels.panel import require_target
from ledger_lab.reports.terminal.exit_status import EXIT_LIMIT, EXIT_REQUEUE
from ledger_lab.reports.terminal.flags import Program
from ledger_lab.reports.terminal.request import FlagGroup, Named, flag, flag_names, log_root_flag
from ledger_lab.training.health import Event
from ledger_lab.training.health.watch import list_health_events, parse_stop_on
from ledger_lab.training.supervision.attempt import GRACE_S, PATIENCE
from ledger_lab.training.task_request import TASK, TaskRequest

STATE_AT_LATEST_S = 300.0
"""Largest age of the last saved state without ``--save_state_every`` [s]."""

_LONGEST_GRACE_S = 86_400

LearningRateRule = Literal["sqrt", "linear"]
"""How a learning rate grows with the batch."""

_HEALTH = FlagGroup("health events", list_health_events())
_PROCESSES = FlagGroup("processes")
_ELSEWHERE = FlagGroup("other machines")
_JUDGE = FlagGroup(
    "evaluation",
    (
        "With physics=newton_mujoco or newton_mjwarp on the CPU, scoring a policy twice gives identical episodes. On "
        "rough ground, newton_mjwarp also needs env.sim.physics.deterministic=true. That setting slows the simulation "
        "down. Scores with and without that setting cannot be compared."
    ),
)
_GOING_ON = FlagGroup(
    "interruptions",
    (
        "After SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU or Ctrl-C, the training finishes its iteration, saves its state and "
        "exits. If the iteration takes too long (see --grace_s), the training exits without a new state. After Ctrl-C, "
        f"the exit status is 130. After another signal, the exit status is {EXIT_REQUEUE} if --resume can continue "
        "the run, and 143 if there is no state to continue from. With --on, the job starts the training "
        "again if it can continue, except on the cluster local."
    ),
)
_LEDGER = FlagGroup("price and ledger")


@dataclass(frozen=True, kw_only=True)
class TrainRequest(TaskRequest):
    """The request of a user to ``scripts/train.py``. Each field except the overrides is a flag of the same name.

    This class checks only values that need no task, library or panel;
    :func:`ledger_lab.training.plan.plan_training` checks the rest.
    """

    program = Program(
        name="train.py",
        description=(
            "Train a task until a policy provably reaches the target, and record success, time and cost. During "
            "training, policies are scored on held-out episodes, in environments that the learner never sees. If a "
            "policy may have reached the target, it is scored a second time, on fresh seeds. If this score proves that "
            "the policy reaches the target, the policy is confirmed, and the training ends. Without arguments, "
            "train.py trains a cart-pole."
        ),
        terms=(
            "held-out",
            "panel",
            "target",
            "fresh seeds",
            "error budget",
            "run",
            "iteration",
            "state",
            "cohort",
            "ledger",
        ),
        examples=(
            "train.py --task LedgerLab-Ant --seed 1 --usd_per_hour 0.10",
            "train.py --rl_library skrl --num_envs 512 physics=ovphysx env.episode_length_s=4.0",
            "train.py --resume RUN",
        ),
    )

    agent: str | None = flag(
        None,
        "Agent configuration of the task, by its registered name (default: LIBRARY_cfg_entry_point, or "
        "LIBRARY_ALGORITHM_cfg_entry_point with SAC and TD3).",
        group=TASK,
        metavar="NAME",
    )
    algorithm: str | None = flag(
        None,
        f"Algorithm: {', '.join(algorithms())} (default: {PPO}). sac is soft actor-critic, and td3 is twin delayed "
        "deterministic policy gradients. Both learn from a replay memory. SKRL has both, and rl_games has sac, in one "
        "process only. Without --rl_library, SKRL is used if the task's usual library does not have the algorithm. "
        "--algorithm selects the agent configuration LIBRARY_ALGORITHM_cfg_entry_point of the task.",
        group=TASK,
        metavar="NAME",
    )
    checkpoint: str | None = flag(
        None,
        (
            "Start with trained networks instead of random ones. Name a checkpoint file, a run id, a run directory, or "
            "a task with a pretrained policy. If you name a run, train.py takes its confirmed checkpoint, or its last "
            "checkpoint if none is confirmed. The optimizer and the iteration count start from zero. The report shows "
            "the cost of the earlier run separately. The new run has what the earlier run has left of its error "
            "budget. The new task may have additional observations, if they follow the checkpoint's observations in "
            "the observation vector. The input weights of the additional observations start at zero."
        ),
        group=TASK,
        metavar="RUN_CHECKPOINT_OR_TASK",
    )
    trust_run: bool = flag(
        False,
        "With --checkpoint: load Python functions, classes and files that are named in the overrides of the earlier "
        "run. Use this flag only if you trust the authors of that run.",
        group=TASK,
    )
    max_iterations: int | None = flag(
        None, "Largest number of iterations (default: set by the agent configuration).", group=TASK
    )
    limit_s: float | None = flag(
        None,
        "Wall-clock time after which the run ends [s] (default: no limit). It counts all attempts of the run, from the "
        "start of Python, with start-up and scoring. The run ends after the iteration in which the time is used "
        "up, saves its last policy, and does not score it. A confirmation counts only if it ended before. The run then "
        f"has the status limit_reached, its exit status is {EXIT_LIMIT}, and it can't be resumed.",
        group=TASK,
        metavar="S",
    )
    recipe: str | None = flag(
        None,
        "File with hyperparameters that replace those of the task, by the names that are the same for all libraries. "
        "The file can also set the number of environments and overrides of the task. The run records each change as "
        "an override, so --resume does not need the file.",
        group=TASK,
        metavar="FILE",
    )
    scale_lr: LearningRateRule | None = flag(
        None,
        (
            "Adapt the learning rate to the batch size. If the batch is twice as large as in the task's own "
            "configuration, the learning rate is √2 times as high with sqrt, and twice as high with linear. Here, the "
            "batch size counts each sample once per epoch: environments of all processes × rollout length × epochs. "
            "The program prints the new learning rate and records it."
        ),
        group=TASK,
    )
    keep_minibatch_size: bool = flag(
        False,
        (
            "Keep the size of a minibatch, over all processes, if the batch differs from the task's own. Then the "
            "number of gradient steps grows with the batch. By default, the number of minibatches stays the same, and "
            "their size grows. The program prints the new number and records it."
        ),
        group=TASK,
    )
    stop_on: tuple[str, ...] = flag(
        (str(Event.NON_FINITE),),
        "Health events that end the run (default: non_finite). non_finite always ends the run, even if you do not name "
        "it. Other events end the run only if you name them.",
        group=_HEALTH,
        metavar="EVENT[,EVENT]",
        parse=parse_stop_on,
    )

    nproc: int | None = flag(
        None,
        "Number of processes to train in on this machine (default: 1). On GPUs, each process uses a GPU of its own. On "
        "a CPU, all processes share it. --num_envs applies to each process. The seeds of the processes are --seed, "
        "--seed + 1, and so on.",
        group=_PROCESSES,
        metavar="N",
        each_attempt=True,
    )
    distributed: bool = flag(
        False,
        "Take part in a training of several processes. Use this flag if torchrun starts train.py, on one or more "
        "machines. For several processes on this machine, --nproc is simpler.",
        group=_PROCESSES,
        each_attempt=True,
    )
    allow_public_address: bool = flag(
        False,
        "With several machines: allow a public IP address for the connections between processes. torch accepts "
        "commands from every program that can connect to this address, so protect the address with a firewall.",
        group=_PROCESSES,
        each_attempt=True,
    )

    on: str | None = flag(
        None,
        "Submit the training to a cluster instead of running it here. CLUSTER is the name of a file in "
        "config/clusters, or your own .toml file. The file sets --log_root, --grace_s and, unless you give a price, "
        "--instance.",
        group=_ELSEWHERE,
        metavar="CLUSTER",
        each_attempt=True,
    )
    nodes: int | None = flag(
        None,
        "With --on: number of machines to train on (default: 1). --nproc is the number of processes on each of them "
        "(default: the number of GPUs that the file gives, or 1).",
        group=_ELSEWHERE,
        metavar="N",
        each_attempt=True,
    )
    dry_run: bool = flag(
        False,
        "With --on: print the files that would be submitted, and write and submit nothing.",
        group=_ELSEWHERE,
        each_attempt=True,
    )

    panel: str | None = flag(
        None,
        "Panel to score policies on: a name that list_envs.py lists, or your own .toml file (default: by the task).",
        group=_JUDGE,
    )
    target: float | None = flag(
        None, "Share of successful episodes to reach, above 0 and up to 1 (default: set by the panel).", group=_JUDGE
    )
    stop_at_target: bool = flag(
        True,
        "End the training as soon as a policy is confirmed (default: yes). With --no-stop_at_target, all iterations "
        "are trained.",
        group=_JUDGE,
    )
    eval_every: int | None = flag(
        None,
        "Score a policy every N iterations (default: score the newest policy whenever the previous score is ready).",
        group=_JUDGE,
        metavar="N",
    )
    no_eval: bool = flag(
        False,
        "Do not score policies during training. scripts/evaluate.py can score the checkpoints later.",
        group=_JUDGE,
    )

    resume: str | None = flag(
        None,
        (
            "Continue an interrupted run. RUN is its id or its directory. Do not repeat the flags of the run, or "
            "repeat them with the same values. The report adds up iterations, steps, time and cost of all parts "
            "of the run."
        ),
        group=_GOING_ON,
        metavar="RUN",
        each_attempt=True,
    )
    save_state_every: int | None = flag(
        None,
        (
            "Save the state every N iterations (default: with each checkpoint, and at least every "
            f"{STATE_AT_LATEST_S / 60:g} minutes). The state makes it possible to continue a run that was killed. Each "
            "new state replaces the previous state. With 0, the state is saved only after a signal, after each "
            "confirmation, and at the end. A confirmation is the scoring of a policy on fresh seeds."
        ),
        group=_GOING_ON,
        metavar="N",
        each_attempt=True,
    )
    save_replay: bool = flag(
        False,
        (
            "With sac and td3, in one process: save the replay memory with the state. A resumed training is then the "
            "same training as an uninterrupted one, if the simulation can continue exactly. Each save writes only the "
            "steps since the last save. At the start, the program prints how much disk space the files need. Without "
            "--save_replay, a resumed training first refills the replay memory."
        ),
        group=_GOING_ON,
    )
    grace_s: float = flag(
        GRACE_S,
        (
            f"Time between the first signal of your scheduler and its SIGKILL [s] (default: {GRACE_S:g}). After a "
            f"signal, the training waits up to {PATIENCE:g} × S for its iteration to end. If the training has not "
            "exited after S seconds, LedgerLab kills it."
        ),
        group=_GOING_ON,
        metavar="S",
        each_attempt=True,
    )
    allow_changed_code: bool = flag(
        False,
        "With --resume: continue even if code or package versions that no score depends on differ from those at the "
        "start of the run. With --checkpoint: continue even if the code of its observations, actions, commands and "
        "agent has changed since that run was declared. Comments, docstrings and layout do not count. The ledger "
        "records the changes.",
        group=_GOING_ON,
        each_attempt=True,
    )

    instance: str | None = flag(
        None, "Name of this machine in the price file (default: local, which has no price).", group=_LEDGER
    )
    usd_per_hour: float | None = flag(
        None,
        "Price [USD/h]. With --instance, it is the price of that machine, and replaces the price in the price file. "
        "Without --instance, it is the price of one GPU, or of the whole machine if the training runs on its CPU.",
        group=_LEDGER,
    )
    prices: Path | None = flag(
        None,
        "Your own price file, in addition to config/prices.toml. If both files have an entry of the same name, your "
        "entry is used.",
        group=_LEDGER,
        metavar="FILE",
    )
    cohort: str | None = flag(None, "Name of the cohort that the run belongs to (default: none).", group=_LEDGER)
    cohort_size: int | None = flag(
        None,
        "Number of runs that the cohort will have. The report then shows how many are missing. It is enough to set "
        "this flag for one run of the cohort.",
        group=_LEDGER,
        metavar="N",
    )
    log_root: Path = log_root_flag(group=_LEDGER, each_attempt=True)
    mirror: tuple[str, ...] = flag(
        (),
        (
            "Dashboard to send the run to: tensorboard, wandb or mlflow (default: none). A separate process sends the "
            "data; see scripts/mirror.py. Can be repeated."
        ),
        group=_LEDGER,
        metavar="NAME",
        each_attempt=True,
    )
    timing: Timing | None = flag(
        None,
        (
            "How to time the parts of a training on a GPU (default: events). With events, the GPU notes when it has "
            "finished each part, and the clock reads the notes once per iteration. With synchronized, the clock waits "
            "for the GPU at the end of each part, which is slower, for diagnosis. With host, the clock measures when "
            "the processor launches the work, not how long the GPU takes. On the CPU, all times are those of host."
        ),
        group=_LEDGER,
    )

    def __post_init__(self) -> None:
        """Check the values, and make the paths of a panel file and of a recipe file absolute.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        if self.nproc is not None:
            raise UserError(
                f"--nproc {self.nproc}: give --nproc on the command line of train.py, and write its name in full"
            )
        for name in ("on", "nodes", "dry_run"):
            if getattr(self, name):
                raise UserError(f"--{name}: give it on the command line of train.py, and write its name in full")
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
            rl_library=self.rl_library, panel=self.panel, mirrors=self.mirror, runs=runs, log_root=self.log_root
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
        if isinstance(data.get("scale_lr"), bool):  # a switch, before there were two rules
            data = {**data, "scale_lr": "sqrt" if data["scale_lr"] else None}
        return msgspec.convert(data, cls, dec_hook=lambda kind, value: kind(value))
