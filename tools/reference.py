"""Generate the reference pages of the documentation from the code, without starting a simulation."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ledger_lab.cli.report import VIEWS
from ledger_lab.ledger import Status
from ledger_lab.ledger.content import KINDS
from ledger_lab.ledger.libraries import PPO, algorithms, dialects
from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase
from ledger_lab.reports.checkpoints import CheckpointSummary
from ledger_lab.reports.cohort_summary import CohortSummary
from ledger_lab.reports.columns import attribute_docs, columns_of, in_one_line
from ledger_lab.reports.ledger_tables import TABLES
from ledger_lab.reports.summary import RunSummary
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE, exit_status_of
from ledger_lab.training.health import Event
from tools.equivalence import equivalence_table

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "docs" / "reference" / "_generated"
HELP_LIMIT_S = 300
"""How long one script may take to print its help [s]."""


COMMON_FIELDS = {
    "attempt": "Number of the attempt within its run, from 1.",
    "checkpoint_sha256": "SHA-256 of the checkpoint.",
    "checkpoints": "Paths of the checkpoints below the run's directory.",
    "cohort": "Name of the cohort.",
    "command": "Command line of the program.",
    "config_sha256": "SHA-256 of each configuration, by name.",
    "device": "Device, such as `cpu` or `cuda:0`.",
    "devices": "Samples of the accelerators, each with the fields of `DeviceSample`.",
    "env_steps": "Environment steps of all processes so far.",
    "epochs": "Passes over each batch.",
    "exactness": "Whether episodes repeat bit for bit (`bitwise`) or only on average (`statistical`).",
    "experiment": "Folder of the run below `<log_root>/<library>/`.",
    "hardware": "Processor, cores, memory and accelerators.",
    "host": "Name of the host.",
    "iteration": "Iterations completed.",
    "max_iterations": "Largest number of training iterations.",
    "minibatches": "Minibatches per batch.",
    "outcomes": "Outcomes of the episodes: the fields of `Outcomes`.",
    "panel": "Name of the panel.",
    "panel_fields": "Fields that the panel id is a hash of.",
    "panel_id": "Id of the panel.",
    "peak_gpu_memory_bytes": "Peak device memory [B].",
    "peak_host_memory_bytes": "Peak host memory [B].",
    "physics": "Name of the physics engine.",
    "pid": "Process id.",
    "rank": "Rank of the process.",
    "reason": "The reason of the ending, in one line.",
    "rl_library": "RL library.",
    "run_id": "Id of the run.",
    "seed": "Training seed.",
    "sha256": "SHA-256 of the file.",
    "size": "Declared number of runs.",
    "size_bytes": "Size of the file [B].",
    "status": "How it ended; see the exit statuses.",
    "stop_at_target": "Whether the run ends when a policy is proven.",
    "target_success": "Share of successful episodes to reach.",
    "task": "Gymnasium id of the task.",
    "timing": "Measurement mode of the phases.",
    "versions": "Versions of the installed packages, by name.",
    "wall_ns": "Age of the attempt [ns].",
}
"""Meanings of fields that several rows share, or that need no docstring beside their name."""


def scripts() -> list[Path]:
    """Return the scripts of the project, by name."""
    return sorted((ROOT / "scripts").glob("*.py"))


def write_reference(folder: Path = GENERATED) -> None:
    """Write all generated pages.

    Args:
        folder: Where they go; made if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "scripts.md": scripts_page(),
        "tables.md": _tables_page(),
        "rows.md": rows_page(),
        "phases.md": _phases_page(),
        "recipes.md": _recipes_page(),
        "exit-statuses.md": _exit_statuses_page(),
        "health-events.md": _health_events_page(),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def _help(script: Path, *view: str) -> str:
    """Return what a script, or a view of the report, prints for ``--help``."""
    environ = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    command = [sys.executable, str(script), *view, "--help"]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True, timeout=HELP_LIMIT_S
    )
    return done.stdout[done.stdout.index("usage:") :].rstrip()


