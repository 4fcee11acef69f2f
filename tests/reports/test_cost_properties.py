"""For any rows of a ledger, costs are non-negative, add up over attempts, and do not depend on the order.

Hypothesis draws whole ledgers: prices of every market, attempts with and without a supervisor, an end or any work done,
moments that coincide. What a run must cost is worked out once more from the drawing, without looking at a row.
"""

from __future__ import annotations

import math
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.ledger import (
    AttemptStarted,
    CheckpointSaved,
    CohortDeclared,
    DeviceSample,
    Ledger,
    Row,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    Telemetry,
    read_ledger,
    reader,
)
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.encoding import GENESIS, encode_fields, encode_line, hash_of
from ledger_lab.ledger.listing import Listing
from ledger_lab.reports import CohortSummary, RunSummary, summarize_cohorts, summarize_run
from ledger_lab.reports.cohort_summary import repeated_runs
from tests.fakes.ledgers import declared, device_sample, ended, result, sha256_of, window

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)

_ENTRY: dict[str, Any] = {"instance": "i", "accelerators": 4, "billing_granularity_s": 1, "billing_minimum_s": 0}
_DATED: dict[str, Any] = {"source": "s", "date": "2026-01-01"}
_OWNED: dict[str, Any] = {"market": "owned", "purchase_usd": 1e4, "lifetime_years": 3, "utilization": 0.5} | _DATED
PRICES = [
    Price.from_dict(_ENTRY | {"market": "unpriced"}),
    Price.from_dict(_ENTRY | _DATED | {"market": "custom", "usd_per_hour": 0}),
    Price.from_dict(_ENTRY | _DATED | {"market": "custom", "usd_per_hour": 7.2}),
    Price.from_dict(
        _ENTRY | _DATED | {"market": "custom", "usd_per_hour": 36, "billing_granularity_s": 60, "billing_minimum_s": 90}
    ),
    Price.from_dict(_ENTRY | _OWNED | {"usd_per_kwh": 0.3, "power_w": 2000}),
    Price.from_dict(_ENTRY | _OWNED | {"usd_per_kwh": 0.3}),
]


@dataclass(frozen=True)
class DrawnJournal:
    """A journal: its file's name, and its rows with their moments."""

    name: str
    rows: list[tuple[Row, datetime]]


@dataclass(frozen=True)
class DrawnRun:
    """A run: its journals, and what they must amount to."""

    run_id: str
    price: Price
    devices: int
    machines: int | None
    journals: list[DrawnJournal]
    wall_ns: list[int]
    """Life of each attempt."""
    watts: list[float | None]
    """What an accelerator drew all through each attempt, where it was metered [W]."""

    @property
    def usd(self) -> float | None:
        """What the run must cost [USD], worked out from the drawing."""
        if self.price.usd_per_hour is None:
            return None
        total = 0.0
        for wall_ns, watts in zip(self.wall_ns, self.watts, strict=True):
            hours = wall_ns / 1e9 / 3600
            rented = max(math.ceil(self.devices / 4), self.machines or 0)
            share = self.devices / 4 if self.price.market == "owned" else rented
            granule = self.price.billing_granularity_s / 3600
            billed = max(math.ceil(round(hours / granule, 6)) * granule, self.price.billing_minimum_s / 3600)
            total += share * billed * self.price.usd_per_hour
            if self.price.market == "owned":
                nominal_w = None if self.price.power_w is None else share * self.price.power_w
                drawn_w = watts if watts is not None and wall_ns else nominal_w
                if drawn_w is None:
                    return None
                total += hours * drawn_w / 1000 * 0.3
        return total


PHASES = st.sampled_from(["startup", "compile", "simulate", "learn", "evaluate", "log", "checkpoint"])
NANOSECONDS = st.integers(0, 400_000_000_000)


