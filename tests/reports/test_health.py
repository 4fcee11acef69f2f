"""Health events of a run, and the budget that stopping it saved, from rows alone."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import AttemptStarted, Health, Journal, Status, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.health_events import SavedBudget
from tests.fakes.ledgers import SECOND, declared, ended, priced, window, write_run

PRICED = priced()


def health(event: str, iteration: int, stops: bool) -> Health:
    return Health(
        event=event, iteration=iteration, wall_ns=SECOND, evidence=f"evidence {iteration}", advice="advice", stops=stops
    )


def write(root: Path, status: Status, events: list[Health], iterations: int = 3, **changes: object) -> None:
    """Write a run of 10 iterations that ends early: 5 s of start-up, 2 s and 1 s of scoring an iteration, 4 s to go."""
    run_dir = root / "rsl_rl" / "e" / "aa"
    run_dir.mkdir(parents=True)
    run = declared("aa", max_iterations=10, **changes)
    started = AttemptStarted(run_id="aa", attempt=1, rank=0, pid=2**22 + 1, host=socket.gethostname(), wall_ns=SECOND)
    for rank in range(1, run.world_size):
        with Journal(run_dir / f"journal-1-{rank}.jsonl") as journal:
            journal.append(replace(started, rank=rank))
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(run)
        journal.append(started)
        for iteration in range(1, iterations + 1):
            phases = {"simulate": 2 * SECOND, "evaluate": SECOND, **({"startup": 5 * SECOND} if iteration == 1 else {})}
            journal.append(window(iteration, 40 * iteration, phases, (5 + 3 * iteration) * SECOND))
        for event in events:
            journal.append(event)
        wall_ns = (9 + 3 * iterations) * SECOND
        journal.append(window(iterations or None, 40 * iterations, {"unattributed": 4 * SECOND}, wall_ns))
        journal.append(ended(status, wall_ns, "HealthEvent: entropy_collapse: evidence 3"))


def saved(root: Path) -> SavedBudget | None:
    (run,) = read_ledger(root).runs
    return summarize_run(run).saved_budget


STOP = [health("kl_out_of_range", 2, False), health("kl_out_of_range", 3, False), health("entropy_collapse", 3, True)]


def test_the_saved_budget_follows_the_runs_own_pace(tmp_path: Path) -> None:
    write(tmp_path, Status.STOPPED, STOP, price=PRICED)
    left = saved(tmp_path)
    assert left is not None
    assert (left.event, left.iteration, left.max_iterations, left.iterations) == ("entropy_collapse", 3, 10, 7)
    assert (left.wall_s, left.usd) == (pytest.approx(21.0), pytest.approx(21.0))


def test_the_saved_budget_is_unknown_without_a_price_or_a_pace(tmp_path: Path) -> None:
    write(tmp_path / "unpriced", Status.STOPPED, STOP)
    left = saved(tmp_path / "unpriced")
    assert left is not None and (left.wall_s, left.usd) == (pytest.approx(21.0), None)
    write(tmp_path / "first", Status.NON_FINITE, [], iterations=0, price=PRICED)
    left = saved(tmp_path / "first")
    assert left is not None and (left.event, left.iterations, left.wall_s, left.usd) == ("non_finite", 10, None, None)


def test_a_minimum_charge_is_not_counted_as_saved(tmp_path: Path) -> None:
    write(tmp_path, Status.STOPPED, STOP, price={**PRICED, "billing_minimum_s": 60.0})
    left = saved(tmp_path)
    assert left is not None and left.usd == pytest.approx(0.0)


def test_a_run_and_its_saved_budget_are_billed_for_each_of_its_machines(tmp_path: Path) -> None:
    of_eight = {**PRICED, "accelerators": 8}
    costs = []
    for machines in (1, 2):
        root = tmp_path / str(machines)
        write(root, Status.STOPPED, STOP, price=of_eight, device="cuda:0", world_size=2, machines=machines)
        (run,) = read_ledger(root).runs
        left = saved(root)
        assert left is not None
        costs.append((summarize_run(run).billable_usd, left.usd))
    assert costs == [(pytest.approx(18.0), pytest.approx(21.0)), (pytest.approx(36.0), pytest.approx(42.0))]


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.TARGET_REACHED, Status.CRASHED, Status.INTERRUPTED])
def test_a_run_without_a_health_stop_saved_nothing(tmp_path: Path, status: Status) -> None:
    write(tmp_path, status, [health("slowdown", 2, False)])
    assert saved(tmp_path) is None


def test_the_report_shows_each_event_once_and_the_saving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, Status.STOPPED, STOP, price=PRICED)
    build_report(["--log_root", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert "aa stopped: HealthEvent: entropy_collapse: evidence 3" in lines
    assert "aa kl_out_of_range at iteration 2 (2 times): evidence 2; advice" in lines
    assert (
        "aa ended by entropy_collapse after 3 of 10 iterations: 7 iterations of its budget were left, 0:21 and $21.00 "
        "at its pace; advice"
    ) in lines


def test_the_json_has_the_fields(tmp_path: Path) -> None:
    write(tmp_path, Status.STOPPED, STOP, price=PRICED)
    build_report(["--log_root", str(tmp_path), "--json", str(tmp_path / "report.json")])
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    assert run["saved_budget"]["iterations"] == 7
    assert [(each["event"], each["times"], each["iteration"], each["stopped"]) for each in run["health"]] == [
        ("kl_out_of_range", 2, 2, False),
        ("entropy_collapse", 1, 3, True),
    ]


def test_a_healthy_run_has_no_health_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, "aa")
    (run,) = read_ledger(tmp_path).runs
    assert (summarize_run(run).health, summarize_run(run).saved_budget) == ([], None)
    build_report(["--log_root", str(tmp_path)])
    assert "iterations of its budget" not in capsys.readouterr().out
