"""What a user can ask of ``scripts/report.py``."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger.costs import Price, load_price_book, resolve_price
from ledger_lab.reports.terminal.durations import parse_duration
from ledger_lab.reports.terminal.flags import Program
from ledger_lab.reports.terminal.request import Request, flag, log_root_flag

SHOWN_RUNS = 1000
"""Largest number of runs in the table or on a page. More runs take minutes to draw, and a browser long to show."""

_LEAST_FOLLOW_S = 1.0
"""Shortest time between two looks at the ledger [s]."""


@dataclass(frozen=True, kw_only=True)
class ReportRequest(Request):
    """What a user asks of ``scripts/report.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py",
        description=(
            "Show the results of every run of a ledger: status, held-out success, time to the target, cost, "
            "environment steps per second, peak memory and the share of time that evaluation took. Failed runs are "
            "shown, too. "
            f"The table shows at most {SHOWN_RUNS} runs, the newest ones. To show others, name runs or cohorts; "
            "--json writes all runs. If a journal is damaged, its run is left out, and the exit status is 1. "
            "scripts/verify_ledger.py then shows the damage."
        ),
        terms=("run", "cohort", "target", "held-out", "journal", "ledger", "cell"),
        examples=(
            "report.py --checkpoints",
            "report.py --html page.html",
            "report.py --html page.html --follow 15",
            "report.py --scaling",
            "report.py --recommend LedgerLab-Cartpole --deadline 2h",
            "report.py --log_root records/time-to-target-cpu --compare time-to-target-stock time-to-target-tuned",
            'report.py --sql "SELECT cell, avg(success::INT) FROM episodes GROUP BY cell ORDER BY 2"',
        ),
    )

    runs: tuple[str, ...] = flag(
        (),
        "Run id or name of a cohort (default: all runs). The first characters of an id are enough.",
        metavar="RUN",
        positional=True,
    )
    log_root: Path = log_root_flag()
    json: str | None = flag(None, "Write all results to a JSON file; - means standard output.", metavar="FILE")
    html: Path | None = flag(
        None,
        "Write an HTML page with tables and plots, which works without a network. The page shows at most "
        f"{SHOWN_RUNS} runs, the newest ones. To show others, name runs or cohorts.",
        metavar="FILE",
    )
    follow: float | None = flag(
        None,
        "With --html: keep running, and read the ledger and rewrite the page after each of these periods. A browser "
        "that shows the file loads it again by itself. Ctrl-C ends. No server is needed, so the page can lie on shared "
        "storage [s].",
        metavar="SECONDS",
    )
    figures: Path | None = flag(
        None,
        "Write the figures of scaling studies as SVG and PNG files into this folder: rate, efficiency, steps, time and "
        "cost to the target, and the share of each phase. Needs "
        "Matplotlib: pip install 'ledger_lab[figures]'.",
        metavar="DIR",
    )
    compare: tuple[str, str] | None = flag(
        None,
        "Compare two cohorts or runs. The program prints which side reaches the target sooner, with the ratio of the "
        "two times, and which side is cheaper, with the ratio of the two costs. With at least five runs on each side, "
        "both ratios have an interval, and both differences are tested. For two single runs, the program also shows "
        "the result of evaluate.py --versus, if there is one. If A and B cannot be compared, for example because their "
        "panels differ, the program lists what differs and exits with status 2.",
        metavar=("A", "B"),
    )
    sql: str | None = flag(
        None,
        "Print the answer to a query of the ledger, in DuckDB's SQL. --schema lists the tables. --json and --csv "
        "write the answer to a file.",
        metavar="QUERY",
    )
    scaling: bool = flag(
        False,
        "Show how runs scale with the number of processes and the batch: rates, efficiency, waiting, steps, time and "
        "cost to the target by size, the fitted scaling laws, and the time of each run split into start-up, training, "
        "scoring and interruptions. Runs that differ in more than their size and seed are shown separately.",
    )
    published: bool = flag(
        False, "Show published rates of one to eight GPUs, analysed like the runs of a ledger. Needs no ledger."
    )
    recommend: str | None = flag(
        None,
        "Show which machine, library, and number of processes and environments train a task in the least time and for "
        "the least money: from measured runs, and from what scaling laws predict. Also shows which next run would be "
        "worth most. All runs must have the same target and panel; configurations are ranked if they have at least "
        "five runs.",
        metavar="TASK",
    )
    deadline: float | None = flag(
        None,
        "With --recommend: find the cheapest configuration whose runs reach the target within this wall-clock time, "
        "such as 90m or 2h, with a probability of at least 90 %%.",
        metavar="TIME",
        parse=parse_duration,
    )
    budget: float | None = flag(
        None,
        "With --recommend: find the fastest configuration whose expected cost to reach the target, failed runs "
        "included, is at most this [USD], with a probability of at least 90 %%.",
        metavar="USD",
    )
    target: float | None = flag(
        None, "With --recommend: use only runs that were trained to this success rate, such as 0.9.", metavar="SHARE"
    )
    schema: bool = flag(False, "List the tables and columns that --sql can use.")
    csv: str | None = flag(None, "Write the answer to --sql to a CSV file; - means standard output.", metavar="FILE")
    checkpoints: bool = flag(
        False, "Also show the scores, times and memory of every checkpoint, and how training episodes ended."
    )
    instance: str | None = flag(
        None,
        "Compute all costs with the price of this entry of the price file (default: the price that each run "
        "recorded). The report names the recorded and the new price.",
    )
    usd_per_hour: float | None = flag(
        None,
        "Price to compute all costs with [USD/h]. With --instance, it is the price of that machine, and replaces the "
        "price in the price file. Without --instance, it is the price of one GPU, or of the whole machine if the "
        "training ran on its CPU.",
    )
    prices: Path | None = flag(
        None,
        "Your own price file, in addition to config/prices.toml. If both files have an entry of the same name, your "
        "entry is used.",
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        """Refuse flags that would be ignored.

        Raises:
            UserError: If an argument has no effect together with another argument.
        """
        views = ("html", "figures", "compare", "sql", "scaling", "published", "recommend", "schema")
        self.require_at_most_one(*views)
        unused = next((name for name in ("deadline", "budget", "target") if getattr(self, name) is not None), None)
        if unused is not None and self.recommend is None:
            raise UserError(f"--{unused} needs --recommend TASK")
        if self.csv is not None and self.sql is None:
            raise UserError("--csv needs --sql; to write whole tables, use scripts/export.py --format csv")
        if self.html is not None and self.json is not None:
            raise UserError("--html and --json cannot be used together: call report.py twice")
        if self.figures is not None and self.json is not None:
            raise UserError("--figures and --json cannot be used together: call report.py twice")
        if self.follow is not None and self.html is None:
            raise UserError("--follow needs --html FILE: the page that it rewrites")
        if self.follow is not None and not _LEAST_FOLLOW_S <= self.follow < math.inf:
            raise UserError(f"--follow {self.follow:g}: give at least {_LEAST_FOLLOW_S:g} s")
        other = next((f"--{name}" for name in views if getattr(self, name)), None)
        if self.checkpoints and other is not None:
            raise UserError(f"--checkpoints cannot be used with {other}: leave one of them out")
        ignored = next((name for name in ("json", "runs", "instance", "usd_per_hour") if getattr(self, name)), None)
        if self.schema and ignored is not None:
            raise UserError("--schema needs no ledger, and takes no other argument: leave the others out")
        ignored = next((name for name in ("runs", "instance", "usd_per_hour") if getattr(self, name)), None)
        if self.published and ignored is not None:
            raise UserError("--published needs no ledger, and takes no other argument but --json: leave the others out")
        if self.compare is not None and self.runs:
            raise UserError("--compare A B takes no other names of runs or cohorts: leave them out")
        unpriced = self.instance is None and self.usd_per_hour is None
        if self.prices is not None and unpriced and self.recommend is None:
            raise UserError(f"--prices {self.prices}: also name an entry of the file with --instance")

    def price(self) -> Price | None:
        """Return the price that replaces the declared prices, if there is one.

        Raises:
            UserError: If there is no such price.
        """
        if self.instance is None and self.usd_per_hour is None:
            return None
        prices = load_price_book(self.prices)
        return resolve_price(self.instance, self.usd_per_hour, prices, today=datetime.date.today())
