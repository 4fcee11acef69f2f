"""The command lines of the programs that open a simulation."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.meters.health import Event
from ledger_lab.runners.adapter import LIBRARIES
from ledger_lab.supervision.attempt import GRACE_S, PATIENCE
from ledger_lab.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.terminal.flags import DEFAULT_TASK, HelpFormatter, examples
from ledger_lab.training.health_watch import stop_on_help


def train_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/train.py``."""
    parser = argparse.ArgumentParser(
        prog="train.py",
        description=(
            "Train a task until a policy is confirmed to reach its target on held-out episodes, and record success, "
            "time and cost in the ledger. Policies are scored while training goes on, in environments that the learner "
            "never sees. Without arguments, train.py trains the cart-pole, on a GPU if there is one, else on the CPU."
        ),
        epilog=examples(
            "train.py --task LedgerLab-Ant --seed 1 --usd_per_hour 0.10",
            "train.py --rl_library skrl --num_envs 512 physics=ovphysx env.episode_length_s=4.0",
            "train.py --resume RUN",
        ),
        formatter_class=HelpFormatter,
    )
    task = parser.add_argument_group("what to train")
    task.add_argument("--task", default=DEFAULT_TASK, help=f"Gymnasium id of a task (default: {DEFAULT_TASK}).")
    task.add_argument(
        "--rl_library", default=None, help=f"RL library: {', '.join(LIBRARIES)} (default: chosen by the task)."
    )
    task.add_argument(
        "--agent",
        metavar="NAME",
        default=None,
        help="Agent configuration, by the name under which the task registers it (default: LIBRARY_cfg_entry_point).",
    )
    task.add_argument(
        "--checkpoint",
        metavar="RUN_CHECKPOINT_OR_TASK",
        default=None,
        help=(
            "Start with the networks of a checkpoint instead of random ones. Name a checkpoint file, a run id, a run "
            "directory, or a task whose policy comes with the package. For a run, the confirmed checkpoint is taken, "
            "or the last one if none was confirmed. Optimizer and counters start from zero. The report shows the cost "
            "of the earlier run separately. If the task has observations that the checkpoint does not know, they must "
            "come last; their weights start at zero."
        ),
    )
    task.add_argument("--num_envs", type=int, default=None, help="Environments per process (default: set by the task).")
    task.add_argument("--seed", type=int, default=None, help="Training seed (default: set by the agent configuration).")
    task.add_argument(
        "--max_iterations",
        type=int,
        default=None,
        help="Largest number of training iterations (default: set by the agent configuration).",
    )
    task.add_argument(
        "--scale_lr",
        action="store_true",
        help=(
            "Scale the learning rate with the batch size, environments × horizon × epochs: multiply it by √2 for each "
            "doubling compared with the task's own configuration. The result is shown and recorded as an override."
        ),
    )
    task.add_argument(
        "--stop_on", metavar="EVENT[,EVENT]", default=str(Event.NON_FINITE), help=stop_on_help().replace("%", "%%")
    )
    processes = parser.add_argument_group("processes")
    processes.add_argument(
        "--nproc",
        type=int,
        metavar="N",
        default=None,
        help=(
            "Train in N processes on this machine, one per GPU, or all on the CPU. --num_envs applies to each process; "
            "the seed of a process is --seed plus its rank. Default: one process."
        ),
    )
    processes.add_argument(
        "--distributed",
        action="store_true",
        help="Mark this process as one of several that torchrun starts, on one machine or many.",
    )
    judge = parser.add_argument_group(
        "evaluation",
        "With MuJoCo-Warp on the CPU, the held-out episodes of a policy repeat bit for bit. On rough ground, they do "
        "so only with env.sim.physics.deterministic=true, which is slower and changes the panel id.",
    )
    judge.add_argument(
        "--panel",
        default=None,
        help="Panel to score policies on: a name from config/panels or a .toml file (default: set by the task).",
    )
    judge.add_argument(
        "--target",
        type=float,
        default=None,
        help="Share of successful episodes to reach, in (0, 1] (default: set by the panel).",
    )
    judge.add_argument(
        "--stop_at_target",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="End the training as soon as a policy is confirmed to reach the target (default: yes).",
    )
    judge.add_argument(
        "--eval_every",
        type=int,
        metavar="N",
        default=None,
        help="Score a policy every N iterations (default: the newest policy, whenever the last scoring is done).",
    )
    judge.add_argument(
        "--no_eval", action="store_true", help="Score no policy during training; evaluate.py can do so later."
    )
    going_on = parser.add_argument_group(
        "interruptions",
        "On SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU or Ctrl-C, the training finishes its iteration, saves its state and "
        "exits. If there is no time for that (--grace_s), it exits without a new state. After a signal of the system, "
        f"exit status {EXIT_REQUEUE} means that --resume can continue the run, so a batch job may requeue itself; 143 "
        "means that there is no state to resume from. After Ctrl-C, the exit status is 130.",
    )
    going_on.add_argument(
        "--resume",
        metavar="RUN",
        default=None,
        help=(
            "Continue an interrupted run, given by its id or directory. Leave out the flags that the run was started "
            "with, or repeat them unchanged. Iterations, steps, time and cost are totals of all attempts."
        ),
    )
    going_on.add_argument(
        "--save_state_every",
        type=int,
        metavar="N",
        default=None,
        help=(
            "Save the state every N iterations, so that a killed run can be resumed, too. Only the newest state is "
            f"kept. Default: with each checkpoint, and at least every {STATE_AT_LATEST_S / 60:g} minutes. With 0: only "
            "on a signal, after a confirmation and after the last iteration."
        ),
    )
    going_on.add_argument(
        "--grace_s",
        type=float,
        metavar="N",
        default=GRACE_S,
        help=(
            f"Time between such a signal and the kill by the scheduler [s] (default: {GRACE_S:g}). The training waits "
            f"up to {PATIENCE:g} N for its iteration to end. After N, it is killed."
        ),
    )
    going_on.add_argument(
        "--allow_changed_code",
        action="store_true",
        help="Resume even if source files or package versions have changed since the run started.",
    )
    ledger = parser.add_argument_group("price and ledger")
    ledger.add_argument(
        "--instance",
        default=None,
        help="Entry of the price file that describes this machine (default: local, which has no price).",
    )
    ledger.add_argument(
        "--usd_per_hour", type=float, default=None, help="Price of that instance, or of one local device [USD/h]."
    )
    ledger.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        default=None,
        help="Your own price file. Its entries override those of config/prices.toml; see scripts/import_prices.py.",
    )
    ledger.add_argument("--cohort", default=None, help="Name of a group of runs that are reported together.")
    ledger.add_argument(
        "--cohort_size",
        type=int,
        metavar="N",
        default=None,
        help="Number of runs that the cohort will have, so that the report shows missing ones. Declare it once.",
    )
    ledger.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    ledger.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="NAME",
        help=(
            "Send the run to tensorboard, wandb or mlflow from a separate process; see scripts/mirror.py. Can be "
            "repeated."
        ),
    )
    ledger.add_argument(
        "--timing",
        choices=("host", "synchronized"),
        default="host",
        help="host: do not wait for the device. synchronized: wait at each phase boundary; slower (default: host).",
    )
    return parser


STATE_AT_LATEST_S = 300.0
"""How old the last saved state may become where nobody says how often to save [s]."""
