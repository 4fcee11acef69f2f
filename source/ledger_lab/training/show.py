"""What a training prints: its settings at the start, and why it ended early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded, Status
from ledger_lab.ledger.endings import reason_of
from ledger_lab.ledger.meters.compilation import Built
from ledger_lab.panels import ERROR_BUDGET
from ledger_lab.panels.checks import Prospects
from ledger_lab.reports.terminal.console import Terminal, tell_error
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.training.supervision.attempt import Attempt
from ledger_lab.units import counted, duration, percent

if TYPE_CHECKING:
    from ledger_lab.off_policy.replay_memory import ReplayMemory
    from ledger_lab.training.plan import TrainPlan


def describe_batch(plan: TrainPlan) -> str:
    """Return the batch arithmetic of a training in one line."""
    num_envs, batch = plan.env_cfg.scene.num_envs, plan.batch
    rate = read_setting(plan.agent_cfg, plan.adapter.dialect.overrides["learning_rate"])
    if (replay := batch.replay) is not None:
        every, steps = replay.update_every, replay.replay_steps
        used = replay.updates_per_step * replay.batch_size / (every * num_envs)
        processes = plan.world.size
        each, drawn = ("", "") if processes == 1 else (f" in each of {processes} processes", f"{processes} × ")
        return (
            f"replay memory {steps} steps × {num_envs} = {steps * num_envs} transitions{each} · "
            f"{counted(replay.updates_per_step, 'update')} of {drawn}{replay.batch_size} transitions per "
            f"{'step' if every == 1 else f'{every} steps'}: each transition is used {used:g} times · learning rate "
            f"{rate}"
        )
    in_all = num_envs * plan.world.size
    environments = str(num_envs) if in_all == num_envs else f"{plan.world.size} × {num_envs}"
    line = (
        f"batch {environments} × {batch.horizon} = {in_all * batch.horizon} steps in {batch.minibatches_of(num_envs)} "
        f"minibatches, {batch.epochs} epochs: effective batch {batch.effective_batch(in_all)} · learning rate "
        f"{rate}"
    )
    return f"{line} (scaled to the batch)" if plan.request.scale_lr else line


def show_settings(plan: TrainPlan, console: Console) -> None:
    """Print the settings of a training."""
    processes = f"{plan.world.size} processes × " if plan.world.size > 1 else ""
    declared, resumed = plan.declared, plan.resumed
    again = "" if resumed is None else f" · attempt {plan.attempt}, from iteration {resumed.state.iteration}"
    console.print(
        f"run {declared.run_id}{again} · {declared.task} · {declared.rl_library} · {processes}{declared.num_envs} "
        f"environments · {declared.physics} on {declared.device} · seed {declared.seed}",
        describe_batch(plan),
        *_defaults_for_gpu(plan),
        plan.run_dir,
        *_prospects(plan),
        "starting the simulation …",
        sep="\n",
        soft_wrap=True,
    )


def show_building(console: Console) -> None:
    """Print that kernels are compiled."""
    console.print("compiling kernels, once per machine (on a new machine, this takes minutes) …", soft_wrap=True)


def show_built(built: Built, console: Console) -> None:
    """Print how much of the run's time compiled kernels, if it is a second or more."""
    if built.time_ns >= 1e9:
        spent = duration(built.time_ns / 1e9)
        console.print(f"{spent} of the run compiled kernels, once per machine: the next run starts sooner")


def show_replay(memory: ReplayMemory, saved: bool, processes: int, console: Console) -> None:
    """Print how much memory the replay memory takes, and how much disk space if it is saved.

    Args:
        memory: The replay memory of this process.
        saved: Whether it is saved with the state.
        processes: Processes of the training.
        console: Where to print.
    """
    each = f" of each of {processes} processes" if processes > 1 else ""
    line = f"the replay memory{each} takes {_size(memory.nbytes)} of {memory.device}"
    if saved:
        line += f"; saved with the state, up to {_size(2 * memory.nbytes)} of disk space"
    console.print(line, soft_wrap=True)


