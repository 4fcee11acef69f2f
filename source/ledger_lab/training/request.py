"""The command lines of the programs that open a simulation."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.meters.health import Event
from ledger_lab.runners.adapter import LIBRARIES
from ledger_lab.supervision.attempt import GRACE_S, PATIENCE
from ledger_lab.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.terminal.flags import DEFAULT_TASK
from ledger_lab.training.health_watch import stop_on_help


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
    task = parser.add_argument_group("what to train")
    task.add_argument("--task", default=DEFAULT_TASK, help=f"Gymnasium id of a task (default: {DEFAULT_TASK}).")
    task.add_argument(
        "--rl_library", default=None, help=f"Library: {', '.join(LIBRARIES)} (default: the task's own choice)."
    )
    task.add_argument(
        "--agent",
        metavar="NAME",
        default=None,
        help="Configuration of the agent: the name that the task registers it by (default: LIBRARY_cfg_entry_point).",
    )
    task.add_argument(
        "--checkpoint",
        metavar="RUN_CHECKPOINT_OR_TASK",
        default=None,
        help=(
            "Begin with the networks of this checkpoint, and not with random ones: a file, a run id or a run directory "
            "(of a run, the checkpoint that was confirmed to reach the target, else the last one), or a task whose "
            "policy comes with the package. Its optimizer and counts stay behind; what it cost is named beside the "
            "run's own cost. Observations that it has not seen must follow those that it has, and begin without weight."
        ),
    )
    task.add_argument("--num_envs", type=int, default=None, help="Environments per process (default: the task's).")
    task.add_argument("--seed", type=int, default=None, help="Seed of the training (default: the agent's).")
    task.add_argument("--max_iterations", type=int, default=None, help="Iterations to train (default: the agent's).")
    task.add_argument(
        "--scale_lr",
        action="store_true",
        help=(
            "Scale the learning rate to the batch: by √2 per doubling of environments × horizon × epochs against the "
            "task's own configuration. The result is shown, and recorded as an override."
        ),
    )
    task.add_argument(
        "--stop_on", metavar="EVENT[,EVENT]", default=str(Event.NON_FINITE), help=stop_on_help().replace("%", "%%")
    )
    processes = parser.add_argument_group("in how many processes")
    processes.add_argument(
        "--nproc",
        type=int,
        metavar="N",
        default=None,
        help=(
            "Train in N processes on this machine, one per GPU, or on the CPU. They open no port to other machines. "
            "--num_envs is for each of them, and the seed of each is --seed plus its rank."
        ),
    )
    processes.add_argument(
        "--distributed",
        action="store_true",
        help="This is one of several processes that torchrun starts, on one machine or many.",
    )
    processes.add_argument(
        "--allow_public_address",
        action="store_true",
        help=(
            "Let processes of several machines connect at a public address. torch trusts everybody who can connect "
            "there, so only a firewall keeps strangers out."
        ),
    )
    judge = parser.add_argument_group(
        "how it is judged",
        "With MuJoCo-Warp on the CPU a policy's held-out episodes repeat bit for bit; on height fields, where contacts "
        "are found for all robots together, with env.sim.physics.deterministic=true alone, which is slower, and makes "
        "another panel id.",
    )
    judge.add_argument(
        "--panel",
        default=None,
        help="Held-out panel: a name from config/panels, or a .toml file (default: the task's).",
    )
    judge.add_argument("--target", type=float, default=None, help="Success to reach, in (0, 1] (default: the panel's).")
    judge.add_argument(
        "--stop_at_target",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="End the training when a policy is confirmed to reach the target (default), or train on.",
    )
    judge.add_argument(
        "--eval_every",
        type=int,
        metavar="N",
        default=None,
        help="Judge a policy every N iterations (default: back to back, the newest one whenever a panel is over).",
    )
    judge.add_argument(
        "--no_eval", action="store_true", help="Judge nothing, and simulate no held-out slots; see evaluate.py."
    )
    going_on = parser.add_argument_group(
        "when it is interrupted",
        "SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU and Ctrl-C let the iteration end, save the state of the training, and end "
        f"the attempt; what has not come to that in time (--grace_s) ends as it is. Exit status {EXIT_REQUEUE} then "
        "says that the system asked for the end, and that --resume will go on, as it does where an attempt that "
        "resumes a run is still starting: a batch job may requeue itself on it. Without a state it is 143, and after "
        "Ctrl-C 130.",
    )
    going_on.add_argument(
        "--resume",
        metavar="RUN",
        default=None,
        help=(
            "Go on with an interrupted run (run id or directory) in a new attempt, as it was declared: the flags that "
            "declared it are left out, or repeated as they were. Iterations, steps, time and cost are totals of all "
            "attempts."
        ),
    )
    going_on.add_argument(
        "--save_state_every",
        type=int,
        metavar="N",
        default=None,
        help=(
            "Iterations between two states on disk, of which the newest is kept, so that not even a killed run has to "
            f"begin anew (default: as checkpoints, and {STATE_AT_LATEST_S / 60:g} minutes after the last one at the "
            "latest; 0: only when it is asked to end, after a confirmation, and after the last iteration)."
        ),
    )
    going_on.add_argument(
        "--grace_s",
        type=float,
        metavar="N",
        default=GRACE_S,
        help=(
            f"Seconds that the scheduler lets it live after such a signal (default: {GRACE_S:g}). The training waits "
            f"{PATIENCE:g} N for the end of its iteration, and is killed after N."
        ),
    )
    going_on.add_argument(
        "--allow_changed_code",
        action="store_true",
        help="Resume although source files or package versions are not those that the run began with.",
    )
    ledger = parser.add_argument_group("what it is worth, and where that is written")
    ledger.add_argument(
        "--instance",
        default=None,
        help="Instance of the price book this runs on (default: local, which is unpriced).",
    )
    ledger.add_argument(
        "--usd_per_hour", type=float, default=None, help="Price of that instance, or of one local device [USD/h]."
    )
    ledger.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        default=None,
        help="Price file of your own, in front of config/prices.toml; see scripts/import_prices.py.",
    )
    ledger.add_argument("--cohort", default=None, help="Name of the runs that this one is to be reported with.")
    ledger.add_argument(
        "--cohort_size",
        type=int,
        metavar="N",
        default=None,
        help="Runs that the cohort is going to have, so that a missing one shows. The first run to say so declares it.",
    )
    ledger.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    ledger.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="NAME",
        help=(
            "Start scripts/mirror.py with the run, in a process of its own: tensorboard, wandb or mlflow. Can be "
            "repeated."
        ),
    )
    ledger.add_argument(
        "--timing",
        choices=("host", "synchronized"),
        default="host",
        help="host (default) does not disturb; synchronized waits for the device at each phase's boundaries.",
    )
    return parser


STATE_AT_LATEST_S = 300.0
"""How old the last saved state may become where nobody says how often to save [s]."""
