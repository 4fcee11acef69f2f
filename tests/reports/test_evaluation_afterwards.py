"""Time and cost of stand-alone evaluations: shown apart from those of the training."""

from __future__ import annotations

import dataclasses
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ledger_lab.ledger import (
    DeviceSample,
    EvaluationEnded,
    EvaluationStarted,
    Journal,
    Row,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    Telemetry,
    TelemetryStarted,
    read_ledger,
)
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.reports import RunSummary, render_cohort, render_run, summarize_cohorts, summarize_run
from ledger_lab.reports.bundle import training_bundle
from ledger_lab.reports.cohort_summary import spend_cell
from ledger_lab.reports.summary import evaluation_afterwards_cell
from tests.fakes.ledgers import SECOND, device_sample, priced, result, window, write_run

PRICED = priced(36.0, accelerators=8)
OWNED = priced(
    None, market="owned", accelerators=2, purchase_usd=8766.0, lifetime_years=1.0, utilization=1.0, usd_per_kwh=0.5
)


def evaluate(
    run_dir: Path,
    name: str,
    *rows: Row,
    status: Status = Status.COMPLETED,
    wall_s: int = 42,
    checkpoints: int = 1,
    all_checkpoints: int | None = 1,
    watts: float | None = None,
) -> None:
    """Write the journals of an evaluation of ``wall_s`` seconds, of which the shutdown takes 2 s."""
    started = EvaluationStarted(
        run_id=run_dir.name,
        panel="p",
        panel_id="p1-aa",
        panel_fields={},
        checkpoints=[f"model_{place + 1}.pt" for place in range(checkpoints)],
        all_checkpoints=all_checkpoints,
        device="cuda:0",
        versions={},
        host="h",
        pid=1,
        wall_ns=SECOND,
    )
    ended_ns = (wall_s - 2) * SECOND
    over = EvaluationEnded(
        status=status, reason=None, wall_ns=ended_ns, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )
    shutdown = ShutdownEnded(wall_ns=wall_s * SECOND, exit_code=0, signal=None, overdue=False)
    supervised = SupervisionStarted(run_id=run_dir.name, attempt=None, pid=1, host="h", wall_ns=0)
    metered = TelemetryStarted(run_id=run_dir.name, attempt=None, rank=0)
    samples: list[Row] = [metered]
    if watts is not None:
        samples += [Telemetry(wall_ns=at_s * SECOND, host=None, devices=[counted(watts, at_s)]) for at_s in (0, wall_s)]
    journals: dict[str, list[Row]] = {
        "-0": [started, window(None, 0, {"evaluate": ended_ns}, ended_ns), *rows],
        "-supervisor": [supervised, over, shutdown],
        "-telemetry": samples,
    }
    for process, written in journals.items():
        with Journal(run_dir / f"journal-evaluation-{name}{process}.jsonl") as journal:
            for row in written:
                journal.append(row)


def counted(watts: float, at_s: int) -> DeviceSample:
    """Return what an accelerator's energy counter tells."""
    return device_sample(power_w=watts, energy_mj=round(watts * at_s * 1e3))


def summarized(root: Path) -> RunSummary:
    """Summarize the only run of a ledger."""
    (run,) = read_ledger(root).runs
    return summarize_run(run)


def test_an_evaluation_is_shown_apart_and_changes_no_figure_of_the_training(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(5, 9), proof=9, price=PRICED)
    before = summarized(tmp_path)
    assert (before.evaluation_afterwards_s, before.evaluation_afterwards_usd) == (None, None)
    evaluate(run_dir, "a1", result("aa", "model_2.pt", 9))
    after = summarized(tmp_path)
    assert (after.evaluation_afterwards_s, after.evaluation_afterwards_usd) == (42.0, pytest.approx(0.42))
    assert dataclasses.replace(after, evaluation_afterwards_s=None, evaluation_afterwards_usd=None) == before
    assert after.wall_to_target_s is not None and after.wall_to_target_s < 10


def test_an_evaluation_of_several_runs_is_divided_by_their_checkpoints(tmp_path: Path) -> None:
    for run_id, own in (("aa", 1), ("bb", 3)):
        run_dir = write_run(tmp_path, run_id, price=PRICED, cohort="c")
        evaluate(run_dir, "a1", wall_s=40, checkpoints=own, all_checkpoints=4)
    summaries = [summarize_run(run) for run in read_ledger(tmp_path).runs]
    assert [each.evaluation_afterwards_s for each in summaries] == [10.0, 30.0]
    (cohort,) = summarize_cohorts(summaries)
    assert (cohort.evaluation_afterwards_s, cohort.evaluation_afterwards_usd) == (40.0, pytest.approx(0.40))
    assert cohort.spend_usd == pytest.approx(0.18), "the spend of the trainings alone"


def test_every_evaluation_counts_also_one_that_failed_and_one_of_unknown_checkpoints(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", price=PRICED)
    evaluate(run_dir, "a1", result("aa", "model_2.pt", 9), wall_s=30)
    evaluate(run_dir, "b2", status=Status.CRASHED, wall_s=12)
    evaluate(run_dir, "c3", wall_s=10, all_checkpoints=None)
    assert summarized(tmp_path).evaluation_afterwards_s == 52.0


def test_an_evaluation_is_priced_again_with_its_run(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    evaluate(run_dir, "a1")
    (run,) = read_ledger(tmp_path).runs
    assert summarize_run(run).evaluation_afterwards_usd is None, "unpriced"
    minimum = {**PRICED, "billing_minimum_s": 60.0}
    price = dataclasses.replace(load_prices()["local"], **minimum)  # type: ignore[arg-type]
    assert summarize_run(run, price).evaluation_afterwards_usd == pytest.approx(0.60)


def test_an_evaluation_is_on_the_terminal_on_the_page_and_in_the_bundle(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", price=PRICED, cohort="c")
    evaluate(run_dir, "a1")
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    (cohort,) = summarize_cohorts([summary])
    out = StringIO()
    Console(file=out, width=400).print(render_run(run, summary, None, 400), render_cohort(cohort, 400))
    assert "evaluation afterwards: 0:42, $0.42" in out.getvalue()
    assert "$0.09 spent" in out.getvalue()
    assert spend_cell(cohort).details == ("evaluation afterwards: 0:42, $0.42",)
    assert spend_cell(cohort).details[0] in out.getvalue().split("\ncohort ")[1]
    extra = training_bundle(run, summary)["extra"]
    assert extra["ledger_lab/evaluation_afterwards_s"] == 42.0
    assert extra["ledger_lab/evaluation_afterwards_usd"] == pytest.approx(0.42)


def test_a_missing_cost_of_an_evaluation_says_whether_the_price_or_the_energy_is_unknown(tmp_path: Path) -> None:
    for name, price, said in (("u", None, "unpriced"), ("e", OWNED, "energy unknown"), ("p", PRICED, "$0.42")):
        root = tmp_path / name
        evaluate(write_run(root, "aa", cohort="c", **({} if price is None else {"price": price})), "a1")
        summary = summarized(root)
        (cohort,) = summarize_cohorts([summary])
        assert spend_cell(cohort).details == (f"evaluation afterwards: 0:42, {said}",)
        assert evaluation_afterwards_cell(summary).beside == said
