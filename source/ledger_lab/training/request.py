"""The request of a user to ``scripts/train.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.ledger import require_cohort_name
from ledger_lab.meters.health import Event
from ledger_lab.panels.panel import require_target
from ledger_lab.supervision.attempt import GRACE_S, PATIENCE
from ledger_lab.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.request import (
    FlagGroup,
    Named,
    flag,
    flag_names,
    log_root_flag,
)
from ledger_lab.training.health_watch import parse_stop_on, stop_on_help
from ledger_lab.training.task_request import TASK, TaskRequest

STATE_AT_LATEST_S = 300.0
"""Largest age of the last saved state without ``--save_state_every`` [s]."""

_LONGEST_GRACE_S = 86_400

_PROCESSES = FlagGroup("processes")
_JUDGE = FlagGroup(
    "evaluation",
    "With MuJoCo-Warp on the CPU, the held-out episodes of a policy repeat bit for bit. On rough ground, this "
    "needs env.sim.physics.deterministic=true, which is slower and changes the panel id.",
)
_GOING_ON = FlagGroup(
    "interruptions",
    "On SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU or Ctrl-C, the training finishes its iteration, saves its state and "
    "exits. If there is no time for that (--grace_s), it exits without a new state. After Ctrl-C, the exit status "
    f"is 130. After the other signals, exit status {EXIT_REQUEUE} means that --resume can continue the run, so a "
    "batch job may requeue itself; 143 means that there is no state to resume from.",
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
        description="Train a task until a policy is confirmed to reach its target on held-out episodes, and record "
        "success, time and cost in the ledger. Policies are scored while training goes on, in environments that the "
        "learner never sees. Without arguments, train.py trains the cart-pole, on a GPU if there is one, else on the "
        "CPU.",
        examples=(
            "train.py --task LedgerLab-Ant --seed 1 --usd_per_hour 0.10",
            "train.py --rl_library skrl --num_envs 512 physics=ovphysx env.episode_length_s=4.0",
            "train.py --resume RUN",
        ),
    )

    agent: str | None = flag(
        None,
        "Agent configuration, by the name under which the task registers it (default: LIBRARY_cfg_entry_point).",
        group=TASK,
        metavar="NAME",
    )
    checkpoint: str | None = flag(
        None,
        "Start with the networks of a checkpoint instead of random ones. Name a checkpoint file, a run id, a run "
        "directory, or a task whose policy comes with the package. For a run, the confirmed checkpoint is taken, "
        "or the last one if none was confirmed. Optimizer and counters start from zero. The report shows the cost "
        "of the earlier run separately. The task may have more observations than the checkpoint, if "
        "the additional ones come last. Their weights start at zero.",
        group=TASK,
        metavar="RUN_CHECKPOINT_OR_TASK",
    )
    trust_run: bool = flag(
        False,
        "With --checkpoint: accept overrides of that run that may name functions, classes or files. Use this flag only "
        "if you trust the authors of the run.",
        group=TASK,
    )
    max_iterations: int | None = flag(
        None, "Largest number of training iterations (default: set by the agent configuration).", group=TASK
    )
    scale_lr: bool = flag(
        False,
        "Scale the learning rate to the batch size. Each doubling of the batch, compared with the task's own "
        "configuration, multiplies the rate by √2. The batch size is environments × horizon × epochs, over all "
        "processes. The result is shown and recorded as an override.",
        group=TASK,
    )
    stop_on: tuple[str, ...] = flag(
        (str(Event.NON_FINITE),),
        stop_on_help().replace("%", "%%"),
        group=TASK,
        metavar="EVENT[,EVENT]",
        parse=parse_stop_on,
    )

    nproc: int | None = flag(
        None,
        "Train in N processes on this machine, one per GPU, or all on the CPU. Other machines cannot connect to them. "
        "--num_envs applies to each process; the seed of a process is --seed plus its rank (0 to N - 1). Default: one "
        "process.",
        group=_PROCESSES,
        metavar="N",
        each_attempt=True,
    )
    distributed: bool = flag(
        False,
        "Mark this process as one of several that torchrun starts, on one machine or many.",
        group=_PROCESSES,
        each_attempt=True,
    )
    allow_public_address: bool = flag(
        False,
        "Let the processes of several machines use a public address. torch trusts every program that can connect to "
        "it, so protect the address with a firewall.",
        group=_PROCESSES,
        each_attempt=True,
    )

    panel: str | None = flag(
        None,
        "Panel to score policies on: a name from config/panels or a .toml file (default: set by the task).",
        group=_JUDGE,
    )
    target: float | None = flag(
        None, "Share of successful episodes to reach, in (0, 1] (default: set by the panel).", group=_JUDGE
    )
    stop_at_target: bool = flag(
        True,
        "End the training as soon as a policy is confirmed to reach the target (default: yes).",
        group=_JUDGE,
    )
    eval_every: int | None = flag(
        None,
        "Score a policy every N iterations (default: when a scoring is done, start the next with the newest policy).",
        group=_JUDGE,
        metavar="N",
    )
    no_eval: bool = flag(False, "Score no policy during training; evaluate.py can do so later.", group=_JUDGE)

    resume: str | None = flag(
        None,
        "Continue an interrupted run, given by its id or directory. Leave out the flags that the run was started "
        "with, or repeat them unchanged. Iterations, steps, time and cost are totals of all attempts.",
        group=_GOING_ON,
        metavar="RUN",
        each_attempt=True,
    )
    save_state_every: int | None = flag(
        None,
        "Save the state every N iterations, so that a killed run can be resumed, too. Only the newest state is "
        f"kept. Default: with each checkpoint, and at least every {STATE_AT_LATEST_S / 60:g} minutes. With 0: only "
        "on a signal, after a confirmation and after the last iteration.",
        group=_GOING_ON,
        metavar="N",
        each_attempt=True,
    )
    grace_s: float = flag(
        GRACE_S,
        f"Time that the scheduler leaves between its signal and the kill [s] (default: {GRACE_S:g}). The training "
        f"waits up to {PATIENCE:g} N for its iteration to end. After N, LedgerLab kills the training.",
        group=_GOING_ON,
        metavar="N",
        each_attempt=True,
    )
    allow_changed_code: bool = flag(
        False,
        "Resume even if source files or package versions have changed since the run started.",
        group=_GOING_ON,
        each_attempt=True,
    )

    instance: str | None = flag(
        None, "Entry of the price file that describes this machine (default: local, which has no price).", group=_LEDGER
    )
    usd_per_hour: float | None = flag(
        None,
        "Price of the --instance [USD/h]. If you name no instance, it is the price of one GPU, or of the whole machine "
        "if it trains on its CPU.",
        group=_LEDGER,
    )
    prices: Path | None = flag(
        None,
        "Your own price file. Its entries override those of config/prices.toml; see scripts/import_prices.py.",
        group=_LEDGER,
        metavar="FILE",
    )
    cohort: str | None = flag(None, "Name of a group of runs that are reported together.", group=_LEDGER)
    cohort_size: int | None = flag(
        None,
        "Number of runs that the cohort will have, so that the report shows missing ones. Declare it once.",
        group=_LEDGER,
        metavar="N",
    )
    log_root: Path = log_root_flag(group=_LEDGER, each_attempt=True)
    mirror: tuple[str, ...] = flag(
        (),
        "Send the run to tensorboard, wandb or mlflow from a separate process; see scripts/mirror.py. Can be repeated.",
        group=_LEDGER,
        metavar="NAME",
        each_attempt=True,
    )
    timing: Literal["host", "synchronized"] = flag(
        "host",
        "How times are measured on a GPU. host: without waiting for the GPU. synchronized: with a wait at the end "
        "of each phase, which is exact and slows the training (default: host).",
        group=_LEDGER,
    )

    def __post_init__(self) -> None:
        """Check the values, and make the path of a panel file absolute.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        if self.nproc is not None:
            raise UserError(f"--nproc {self.nproc}: pass it to train.py itself, and write the flag in full")
        if self.allow_changed_code and self.resume is None:
            raise UserError("--allow_changed_code: only a resumed run can have changed code; add --resume RUN")
        for name in ("num_envs", "max_iterations", "eval_every", "cohort_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"--{name} {value}: must be at least 1")
        require_target(self.target)
        if self.save_state_every is not None and self.save_state_every < 0:
            raise UserError(f"--save_state_every {self.save_state_every}: must not be negative")
        if not 0 < self.grace_s <= _LONGEST_GRACE_S:
            raise UserError(f"--grace_s {self.grace_s:g}: must lie above 0 and not above {_LONGEST_GRACE_S}, a day")
        if self.cohort is not None:
            require_cohort_name(self.cohort)
        elif self.cohort_size is not None:
            raise UserError(f"--cohort_size {self.cohort_size}: name the cohort with --cohort")
        if self.panel is not None and Path(self.panel).is_file():
            object.__setattr__(self, "panel", str(Path(self.panel).resolve()))

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
        return msgspec.convert(data, cls, dec_hook=lambda kind, value: kind(value))