@st.composite
def process_rows(draw: st.DrawFn, run_id: str, attempt: int, rank: int) -> tuple[list[Row], int]:
    """Draw the rows of a training process, and its age at the last of them."""
    wall_ns = draw(NANOSECONDS)
    host = draw(st.sampled_from(["elsewhere", socket.gethostname()]))
    rows: list[Row] = [
        AttemptStarted(run_id=run_id, attempt=attempt, rank=rank, pid=2**22 + 1, host=host, wall_ns=wall_ns)
    ]
    last_window_ns = 0
    for iteration in range(1, draw(st.integers(0, 3)) + 1):
        passed = draw(st.integers(0, 60_000_000_000))
        wall_ns += passed
        phase_ns = {draw(PHASES): wall_ns - last_window_ns}
        rows.append(window(draw(st.sampled_from([None, iteration])), 40 * iteration, phase_ns, wall_ns))
        last_window_ns = wall_ns
        if draw(st.booleans()):
            saved = CheckpointSaved(
                path=f"model_{iteration}.pt",
                sha256=sha256_of(run_id, f"model_{iteration}.pt"),
                size_bytes=1,
                iteration=iteration,
                env_steps=40 * iteration,
                wall_ns=wall_ns,
            )
            rows.append(saved)
    return rows, wall_ns


@st.composite
def attempts(
    draw: st.DrawFn, run_id: str, number: int, world_size: int
) -> tuple[list[tuple[str, list[Row]]], int, float | None]:
    """Draw the journals of an attempt, its life, and what its accelerator drew, where that was metered [W]."""
    supervised = draw(st.booleans())
    journals: list[tuple[str, list[Row]]] = []
    wall_ns = 0
    for rank in range(draw(st.integers(0 if supervised else 1, min(world_size, 2)))):
        rows, age_ns = draw(process_rows(run_id, number, rank))
        wall_ns = max(wall_ns, age_ns)
        journals.append((f"journal-{number}-{rank}.jsonl", rows))
    ending: list[Row] = []
    if draw(st.booleans()):
        wall_ns += draw(NANOSECONDS)
        status = draw(st.sampled_from([s for s in Status if s not in (Status.LOST, Status.RUNNING)]))
        end = ended(status, wall_ns)
        ending.append(end)
        if draw(st.booleans()):
            wall_ns += draw(NANOSECONDS)
            ending.append(ShutdownEnded(wall_ns=wall_ns, exit_code=0, signal=None, overdue=False))
    for rank in range(len(journals), world_size):  # what follows is only possible if all have begun
        began = AttemptStarted(run_id=run_id, attempt=number, rank=rank, pid=2**22 + 1, host="elsewhere", wall_ns=0)
        journals.append((f"journal-{number}-{rank}.jsonl", [began]))
    if supervised:
        rows = [SupervisionStarted(run_id=run_id, attempt=number, pid=2**22 + 1, host="elsewhere", wall_ns=0)]
        watts = draw(st.sampled_from([None, 0.0, 350.0]))
        if watts is None:
            rows += [Telemetry(wall_ns=wall_ns, host=None, devices=[])] * draw(st.integers(0, 2))
        else:
            rows += [Telemetry(wall_ns=at_ns, host=None, devices=[counted(watts, at_ns)]) for at_ns in (0, wall_ns)]
        journals.append((f"journal-{number}-supervisor.jsonl", [*rows, *ending]))
    else:
        watts = None
        journals[0][1].extend(ending)
    return journals, wall_ns, watts


def counted(watts: float, at_ns: int) -> DeviceSample:
    """Return what an accelerator says that has drawn so much since its attempt began."""
    return device_sample(power_w=watts, energy_mj=round(watts * at_ns / 1e6))