def scripts_page(help_of: Callable[..., str] = _help) -> str:
    """Return the page of all flags.

    Args:
        help_of: Gives what a script, or a view of the report, prints for ``--help``.
    """
    found = [(path, view) for path in scripts() for view in ("", *(VIEWS if path.stem == "report" else ()))]
    with ThreadPoolExecutor(max_workers=2) as pool:
        helps = list(pool.map(lambda each: help_of(each[0], *each[1].split()), found))
    parts = ["# Scripts and flags", "Call each script as `./isaaclab.sh -p scripts/NAME.py`."]
    for (path, view), text in zip(found, helps, strict=True):
        title = f"### {path.name} {view}" if view else f"## {path.name}"
        parts.append(f"{title}\n\n```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def _tables_page() -> str:
    """Return the page of the tables that SQL and exports see, and of the report's columns."""
    parts = ["# Ledger tables", "`report.py query` and `export.py` see these tables. Any value may be missing."]
    for table in TABLES.values():
        rows = ((f"`{each.name}`", str(each.type), each.meaning) for each in table.columns)
        parts += [f"## {table.name}", table.meaning, _table(("column", "type", "meaning"), rows)]
    parts += [
        "## Columns of the report",
        "The terminal and the page show these columns. `report.py --json` writes every figure under its key.",
    ]
    for title, kind in (("Runs", RunSummary), ("Checkpoints", CheckpointSummary), ("Cohorts", CohortSummary)):
        figures = (
            (f"`{each.name}`", *((each.shown.title, each.shown.denominator) if each.shown else ("", "")), each.meaning)
            for each in columns_of(kind)
        )
        parts += [f"### {title}", _table(("JSON key", "column", "measured over", "meaning"), figures)]
    return "\n\n".join(parts) + "\n"


def rows_page() -> str:
    """Return the page of the row kinds."""
    parts = [
        "# Row kinds",
        "A journal holds rows of these kinds only. Durations are in nanoseconds. The "
        "[Python API](../api.md) describes `DeviceSample`, `HostSample` and `Outcomes`.",
    ]
    for name, kind in KINDS.items():
        docs = {base_name: text for base in reversed(kind.__mro__[:-1]) for base_name, text in _docs(base).items()}
        rows = (
            (f"`{each.name}`", f"`{each.type}`", docs.get(each.name) or COMMON_FIELDS[each.name])
            for each in dataclasses.fields(kind)
        )
        parts += [f"## {name}", in_one_line(kind.__doc__ or "", code="`"), _table(("field", "type", "meaning"), rows)]
        parts.append("On disk before the program goes on." if kind.DURABLE else "Written in batches.")
    return "\n\n".join(parts) + "\n"


def _phases_page() -> str:
    """Return the page of the phases."""
    docs = _docs(Phase)
    rows = ((f"`{each.value}`", docs.get(each.name, ""), "yes" if each in TRAINING_PHASES else "no") for each in Phase)
    return f"# Phases\n\n{_table(('phase', 'meaning', 'in the training loop'), rows)}\n"


def _recipes_page() -> str:
    """Return the page of the recipe fields in each library."""
    others = [dialect for algorithm in algorithms() if algorithm != PPO for dialect in dialects(algorithm)]
    return (
        "# Recipe fields by library\n\nThe tables show where each library keeps a field of the recipe. On the command "
        "line, write `agent.` in front. [Some fields differ in their meaning](../recipe_differences.md).\n\n"
        f"## {PPO.upper()}\n\n{equivalence_table(dialects())}\n\n"
        "## Algorithms with a replay memory\n\nAn empty cell means that the algorithm has no such field.\n\n"
        f"{equivalence_table(others)}\n"
    )


def _health_events_page() -> str:
    """Return the page of the health events."""
    rows = ((f"`{event}`", event.meaning) for event in Event)
    return (
        f"# Health events\n\n{_table(('event', 'what goes wrong'), rows)}\n\n"
        "`--stop_on` ends a run at the events that it lists. [What LedgerLab measures]"
        "(../../explanation/measuring.md#health-events) says when events are reported.\n"
    )


def _exit_statuses_page() -> str:
    """Return the page of the statuses of attempts and the exit statuses of programs."""
    docs = _docs(Status)
    written = [each for each in Status if each not in (Status.RUNNING, Status.LOST)]
    rows = ((f"`{each.value}`", docs.get(each.name, ""), str(exit_status_of(each))) for each in written)
    return (
        f"# Exit statuses\n\n{_table(('status', 'meaning', 'exit status'), rows)}\n\n"
        f"A preempted run that can be resumed exits with {EXIT_REQUEUE}. "
        "A request that cannot be carried out exits with 2, and leaves nothing in the ledger.\n"
    )


def _docs(kind: type) -> dict[str, str]:
    """Return the docstrings under the fields of a class of ours, or under the members of an enumeration."""
    return attribute_docs(kind) if kind.__module__.startswith("ledger_lab.") else {}


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Return the text of a cell, in one line."""
    return in_one_line(text, code="`").replace("|", "\\|")


if __name__ == "__main__":
    write_reference()
