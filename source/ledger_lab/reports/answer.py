"""The answer of a run in six lines: is its target reached, and at which cost; and what to look at next."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from rich.text import Text

from ledger_lab.ledger import Run, Status
from ledger_lab.ledger.meters.phases import LOOP_PHASES, Phase
from ledger_lab.names import as_started
from ledger_lab.reports.summary import RunSummary, status_cell
from ledger_lab.tasks.recipes.settings import names_code
from ledger_lab.units import MISSING, counted, duration, gigabytes, percent, quantity, usd

PAGE = "report.html"
"""The page of a run, in its directory."""

_ENDINGS = {
    Status.COMPLETED: "",
    Status.LIMIT_REACHED: " (time limit)",
    Status.STOPPED: " (health event)",
    Status.TARGET_REACHED: " (no valid proof is recorded)",
}
"""What follows “TARGET NOT REACHED”, if it is not the status itself."""


def answer_lines(run: Run, summary: RunSummary, width: int) -> list[Text]:
    """Return the six lines. In a terminal, each is broken between its figures where it is too long.

    Args:
        run: The run.
        summary: Its figures.
        width: Columns of the terminal.
    """
    page = run.directory / PAGE
    is_open = summary.status == Status.RUNNING
    style = "bold green" if summary.target_reached else "bold cyan" if is_open else "bold red"
    lines = [Text(line, style=style) for line in _broken(_verdict(run, summary), "   ", "  ", width)]
    labelled = {
        "policy": _policy(run, summary),
        "time": _times(summary),
        "speed": _speed(run, summary),
        "watch": [_command("play.py", run, summary, "--video") if summary.checkpoints else MISSING],
        "details": [_command("report.py", run, summary), *([str(_from_here(page))] if page.is_file() else [])],
    }
    return [*lines, *labelled_lines(labelled.items(), width, indent="  ")]


def labelled_lines(parts: Collection[tuple[str, Sequence[str]]], width: int, indent: str = "") -> list[Text]:
    """Return lines that begin with labels. In a terminal, each is broken between its parts where it is too long.

    Args:
        parts: Labels, each with at least one part.
        width: Columns of the terminal.
        indent: Blanks before the labels.
    """
    labels = max(len(label) for label, _ in parts) + 2
    return [
        Text(line, no_wrap=True, overflow="ignore")
        for label, (first, *others) in parts
        for line in _broken([f"{indent}{label:<{labels}}{first}", *others], " · ", indent + " " * labels, width)
    ]


def notes(summary: RunSummary) -> Iterator[Text]:
    """Yield what is to be known about a run's scores, its health events, and with what it began; without its reason.

    Args:
        summary: The run.
    """
    cell = status_cell(summary)
    for detail in cell.details[summary.reason is not None :]:
        yield Text(f"{cell.text}: {detail}", style="yellow")
    for each in summary.health:
        times = f" ({each.times} times)" if each.times > 1 else ""
        event = f"{each.event} at iteration {each.iteration}{times}"
        yield Text(f"{event}: {each.evidence}; {each.advice}", style="yellow")
    if (began := summary.began_from) is not None:
        price = "unpriced" if began["usd"] is None else f"{usd(began['usd'])} at its declared price"
        yield Text(
            f"began with {began['checkpoint']} of run {began['run_id']} ({began['task']}), which had taken "
            f"{duration(began['wall_s'])}, {price} and {quantity(began['env_steps'])} steps; these are not counted here"
        )


def _broken(parts: Sequence[str], between: str, indent: str, width: int) -> list[str]:
    """Join parts to as few lines as the width allows."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(between) + len(part) <= width:
            lines[-1] += between + part
        else:
            lines.append(indent + part)
    return lines


