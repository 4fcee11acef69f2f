"""``scripts/report.py --scaling`` and ``--published``. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ledger_lab.errors import UserError
from ledger_lab.ledger import Cohort
from ledger_lab.ledger.costs import Price
from ledger_lab.reports import render_repricing
from ledger_lab.reports.cohort_summary import Contents, missing_runs
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.studies.scaling import find_studies
from ledger_lab.studies.scaling.published import read_published
from ledger_lab.studies.scaling.scaled_runs import scaled_runs
from ledger_lab.studies.scaling.view import published_json, render_published, render_studies, studies_json


def show_scaling(
    contents: Contents,
    price: Price | None = None,
    json_file: str | None = None,
    declared: Sequence[Cohort] = (),
) -> None:
    """Show how the runs of a ledger scale, or write it as JSON.

    Args:
        contents: The runs and their summaries.
        price: Price that replaces the declared prices.
        json_file: File for JSON; ``-`` for standard output; ``None`` for text on the terminal.
        declared: Cohorts of declared size; the report names how many of their runs are missing.
    """
    missing = missing_runs(declared, contents.summaries)
    studies = find_studies(scaled_runs(contents.runs, contents.summaries, price))
    if json_file is not None:
        asked = None if price is None else price.to_dict()
        cohorts = [
            {"cohort": each.name, "declared_runs": each.size, "missing_runs": missing[each.name]} for each in declared
        ]
        write_json(json_file, {"asked_price": asked, "studies": studies_json(studies), "declared_cohorts": cohorts})
        return
    console = make_console()
    if price is not None:
        console.print(render_repricing(price, contents.summaries))
    console.print(render_studies(studies, console.width))
    for cohort in declared:
        if missing[cohort.name]:
            words = f"cohort {cohort.name}: {missing[cohort.name]} of {cohort.size} declared runs missing"
            console.print(Text(words, style="yellow"), soft_wrap=True)


def show_published(json_file: str | None = None) -> None:
    """Show the published rates that come with LedgerLab, and their analysis, or write both as JSON.

    Args:
        json_file: As for :func:`show_scaling`.

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
