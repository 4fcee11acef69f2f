"""``scripts/report.py scaling``: how runs scale, as tables, JSON or figures. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from ledger_lab.errors import UserError
from ledger_lab.ledger.cores import no_collection
from ledger_lab.reports import render_repricing
from ledger_lab.reports.cohort_summary import missing_runs
from ledger_lab.reports.selection import PricedRequest, Selection, json_flag, runs_flag, select
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.reports.terminal.request import Program, flag
from ledger_lab.studies.scaling.drawing import save_drawings
from ledger_lab.studies.scaling.points import find_studies, scaled_runs
from ledger_lab.studies.scaling.view import render_studies, studies_json


@dataclass(frozen=True, kw_only=True)
class ScalingRequest(PricedRequest):
    """What a user asks of ``scripts/report.py scaling``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py scaling",
        description=(
            "Show how runs scale with the number of processes and the batch: rates, efficiency, steps, time and "
            "cost to the target by size, the fitted scaling laws, and the time of each run split into start-up, "
            "training, scoring and interruptions. Runs that differ in more than their size and seed are shown "
            "separately."
        ),
        examples=("report.py scaling", "report.py scaling COHORT --figures figures"),
    )

    runs: tuple[str, ...] = runs_flag()
    json: str | None = json_flag()
    figures: Path | None = flag(
        None,
        "Write the figures as SVG and PNG files into this folder instead: rate, steps, time and cost to the target. "
        "Needs Matplotlib: pip install 'ledger_lab[figures]'.",
        metavar="DIR",
    )

    def __post_init__(self) -> None:
        """Refuse flags that would be ignored.

        Raises:
            UserError: If flags exclude each other, or a price file would be ignored.
        """
        super().__post_init__()
        self.require_at_most_one("json", "figures")


@no_collection()
def report_scaling(argv: Sequence[str]) -> int:
    """Show how the runs of a ledger scale, or write it as JSON or figures.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger or run, or a file can't be written.
    """
    request = ScalingRequest.parse(argv)
    found = select(request, request.runs)
    if request.figures is not None:
        _write_figures(request.figures, found)
    else:
        _show_scaling(found, request.json)
    return found.status


def _show_scaling(found: Selection, json_file: str | None) -> None:
    """Show how runs scale, and how many declared runs are missing; or write it as JSON."""
    contents = found.contents
    declared = [cohort for cohort in found.ledger.cohorts if not found.names or cohort.name in found.names]
    missing = missing_runs(declared, contents.summaries)
    studies = find_studies(scaled_runs(contents.runs, contents.summaries, found.price))
    if json_file is not None:
        cohorts = [
            {"cohort": each.name, "declared_runs": each.size, "missing_runs": missing[each.name]} for each in declared
        ]
        report = {"asked_price": found.asked_price, "studies": studies_json(studies), "declared_cohorts": cohorts}
        write_json(json_file, report)
        return
    console = make_console()
    if found.price is not None:
        console.print(render_repricing(found.price, contents.summaries))
    console.print(render_studies(studies, console.width))
    for cohort in declared:
        if missing[cohort.name]:
            words = f"cohort {cohort.name}: {missing[cohort.name]} of {cohort.size} declared runs missing"
            console.print(Text(words, style="yellow"), soft_wrap=True)


def _write_figures(folder: Path, found: Selection) -> None:
    """Write all figures as SVG and PNG files, and list them.

    Raises:
        UserError: If there is nothing to draw, a file can't be written, or Matplotlib is not installed.
    """
    from ledger_lab.studies.scaling.figures import draw_ledger

    if folder.exists() and not folder.is_dir():
        raise UserError(f"--figures {folder}: it is no folder: name a folder for the files")
    drawings = draw_ledger(found.contents.runs, found.contents.summaries, found.price)
    if not drawings:
        raise UserError(
            "no figure: none of these runs trained the same task for the same target with several numbers of processes "
            "or environments; to start such trainings, use scripts/study.py"
        )
    console = make_console()
    for drawing in drawings:
        files = ", ".join(map(str, save_drawings(folder, [drawing])))
        lines = [drawing.title, f"  wrote {files}", *(f"  {note}" for note in drawing.notes)]
        console.print(*lines, sep="\n", soft_wrap=True)