def _verdict(run: Run, summary: RunSummary) -> list[str]:
    """Return whether the target is reached, the success, the time and the cost."""
    status, interval = Status(summary.status), summary.heldout_interval
    if summary.target_reached:
        reached = "✓ TARGET REACHED"
    elif status is Status.RUNNING:
        reached = "… NOT REACHED YET"
    elif interval is None and status is Status.COMPLETED:
        reached = "✗ NOT SCORED (--no_eval)" if not run.declared.held_out_slots else "✗ NOT SCORED"
    else:
        reached = f"✗ TARGET NOT REACHED{_ENDINGS.get(status, f' ({status.replace("_", " ")})')}"
    success = f"success {MISSING}"
    if interval is not None:
        low, high = interval
        kind = "fresh" if summary.target_reached else "checked"
        success = f"{percent(summary.heldout_success)} of {summary.heldout_episodes} {kind} episodes"
        success += f" (95 %: {100 * low:.1f} to {100 * high:.1f})"
        checked = [each for each in summary.checkpoints if each.heldout_episodes is not None]
        if not summary.target_reached and checked[-1:] != summary.checkpoints[-1:]:
            success += f" by {checked[-1].path}"  # the policy of the next line was not scored
    cost = usd(summary.billable_usd)
    if summary.billable_usd is None:
        cost += " (--usd_per_hour X)" if summary.usd_per_hour is None else " (energy unknown)"
    elif summary.target_reached and not run.declared.stop_at_target:
        cost += f" for all {duration(summary.wall_s)}"
    taken_s = summary.wall_to_target_s if summary.target_reached else summary.wall_s
    return [reached, success, f"in {duration(taken_s)}", f"cost {cost}"]


def _policy(run: Run, summary: RunSummary) -> list[str]:
    """Return the policy that play.py shows: the proven one, or the last."""
    if not summary.checkpoints:
        return ["none was saved"]
    policy = summary.proven or summary.checkpoints[-1]
    parts = [policy.path, f"{counted(policy.iteration, 'iteration')}, {quantity(policy.env_steps)} steps"]
    if (later := summary.env_steps // run.declared.env_steps_per_iteration - policy.iteration) > 0:
        during = "ran during its check and proof" if policy.proven and run.declared.stop_at_target else "followed"
        parts.append(f"{later} more {during}")
    return parts


def _times(summary: RunSummary) -> list[str]:
    """Return where the time of all attempts went. Rounding keeps the sum."""
    groups = {
        "start-up": {Phase.STARTUP, Phase.COMPILE},
        "scoring": {Phase.EVALUATE},
        "learning": LOOP_PHASES - {Phase.EVALUATE},
        **({"restarts": {Phase.RESTART}} if Phase.RESTART in summary.phases else {}),
    }
    spent_s = {name: sum(summary.phases.get(phase, 0.0) for phase in phases) for name, phases in groups.items()}
    spent_s["other"] = summary.wall_s - sum(spent_s.values())
    parts, passed_s = [], 0.0
    for name, seconds in spent_s.items():
        whole = round(passed_s + seconds) - round(passed_s)
        passed_s += seconds
        parts.append(f"{name} {f'{whole} s' if whole < 60 else duration(whole)}")
    return [f"{duration(summary.wall_s)} in all: {parts[0]}", *parts[1:]]


def _speed(run: Run, summary: RunSummary) -> list[str]:
    """Return steps per second, and what the training used of its machine."""
    speed = f"{quantity(summary.env_steps_per_s)} steps/s"
    if summary.evaluate_s is not None and summary.env_steps_per_wall_s is not None:
        speed += f", {quantity(summary.env_steps_per_wall_s)} with scoring"
    parts = [speed]
    if summary.host is not None:
        hardware = run.declared.hardware
        cores = hardware.get("cpu_quota") or hardware.get("cpu_cores")
        of = f" of {cores * (run.declared.machines or 1):g}" if cores else ""
        parts += [f"{summary.host.cpu_s_per_s:.1f}{of} cores", gigabytes(summary.host.peak_memory_gb)]
    if summary.devices:
        parts.append(f"GPU {percent(summary.mean_gpu_utilization, 0)} busy, {gigabytes(summary.peak_gpu_memory_gb)}")
    return parts


def _command(script: str, run: Run, summary: RunSummary, *flags: str) -> str:
    """Return a command about a run, for the folder in which the training was started."""
    root = run.directory.resolve().parents[2]
    if root != Path("logs").resolve():
        flags += "--log_root", shlex.quote(str(_from_here(root)))
    if script == "play.py" and any(map(names_code, run.declared.overrides)):
        flags += ("--trust_run",)
    return as_started(" ".join(("./isaaclab.sh -p", f"scripts/{script}", summary.run_id[:8], *flags)))


def _from_here(path: Path) -> Path:
    """Return a path, relative to the working directory if it is below it."""
    path = path.resolve()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