@st.composite
def runs(draw: st.DrawFn, run_id: str) -> DrawnRun:
    """Draw a run."""
    price = draw(st.sampled_from(PRICES))
    machines = draw(st.none() | st.integers(1, 5))
    world_size = (machines or 1) * draw(st.integers(1, 5))
    device = draw(st.sampled_from(["cpu", "cuda:0"]))
    declaration = declared(
        run_id,
        cohort=draw(st.sampled_from([None, "c", "d"])),
        seed=draw(st.integers(1, 2)),
        panel_id=draw(st.sampled_from(["p1-aa", "p1-bb"])),
        world_size=world_size,
        machines=machines,
        device=device,
        price=price.to_dict(),
    )
    journals: list[tuple[str, list[Row]]] = []
    wall_ns, watts = [], []
    for number in range(1, draw(st.integers(0, 3)) + 1):
        of_attempt, life_ns, drawn_w = draw(attempts(run_id, number, world_size))
        journals += of_attempt
        wall_ns.append(life_ns)
        # Only one accelerator is metered, so the energy of several accelerators is unknown.
        watts.append(drawn_w if device == "cpu" or world_size == 1 else None)
    if journals and journals[0][0] == "journal-1-0.jsonl":
        journals[0][1].insert(0, declaration)
    else:
        journals.append(("journal-declaration.jsonl", [declaration]))
    saved = sorted({row.path for _, rows in journals for row in rows if isinstance(row, CheckpointSaved)})
    scored = st.builds(
        result,
        st.just(run_id),
        st.sampled_from(saved or ["none"]),
        st.sampled_from([8, 10]),
        st.just("p1-aa"),
        st.sampled_from(["proof", "check", "evaluation"]),
        st.sampled_from([None, None, "overflow"]),
    )
    evaluations = draw(st.lists(st.lists(scored, min_size=1, max_size=3), max_size=3 if saved else 0))
    for index, rows in enumerate(evaluations):  # of different ages: equal journals would be copies
        journals.append((f"journal-evaluation-{index}-0.jsonl", [replace(row, wall_ns=index) for row in rows]))
    moments = st.integers(0, 1).map(lambda seconds: LONG_AGO + timedelta(seconds=seconds))
    return DrawnRun(
        run_id,
        price,
        machines or 1 if device == "cpu" else world_size,
        machines,
        [DrawnJournal(name, [(row, draw(moments)) for row in rows]) for name, rows in journals],
        wall_ns,
        watts,
    )


@st.composite
def ledgers(draw: st.DrawFn) -> list[DrawnRun]:
    """Draw a ledger of one to four runs."""
    return [draw(runs(f"run{index}")) for index in range(draw(st.integers(1, 4)))]


def write(path: Path, rows: list[tuple[Row, datetime]]) -> None:
    """Write a journal at drawn moments, as :class:`ledger_lab.ledger.Journal` does at its own."""
    previous, lines = GENESIS, []
    for sequence, (row, time) in enumerate(rows):
        moment = time.isoformat(timespec="milliseconds")
        line = encode_line(sequence, moment, type(row).__name__, encode_fields(row), previous)
        previous = hash_of(line)
        lines.append(line)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))


