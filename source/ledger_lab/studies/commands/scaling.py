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
from ledger_lab.reports.terminal.flags import Program
from ledger_lab.reports.terminal.request import flag
from ledger_lab.studies.scaling import find_studies
from ledger_lab.studies.scaling.published import read_published
from ledger_lab.studies.scaling.scaled_runs import scaled_runs
from ledger_lab.studies.scaling.view import published_json, render_published, render_studies, studies_json


@dataclass(frozen=True, kw_only=True)
class ScalingRequest(PricedRequest):
    """What a user asks of ``scripts/report.py scaling``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py scaling",
        description=(
            "Show how runs scale with the number of processes and the batch: rates, efficiency, waiting, steps, time "
            "and cost to the target by size, the fitted scaling laws, and the time of each run split into start-up, "
            "training, scoring and interruptions. Runs that differ in more than their size and seed are shown "
            "separately."
        ),
        terms=("run", "cohort", "target", "ledger"),
        examples=("report.py scaling", "report.py scaling COHORT --figures figures", "report.py scaling --published"),
    )

    runs: tuple[str, ...] = runs_flag()
    json: str | None = json_flag()
    figures: Path | None = flag(
        None,
        "Write the figures as SVG and PNG files into this folder instead: rate, efficiency, steps, time and cost to "
        "the target, and the share of each phase. Needs Matplotlib: pip install 'ledger_lab[figures]'.",
        metavar="DIR",
    )
    published: bool = flag(
        False, "Show published rates of one to eight GPUs, analysed like the runs of a ledger. Needs no ledger."
    )

    def __post_init__(self) -> None:
        """Refuse flags that would be ignored.

        Raises:
            UserError: If flags exclude each other, or a price file would be ignored.
        """
        self.require_priced()
        self.require_at_most_one("json", "figures")
        if self.published and (self.runs or self.figures or self.instance or self.usd_per_hour):
            raise UserError("--published needs no ledger, and takes no other argument but --json")


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
    if request.published:
        _show_published(request.json)
        return 0
    found = select(request, request.runs)
    if request.figures is not None:
        from ledger_lab.studies.commands.figures import write_figures

        write_figures(request.figures, found.contents, found.price)
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


def _show_published(json_file: str | None) -> None:
    """Show the published rates that come with LedgerLab, and their analysis, or write both as JSON.

    Args:
        json_file: File for JSON; ``-`` for standard output; ``None`` for text on the terminal.

    Raises:
        UserError: If the file is missing or damaged.
    """
    try:
        published = read_published()
    except (OSError, ValueError) as error:
        raise UserError(f"the published rates cannot be read ({error}): install ledger_lab again") from error
    if json_file is not None:
        write_json(json_file, published_json(published))
        return
    console = make_console()
    console.print(render_published(published, console.width))
