"""What a user asks of ``scripts/train.py``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_type_hints

from ledger_lab.errors import UserError
from ledger_lab.ledger import require_cohort_name
from ledger_lab.meters.health import Event
from ledger_lab.runners.adapter import LIBRARIES
from ledger_lab.supervision.attempt import GRACE_S, PATIENCE
from ledger_lab.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.terminal.flags import DEFAULT_TASK
from ledger_lab.terminal.request import (
    FlagGroup,
    SimulationRequest,
    add_flags,
    as_given,
    flag,
    flag_names,
    log_root_flag,
)
from ledger_lab.training.health_watch import parse_stop_on, stop_on_help

STATE_AT_LATEST_S = 300.0
"""How old the last saved state may become where nobody says how often to save [s]."""

_LONGEST_GRACE_S = 86_400

_TASK = FlagGroup("what to train")
_PROCESSES = FlagGroup("in how many processes")
_JUDGE = FlagGroup(
    "how it is judged",
    "With MuJoCo-Warp on the CPU a policy's held-out episodes repeat bit for bit; on height fields, where contacts "
    "are found for all robots together, with env.sim.physics.deterministic=true alone, which is slower, and makes "
    "another panel id.",
)
_GOING_ON = FlagGroup(
    "when it is interrupted",
    "SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU and Ctrl-C let the iteration end, save the state of the training, and end "
    f"the attempt; what has not come to that in time (--grace_s) ends as it is. Exit status {EXIT_REQUEUE} then "
    "says that the system asked for the end, and that --resume will go on, as it does where an attempt that "
    "resumes a run is still starting: a batch job may requeue itself on it. Without a state it is 143, and after "
    "Ctrl-C 130.",
)
_LEDGER = FlagGroup("what it is worth, and where that is written")


@dataclass(frozen=True, kw_only=True)
class TrainRequest(SimulationRequest):
    """What a user asks of ``scripts/train.py``: each field is a flag of the same name, but for the overrides.

    Only what needs no task, library or panel is checked here; :func:`ledger_lab.training.plan.plan_training` checks
    the rest.
    """

    overrides: tuple[str, ...] = ()
    """Hydra overrides."""
    task: str = flag(DEFAULT_TASK, f"Gymnasium id of a task (default: {DEFAULT_TASK}).", group=_TASK)
    rl_library: str | None = flag(
        None, f"Library: {', '.join(LIBRARIES)} (default: the task's own choice).", group=_TASK
    )
    agent: str | None = flag(
        None,
        "Configuration of the agent: the name that the task registers it by (default: LIBRARY_cfg_entry_point).",
        group=_TASK,
        metavar="NAME",
    )
    checkpoint: str | None = flag(
        None,
        "Begin with the networks of this checkpoint, and not with random ones: a file, a run id or a run directory "
        "(of a run, the checkpoint that was confirmed to reach the target, else the last one), or a task whose "
        "policy comes with the package. Its optimizer and counts stay behind; what it cost is named beside the "
        "run's own cost. Observations that it has not seen must follow those that it has, and begin without weight.",
        group=_TASK,
        metavar="RUN_CHECKPOINT_OR_TASK",
    )
    num_envs: int | None = flag(None, "Environments per process (default: the task's).", group=_TASK)
    seed: int | None = flag(None, "Seed of the training (default: the agent's).", group=_TASK)
    max_iterations: int | None = flag(None, "Iterations to train (default: the agent's).", group=_TASK)
    scale_lr: bool = flag(
        False,
        "Scale the learning rate to the batch: by √2 per doubling of environments × horizon × epochs against the "
        "task's own configuration. The result is shown, and recorded as an override.",
        group=_TASK,
    )
    stop_on: tuple[str, ...] = flag(
        (str(Event.NON_FINITE),),
        stop_on_help().replace("%", "%%"),
        group=_TASK,
        metavar="EVENT[,EVENT]",
        parse=parse_stop_on,
    )

    nproc: int | None = flag(
        None,
        "Train in N processes on this machine, one per GPU, or on the CPU. They open no port to other machines. "
        "--num_envs is for each of them, and the seed of each is --seed plus its rank.",
        group=_PROCESSES,
        metavar="N",
        each_attempt=True,
    )
    distributed: bool = flag(
        False,
        "This is one of several processes that torchrun starts, on one machine or many.",
        group=_PROCESSES,
        each_attempt=True,
    )
    allow_public_address: bool = flag(
        False,
        "Let processes of several machines connect at a public address. torch trusts everybody who can connect "
        "there, so only a firewall keeps strangers out.",
        group=_PROCESSES,
        each_attempt=True,
    )

    panel: str | None = flag(
        None, "Held-out panel: a name from config/panels, or a .toml file (default: the task's).", group=_JUDGE
    )
    target: float | None = flag(None, "Success to reach, in (0, 1] (default: the panel's).", group=_JUDGE)
    stop_at_target: bool = flag(
        True,
        "End the training when a policy is confirmed to reach the target (default), or train on.",
        group=_JUDGE,
    )
    eval_every: int | None = flag(
        None,
        "Judge a policy every N iterations (default: back to back, the newest one whenever a panel is over).",
        group=_JUDGE,
        metavar="N",
    )
    no_eval: bool = flag(False, "Judge nothing, and simulate no held-out slots; see evaluate.py.", group=_JUDGE)

    resume: str | None = flag(
        None,
        "Go on with an interrupted run (run id or directory) in a new attempt, as it was declared: the flags that "
        "declared it are left out, or repeated as they were. Iterations, steps, time and cost are totals of all "
        "attempts.",
        group=_GOING_ON,
        metavar="RUN",
        each_attempt=True,
    )
    save_state_every: int | None = flag(
        None,
        "Iterations between two states on disk, of which the newest is kept, so that not even a killed run has to "
        f"begin anew (default: as checkpoints, and {STATE_AT_LATEST_S / 60:g} minutes after the last one at the "
        "latest; 0: only when it is asked to end, after a confirmation, and after the last iteration).",
        group=_GOING_ON,
        metavar="N",
        each_attempt=True,
    )
    grace_s: float = flag(
        GRACE_S,
        f"Seconds that the scheduler lets it live after such a signal (default: {GRACE_S:g}). The training waits "
        f"{PATIENCE:g} N for the end of its iteration, and is killed after N.",
        group=_GOING_ON,
        metavar="N",
        each_attempt=True,
    )
    allow_changed_code: bool = flag(
        False,
        "Resume although source files or package versions are not those that the run began with.",
        group=_GOING_ON,
        each_attempt=True,
    )

    instance: str | None = flag(
        None, "Instance of the price book this runs on (default: local, which is unpriced).", group=_LEDGER
    )
    usd_per_hour: float | None = flag(None, "Price of that instance, or of one local device [USD/h].", group=_LEDGER)
    prices: Path | None = flag(
        None,
        "Price file of your own, in front of config/prices.toml; see scripts/import_prices.py.",
        group=_LEDGER,
        metavar="FILE",
    )
    cohort: str | None = flag(None, "Name of the runs that this one is to be reported with.", group=_LEDGER)
    cohort_size: int | None = flag(
        None,
        "Runs that the cohort is going to have, so that a missing one shows. The first run to say so declares it.",
        group=_LEDGER,
        metavar="N",
    )
    log_root: Path = log_root_flag(group=_LEDGER, each_attempt=True)
    mirror: tuple[str, ...] = flag(
        (),
        "Start scripts/mirror.py with the run, in a process of its own: tensorboard, wandb or mlflow. Can be repeated.",
        group=_LEDGER,
        metavar="NAME",
        each_attempt=True,
    )
    timing: Literal["host", "synchronized"] = flag(
        "host",
        "host (default) does not disturb; synchronized waits for the device at each phase's boundaries.",
        group=_LEDGER,
    )

    def __post_init__(self) -> None:
        """Refuse what can't be meant, and let a panel's file be found from any directory.

        Raises:
            UserError: If a flag has no possible value, or lacks another flag.
        """
        if self.nproc is not None:
            raise UserError(f"--nproc {self.nproc}: write it in full, to train.py itself")
        if self.allow_changed_code and self.resume is None:
            raise UserError("--allow_changed_code: there is nothing to go on with; say --resume RUN, too")
        for name in ("num_envs", "max_iterations", "eval_every", "cohort_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"--{name} {value}: must be at least 1")
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

    def resumed_by(self, asked: TrainRequest) -> TrainRequest:
        """Return this request of a run as the run's next attempt carries it out.

        Args:
            asked: What is asked of the attempt.
        """
        own = {name: getattr(asked, name) for name in flag_names(TrainRequest, each_attempt=True)}
        if asked.save_state_every is None:
            own["save_state_every"] = self.save_state_every
        return replace(self, **own, launcher=asked.launcher)

    def to_data(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        data = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_data` returned.

        Raises:
            TypeError: If a field is unknown.
            UserError: If a value is refused.
        """
        hints = get_type_hints(cls)
        paths = [name for name, hint in hints.items() if Path in (hint, *get_args(hint))]
        found = {name: Path(data[name]) for name in paths if data.get(name) is not None}
        return cls(**as_given({**data, **found}))


def train_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/train.py``."""
    parser = argparse.ArgumentParser(
        prog="train.py",
        description=(
            "Train a task until a policy is proven to reach its held-out target, and write what it cost into the "
            "ledger. Policies are judged in slots of the training simulation that the learner never sees; one that "
            "passes the panel is confirmed on fresh seeds. Without arguments: the cart-pole, on the GPU where there is "
            "one, else on the CPU."
        ),
    )
    return add_flags(parser, TrainRequest)