@contextmanager
def written(drawn: list[DrawnRun]) -> Iterator[Path]:
    """Write a ledger with a declared cohort of five runs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for run in drawn:
            for journal in run.journals:
                write(root / run.run_id / journal.name, journal.rows)
        write(root / "cohorts" / "c" / "journal-declaration.jsonl", [(CohortDeclared(cohort="c", size=5), LONG_AGO)])
        yield root


def summarized(ledger: Ledger) -> tuple[list[RunSummary], list[CohortSummary]]:
    """Summarize a ledger."""
    summaries = [summarize_run(run) for run in ledger.runs]
    return summaries, summarize_cohorts(summaries, ledger.cohorts)


def in_order(cohorts: list[CohortSummary]) -> list[CohortSummary]:
    """Sort cohorts by what tells them apart."""
    return sorted(cohorts, key=lambda c: (c.cohort or "", c.panel_id))


@settings(max_examples=25)
@given(ledgers())
def test_costs_add_up_over_attempts_runs_and_cohorts(drawn: list[DrawnRun]) -> None:
    with written(drawn) as root:
        ledger = read_ledger(root)
        summaries, cohorts = summarized(ledger)
    by_id = {summary.run_id: summary for summary in summaries}
    assert set(by_id) == {run.run_id for run in drawn}
    for run in drawn:
        check_run(run, by_id[run.run_id])
    uncounted = repeated_runs(summaries)
    for cohort in cohorts:
        check_cohort(cohort, summaries, uncounted)
    in_c = sum(summary.cohort == "c" and summary.run_id not in uncounted for summary in summaries)
    assert {cohort.missing_runs for cohort in cohorts if cohort.cohort == "c"} <= {max(0, 5 - in_c)}
    assert sum(cohort.runs + cohort.repeated_runs for cohort in cohorts) == len(drawn)
    finished = [summary for summary in summaries if not summary.unfinished or summary.cohort is None]
    trainings = {each.run_id if each.cohort is None else (each.measured_by, each.training) for each in finished}
    assert sum(cohort.runs for cohort in cohorts) >= len(trainings), "every training that has finished counts"


def check_run(run: DrawnRun, summary: RunSummary) -> None:
    """Check a run against its drawing; it has no cost without a price."""
    assert summary.wall_s == pytest.approx(sum(run.wall_ns) / 1e9)
    assert sum(summary.phases.values()) == pytest.approx(summary.wall_s)
    if run.usd is None:
        assert (summary.billable_usd, summary.declared_usd, summary.usd_per_billion_env_steps) == (None,) * 3
    else:
        assert summary.billable_usd == summary.declared_usd == pytest.approx(run.usd, rel=1e-9, abs=1e-9)
        assert summary.billable_usd is not None and summary.billable_usd >= 0
    assert summary.energy_usd is None or summary.energy_usd >= 0
    assert (summary.energy_usd is not None) == (run.price.market == "owned" and run.usd is not None)


def check_cohort(cohort: CohortSummary, summaries: list[RunSummary], uncounted: set[str]) -> None:
    """Check that a cohort costs what its runs cost, and that its bounds are in order."""
    assert (cohort.missing_runs is None) == (cohort.cohort != "c")
    assert (cohort.median_wall_to_target_s is None) != (cohort.median_wall_to_target_exceeds_s is None)
    low, high = cohort.usd_per_target_reaching_checkpoint_interval or (0.0, None)
    assert low >= 0 and (high is None or low <= high)
    members = [s for s in summaries if (s.cohort, s.panel_id) == (cohort.cohort, cohort.panel_id)]
    amounts = [member.billable_usd for member in members]
    if None in amounts:
        assert (cohort.spend_usd, cohort.at_least_usd, cohort.usd_per_target_reaching_checkpoint) == (None,) * 3
        return
    assert cohort.spend_usd == pytest.approx(math.fsum(amounts))
    reached = sum(member.target_reached for member in members if member.run_id not in uncounted)
    assert cohort.at_least_usd == (None if reached else cohort.spend_usd)
    if reached:
        assert cohort.usd_per_target_reaching_checkpoint == pytest.approx(math.fsum(amounts) / reached)


@settings(max_examples=25)
@given(ledgers(), st.randoms(use_true_random=False))
def test_the_order_of_journals_and_runs_does_not_matter(drawn: list[DrawnRun], shuffler: random.Random) -> None:
    with written(drawn) as root:
        summaries, cohorts = summarized(read_ledger(root))
        listed = [*reader.list_journals(root).directories.items()]
        shuffled_directories = listed.copy()
        shuffler.shuffle(shuffled_directories)
        for found in (listed[::-1], shuffled_directories):
            listing = Listing({name: dict(reversed(journals.items())) for name, journals in found})
            with mock.patch.object(reader, "list_journals", return_value=listing):
                assert summarized(read_ledger(root)) == (summaries, cohorts)
        ledger = read_ledger(root)
    by_seed = [[summary for summary in summaries if summary.seed == seed] for seed in (1, 2)]
    shuffler.shuffle(by_seed)  # of two runs with one seed, the later one may repeat the earlier one
    shuffled = [summary for each in by_seed for summary in each]
    assert in_order(summarize_cohorts(shuffled, ledger.cohorts)) == in_order(cohorts)
