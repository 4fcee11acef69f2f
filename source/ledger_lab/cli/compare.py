"""``scripts/report.py compare``: compares two cohorts or runs. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass

from ledger_lab.ledger.cores import no_collection
from ledger_lab.reports.compare import compare_runs, show_finding
from ledger_lab.reports.selection import PricedRequest, json_flag, select
from ledger_lab.reports.terminal.console import write_json
from ledger_lab.reports.terminal.request import Program, flag


@dataclass(frozen=True, kw_only=True)
class CompareRequest(PricedRequest):
    """What a user asks of ``scripts/report.py compare``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py compare",
        description=(
            "Compare two cohorts or runs. The program prints which side reaches the target sooner, with the ratio of "
            "the two times, and which side is cheaper, with the ratio of the two costs. With at least five runs on "
            "each side, both ratios have an interval, and both differences are tested. For two single runs, the "
            "program also shows the result of evaluate.py --versus, if there is one. If A and B cannot be compared, "
            "for example because their panels differ, the program lists what differs and exits with status 2."
        ),
        examples=("report.py compare time-to-target-stock time-to-target-tuned --log_root records/time-to-target-cpu",),
    )

    a: str = flag(MISSING, "A cohort, or the first characters of a run id.", metavar="A", positional=True)
    b: str = flag(MISSING, "The other cohort or run.", metavar="B", positional=True)
    json: str | None = json_flag()


@no_collection()
def compare_sides(argv: Sequence[str]) -> int:
    """Compare two sides, on the terminal or as JSON.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger, cohort or run, or the sides do not measure the same thing.
    """
    request = CompareRequest.parse(argv)
    found = select(request, (request.a, request.b))
    sizes = {cohort.name: cohort.size for cohort in found.ledger.cohorts}
    finding = compare_runs(request.a, request.b, found.contents.runs, request.price(), sizes)
    if request.json is None:
        show_finding(finding)
    else:
        write_json(request.json, finding.to_json())
    return found.status
