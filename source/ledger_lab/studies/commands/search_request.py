"""What a user asks of ``scripts/search.py``."""

from __future__ import annotations

import os
from dataclasses import MISSING, dataclass
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.paths import config_root
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.reports.terminal.flags import Program
from ledger_lab.reports.terminal.request import FlagGroup, Request, flag, log_root_flag

_ELSEWHERE = FlagGroup("other machines")


@dataclass(frozen=True, kw_only=True)
class SearchRequest(Request):
    """What a user asks of ``scripts/search.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="search.py",
        usage=(
            "search.py [-h] [--log_root LOG_ROOT | --on CLUSTER [--at_once N]] [--dry_run] SEARCH\n"
            "       search.py [--log_root LOG_ROOT | --on CLUSTER] --status [--all]\n"
            "                 [--json FILE | --html FILE | --figures DIR] SEARCH\n"
            "       search.py --on CLUSTER --cancel SEARCH"
        ),
        description=(
            "Search for the recipe that reaches the target in the least time, or for the least cost. A search file "
            "lists hyperparameters with their ranges, a budget, and training seeds.\n\n"
            "First, the stock recipe is trained on all search seeds. Then each other trial races against the best "
            "trial so far: the program ends a trial when it can't win any more. When the rest of the budget is too "
            "small, up to three of the best trials and the stock recipe are trained on sealed seeds, and compared. If "
            "the best of these trials is proven to be better than the stock recipe, its recipe is written into a file "
            "for train.py --recipe.\n\n"
            "If the search file asks for a population, its members are trained in stages, and the worst are replaced "
            "by changed copies of better ones. This finds a schedule, which is compared on sealed seeds in the same "
            "way.\n\n"
            "If you start the program again, it continues from the ledger, and the same ledger gives the same "
            f"trainings. If the system ends the program, the exit status is {EXIT_REQUEUE}; after Ctrl-C, it is 130."
        ),
        terms=("trial", "stock recipe", "sealed seeds", "target", "run", "cohort", "ledger"),
        examples=(
            "search.py ant_recipe --dry_run",
            "search.py ant_recipe",
            "search.py ant_recipe --on slurm --at_once 4",
            "search.py ant_recipe --status",
        ),
    )

    search: str = flag(
        MISSING, "Search file: a name from config/searches, or your own .toml file.", metavar="SEARCH", positional=True
    )
    log_root: Path = log_root_flag()
    dry_run: bool = flag(False, "Only print the command of the next training, and write its recipe file.")
    status: bool = flag(False, "Only show the trials, what they have cost, and which one is the best so far.")
    all: bool = flag(
        False,
        "Show all trials in the table, not only the best ones and those under way; of a population, all generations.",
    )
    json: str | None = flag(
        None, "With --status: write the results to a JSON file; - means standard output.", metavar="FILE"
    )
    html: Path | None = flag(None, "With --status: write the search, with figures, as an HTML page.", metavar="FILE")
    figures: Path | None = flag(
        None, "With --status: write the figures of the search into a folder, as SVG and PNG files.", metavar="DIR"
    )
    on: str | None = flag(
        None,
        "Submit the trainings to a cluster. CLUSTER is the name of a file in config/clusters, or your own .toml file. "
        "The file sets the root folder of the ledger. The program runs until the search ends; if it is ended earlier, "
        "the submitted trainings go on.",
        group=_ELSEWHERE,
        metavar="CLUSTER",
    )
    at_once: int = flag(
        1,
        "Largest number of trainings that run at the same time on the cluster (default: 1).",
        group=_ELSEWHERE,
        metavar="N",
    )
    cancel: bool = flag(False, "End all trainings of the search that wait or run.", group=_ELSEWHERE)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        self.require_at_most_one("dry_run", "status", "cancel")
        if self.at_once < 1:
            raise UserError(f"--at_once {self.at_once}: must be at least 1")
        if self.on is None and (self.at_once > 1 or self.cancel):
            raise UserError(f"--{'cancel' if self.cancel else 'at_once'} needs --on CLUSTER")
        for name in ("json", "html", "figures"):
            if getattr(self, name) is not None and not self.status:
                raise UserError(f"--{name} {getattr(self, name)}: add --status")
        self.require_at_most_one("json", "html", "figures")
        if self.on is not None and self.log_root != Path("logs"):
            raise UserError(f"--log_root {self.log_root}: the cluster file sets it: leave it out")


def find_search(name: str) -> Path:
    """Return the path of a search file.

    Raises:
        UserError: If there is no such file.
    """
    folder = config_root() / "searches"
    path = Path(os.path.expanduser(name)) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.toml"))
        raise UserError(f"no search {name!r}: name a .toml file, or a file in config/searches: {nearest(name, known)}")
    return path