def show_reasons(reasons: Sequence[str], console: Console) -> None:
    """Print why a resumed training does not equal an uninterrupted one.

    Args:
        reasons: The reasons; empty if it does.
        console: Where to print.
    """
    for reason in reasons:
        line = f"the resumed training is not identical to an uninterrupted one: {reason}"
        console.print(line, style="yellow", markup=False, soft_wrap=True)


def _size(size_bytes: int) -> str:
    """Return a size in MB or GB."""
    return f"{size_bytes / 1e6:.3g} MB" if size_bytes < 1e9 else f"{size_bytes / 1e9:.3g} GB"


def _defaults_for_gpu(plan: TrainPlan) -> list[Text]:
    """Return a line about the defaults for a GPU, if they are used."""
    if not plan.for_gpu:
        return []
    line = "number of environments and learning rate are the defaults for a GPU: to choose others, use --num_envs"
    task = TASKS.get(plan.request.task)
    if task is not None and plan.adapter.library in task.reached_on_gpu and not plan.request.no_symmetry:
        return [Text(line)]
    untried = "With these defaults, no such training of this task has reached its target yet"
    return [Text(f"{line}. {untried}", style="yellow")]


def _prospects(plan: TrainPlan) -> list[Text]:
    """Return how likely a good policy is to pass at once, and a warning if that is unlikely.

    If the run of the checkpoint has spent a part of the error budget, the first line says so.
    """
    if not plan.declared.held_out_slots:
        return []
    lines, budget = [], plan.declared.error_budget
    if plan.beginning is not None and budget < ERROR_BUDGET:
        lines.append(
            Text(
                f"error budget: {percent(budget, 2)}; the rest of {percent(ERROR_BUDGET, 0)} was spent by "
                f"run {plan.beginning.began_from['run_id']} or before it"
            )
        )
    prospects = Prospects.of(plan.panel.target_success, len(plan.panel.episodes), budget)
    warning = prospects.warning
    return [*lines, Text(str(prospects)), *([] if warning is None else [Text(warning, style="yellow")])]


def is_refused(attempt: Attempt, ended: AttemptEnded | None) -> bool:
    """Tell whether this process or another refused the request, so that nothing of the attempt is kept.

    Args:
        attempt: The attempt, after its end.
        ended: The row of the attempt's end, as the supervisor wrote it.
    """
    return Status.REFUSED in (attempt.status, ended and ended.status)


def show_failure(plan: TrainPlan, attempt: Attempt, ended: AttemptEnded | None, terminal: Terminal) -> None:
    """Print why an attempt ended early, if it did.

    Args:
        plan: The run.
        attempt: The attempt, after its end.
        ended: The row of the attempt's end, as the supervisor wrote it.
        terminal: Where the error is printed.
    """
    if attempt.error is None or attempt.status in (Status.STOPPED, Status.LIMIT_REACHED):  # it was told already
        return
    if ended is None or attempt.status is Status.REFUSED or ended.reason == reason_of(attempt.error):
        tell_error(attempt.error, terminal.console, terminal.log)
    elif ended.status is Status.REFUSED:
        tell_error(UserError((ended.reason or "").replace("UserError: ", "", 1)), terminal.console)
    else:  # the end of another process, which caused the error in this one
        terminal.console.print(
            f"{ended.status}: {ended.reason} (what it printed: {plan.run_dir}/console-1-RANK.log)",
            style="bold red",
            markup=False,
            soft_wrap=True,
        )


def show_trouble(console: Console, error: OSError) -> None:
    """Print that rows of a journal wait for the disk, or are lost."""
    console.print(f"the journal cannot be written: {error}", style="bold yellow", soft_wrap=True)


def show_loss(console: Console, error: OSError) -> None:
    """Print that a TensorBoard file ends early."""
    console.print(f"figures for TensorBoard are lost, and the training goes on: {error.strerror}", soft_wrap=True)
