"""Comparisons match calculations by hand, refuse unlike runs, and claim no more than the runs show."""

from __future__ import annotations

import json
import math
import os
import socket
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptStarted, CheckpointSaved, Journal, Status, read_ledger
from ledger_lab.ledger.costs.cohorts import cost_ratio_interval
from ledger_lab.panels import PanelIdentity, ProvenShare
from ledger_lab.panels.panel import comparison_seeds
from ledger_lab.reports.compare import (
    CHEAPER,
    FASTER,
    Finding,
    compare_runs,
    correct_for_all,
    finding_notes,
    holm,
    show_finding,
)
from tests.fakes.ledgers import SECOND, declared, ended, priced, result, sha256_of, write_run

A_DOLLAR_A_SECOND = priced()


def run_of(  # noqa: D417 - the rest are fields of the declaration
    root: Path, cohort: str, seed: int, seconds: int, reached: bool = True, lost: bool = False, **changes: object
) -> str:
    """Write a run that ends after some seconds, with or without having reached its target, at a dollar a second.

    Args:
        lost: Whether it was preempted, and is not the last run with its seed.
    """
    run_id = f"{cohort}{seed:03d}" + ("lost" if lost else "")
    run_dir = root / run_id
    run_dir.mkdir(parents=True)
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declared(run_id, **{"cohort": cohort, "seed": seed, "price": A_DOLLAR_A_SECOND, **changes}))
        host = socket.gethostname()
        journal.append(AttemptStarted(run_id=run_id, attempt=1, rank=0, pid=2**22 + 1, host=host, wall_ns=0))
        if reached:
            journal.append(
                CheckpointSaved(
                    path="m.pt", sha256=sha256_of(run_id, "m.pt"), size_bytes=1, iteration=1, env_steps=40,
                    wall_ns=SECOND,
                )
            )  # fmt: skip
            proof = result(run_id, "m.pt", 9, "p1-fresh", purpose="proof")
            journal.append(replace(proof, wall_ns=seconds * SECOND))
        status = Status.PREEMPTED if lost else Status.TARGET_REACHED if reached else Status.COMPLETED
        journal.append(ended(status, seconds * SECOND))
    return run_id


def cohort_of(root: Path, name: str, seconds: list[int], first_seed: int = 1, **changes) -> None:  # noqa: ANN003
    """Write a cohort; negative seconds are of runs that never got there."""
    for seed, each in enumerate(seconds, start=first_seed):
        run_of(root, name, seed, abs(each), reached=each > 0, **changes)


def finding_of(root: Path, a: str = "a", b: str = "b") -> Finding:
    return compare_runs(a, b, read_ledger(root).runs)


def claims(finding: Finding) -> tuple[str, str]:
    """Return what a finding claims about the times and the costs."""
    return finding.claim(finding.time, FASTER), finding.claim(finding.cost, CHEAPER)


def compared(root: Path, a: list[int], b: list[int]) -> Finding:
    """Write cohorts of these seconds, and compare them."""
    cohort_of(root, "a", a)
    cohort_of(root, "b", b)
    return finding_of(root)


def test_paired_ratios_match_a_calculation_by_hand(tmp_path: Path) -> None:
    finding = compared(tmp_path, [20, 40, 80, 40, 160], [10, 20, 20, 10, 40])
    assert finding.paired
    assert finding.time.ratio == pytest.approx(2 ** (8 / 5))
    # The ratios of the pairs are 2 to the power of 1, 1, 2, 2 and 2; t with 4 degrees of freedom is 2.776.
    reach = 2.776 * statistics.stdev([1, 1, 2, 2, 2]) / math.sqrt(5)
    assert finding.time.interval == pytest.approx((2 ** (1.6 - reach), 2 ** (1.6 + reach)), rel=1e-3)
    assert finding.cost.ratio == pytest.approx((340 / 5) / (100 / 5))


def test_an_interval_of_unpaired_times_matches_a_calculation_by_hand(tmp_path: Path) -> None:
    cohort_of(tmp_path, "a", [20, 40, 80, 40, 160])
    cohort_of(tmp_path, "b", [10, 20, 20, 10, 40, 20], first_seed=11)
    finding = finding_of(tmp_path)
    logs = [1, 2, 3, 2, 4], [0, 1, 1, 0, 2, 1]
    reach = 2.776 * math.sqrt(sum(statistics.variance(side) / len(side) for side in logs))
    apart = 12 / 5 - 5 / 6
    assert not finding.paired
    assert finding.time.interval == pytest.approx((2 ** (apart - reach), 2 ** (apart + reach)), rel=1e-3)


def test_fewer_than_five_runs_on_a_side_have_no_interval_and_no_test(tmp_path: Path) -> None:
    finding = compared(tmp_path, [20, 40, 80, 160], [10, 20, 20, 40])
    assert (finding.time.interval, finding.cost.interval) == (None, None)
    assert (finding.time.p_value, finding.cost.p_value) == (None, None)
    assert claims(finding) == ("no claim beyond these runs: each side needs at least 5 runs",) * 2


def test_the_ratio_of_costs_has_the_interval_that_draws_the_chance_of_failures(tmp_path: Path) -> None:
    cost = compared(tmp_path, [20, 22, 24, 26, 28], [10, 11, 12, 13, -40]).cost
    assert cost.ratio == pytest.approx((120 / 5) / (86 / 4))
    spends = [[(float(usd), True) for usd in (20, 22, 24, 26, 28)]]
    spends += [[(10.0, True), (11.0, True), (12.0, True), (13.0, True), (40.0, False)]]
    assert cost.interval == pytest.approx(cost_ratio_interval(*spends))
    low, high = cost.interval or (0, 0)
    assert low < 0.6 and high > 1.6, "one failure of five says little about the rate of failures"
    assert claims(finding_of(tmp_path))[1] == "no difference shown"


def test_different_seeds_are_not_paired_and_no_run_is_dropped(tmp_path: Path) -> None:
    cohort_of(tmp_path, "a", [20, 40, 80])
    cohort_of(tmp_path, "b", [10, 20, 20, 20], first_seed=2)
    finding = finding_of(tmp_path)
    assert not finding.paired
    assert (len(finding.a.runs), len(finding.b.runs)) == (3, 4)
    assert finding.time.ratio == pytest.approx(40 / (10 * 20**3) ** (1 / 4))


@pytest.mark.parametrize(
    ("a", "b", "time", "cost"),
    [
        # The run that failed is paid for all the same.
        ([20, -40, 80, 40, 80], [10, 20, 20, 20, 20], (2**1.4, "at_least"), ((260 / 4) / (90 / 5), "exact")),
        ([20, 40, 80, 80, 80], [10, -20, 20, 20, 20], (2**1.6, "at_most"), ((300 / 5) / (90 / 4), "exact")),
        # With no success, the first one costs at least the whole spend.
        ([-50, -70], [10, 20], ((50 * 70 / 200) ** 0.5, "at_least"), (120 / (30 / 2), "at_least")),
    ],
)
def test_a_run_that_missed_the_target_makes_the_ratio_a_bound(
    tmp_path: Path, a: list[int], b: list[int], time: tuple[float, str], cost: tuple[float, str]
) -> None:
    finding = compared(tmp_path, a, b)
    for found, (ratio, bound) in ((finding.time, time), (finding.cost, cost)):
        assert (found.ratio, found.bound) == (pytest.approx(ratio), bound)
        low, high = found.interval or (0.0, math.inf)
        assert (high == math.inf) >= (bound == "at_least") and (low == 0) >= (bound == "at_most")


def test_missed_targets_on_both_sides_give_no_bound(tmp_path: Path) -> None:
    finding = compared(tmp_path, [20, -40], [-10, 20])
    assert finding.time.ratio is None
    assert finding.time.refusal is not None and "1 of 2 runs of A and 1 of 2 of B" in finding.time.refusal
    assert finding.cost.ratio == pytest.approx(60 / 30)
    cohort_of(tmp_path, "c", [-10, -20])
    cohort_of(tmp_path, "d", [-10, -20])
    assert all(claim.startswith("no claim: ") for claim in claims(finding_of(tmp_path, "c", "d")))


def score_on_fresh_seeds(root: Path, ids: tuple[str, str], won: tuple[int, int], **changes: object) -> None:
    """Write the rows of an evaluation that compared the last checkpoints of two runs."""
    seeds = list(comparison_seeds(*(sha256_of(run_id, "model_2.pt") for run_id in ids), 10))
    for run_id, successes in zip(ids, won, strict=True):
        row = result(run_id, "model_2.pt", successes, PanelIdentity({}).with_fresh_seeds(seeds).id)
        row = replace(row, outcomes=replace(row.outcomes, seed=seeds), **changes)  # type: ignore[arg-type]
        with Journal(root / "rsl_rl" / "e" / run_id / "journal-evaluation-1-0.jsonl") as journal:
            journal.append(row)


@pytest.mark.parametrize(
    ("library", "way_out"),
    [("rsl_rl", "; evaluate.py aa --versus bb compares them on the same fresh episodes"), ("my_trainer", "")],
)
def test_checks_of_common_seeds_are_no_test_because_runs_were_selected_on_them(
    tmp_path: Path, library: str, way_out: str
) -> None:
    for run_id, score in (("aa", 1), ("bb", 10)):
        write_run(tmp_path, run_id, scores=(5, score), rl_library=library)
    finding = finding_of(tmp_path, "aa", "bb")
    assert finding.success is not None
    assert (finding.success.paired, finding.success.proven) == (None, None)
    assert finding_notes(finding)[-1] == (
        "no claim about the success of model_2.pt (A) and model_2.pt (B): the runs selected them on the seeds of their "
        f"checks{way_out}"
    )


def test_two_policies_are_paired_by_the_fresh_seeds_that_both_played(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 1))
    write_run(tmp_path, "bb", scores=(5, 10), proof=9)
    score_on_fresh_seeds(tmp_path, ("aa", "bb"), (7, 10))
    finding = finding_of(tmp_path, "aa", "bb")
    assert finding.success is not None and finding.success.paired is not None
    found = finding.success.paired
    assert (found.episodes, found.only_first, found.only_second) == (10, 0, 3)
    assert (found.p_value, found.difference) == (pytest.approx(2 * 0.5**3), pytest.approx(0.3))
    note = finding_notes(finding)[-1]
    assert note.startswith(f"success of B − A: {found.points}, p = 0.25 (exact McNemar test), 10 fresh episodes that")


@pytest.mark.parametrize("changes", [{"invalid": "contacts were lost"}, {"panel_id": "p1-other-simulation"}])
def test_other_scores_on_fresh_seeds_are_not_compared(tmp_path: Path, changes: dict[str, object]) -> None:
    write_run(tmp_path, "aa")
    write_run(tmp_path, "bb")
    score_on_fresh_seeds(tmp_path, ("aa", "bb"), (7, 10), **changes)
    found = finding_of(tmp_path, "aa", "bb").success
    assert found is not None and found.paired is None


def test_proven_policies_are_compared_by_their_independent_proofs(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", proof=9)
    write_run(tmp_path, "bb", proof=10)
    finding = finding_of(tmp_path, "aa", "bb")
    assert finding.success is not None and finding.success.proven is not None
    found = finding.success.proven
    assert found.difference == pytest.approx(0.1)
    ours, theirs = (
        ProvenShare(successes=won, episodes=10, target=0.9, first_needed=9, first_episodes=10).interval(0.95**0.5)
        for won in (9, 10)
    )
    assert found.interval == pytest.approx((theirs[0] - ours[1], theirs[1] - ours[0]))
    note = finding_notes(finding)[-1]
    assert f"success of B − A: {found.points} if both reach their targets, by the proofs of " in note
    assert "evaluate.py aa --versus bb compares them on the same fresh episodes" in note


@pytest.mark.parametrize(
    ("change", "field", "theirs"),
    [
        ({"task": "U"}, "task", '"U"'),
        ({"target_success": 0.8}, "target_success", "0.8"),
        ({"verdict_rule": 2}, "verdict_rule", "2"),
        ({"stop_at_target": False}, "stop_at_target", "false"),
        ({"timing": "synchronized"}, "timing", '"synchronized"'),
        ({"panel_id": "p1-bb", "panel_fields": {"code": {"acme": "f"}}}, "panel_fields.code.acme", '"f"'),
        (
            {"panel_id": "p1-bb", "panel_fields": {"success": {"params": {"rad": 0.3}}}},
            "panel_fields.success.params.rad",
            "0.3",
        ),
    ],
)
def test_different_measures_are_refused_with_both_values(
    tmp_path: Path, change: dict[str, object], field: str, theirs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort_of(tmp_path, "a", [20], panel_fields={"success": {"params": {"rad": 0.2}}})
    cohort_of(tmp_path, "b", [20], **{"panel_fields": {"success": {"params": {"rad": 0.2}}}, **change})
    with pytest.raises(UserError, match="do not measure the same thing") as refusal:
        build_report(["compare", "a", "b", "--log_root", str(tmp_path)])
    assert "\n" not in str(refusal.value)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith(f"{field}: ")]
    assert line.endswith(f"| B {theirs}")


def test_a_cohort_that_mixes_yardsticks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, "a", 1, 20)
    run_of(tmp_path, "a", 2, 20, target_success=0.8)
    run_of(tmp_path, "b", 1, 20)
    with pytest.raises(UserError):
        build_report(["compare", "a", "b", "--log_root", str(tmp_path)])
    assert "target_success: A 0.9 and 0.8 | B 0.9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("b", "machine"),
    [
        ({"device": "cuda:0", "timing": "events", "hardware": {"accelerator": "H200"}}, '"H200"'),
        ({"device": "cpu", "hardware": {"cpu": "Xeon"}, "request": {"cpu_threads": 1}}, '"Xeon (--cpu_threads 1)"'),
    ],
)
def test_hardware_and_limits_on_it_may_differ_and_are_named(tmp_path: Path, b: dict[str, object], machine: str) -> None:
    cohort_of(tmp_path, "a", [20], device="cpu", timing="host", hardware={"cpu": "Xeon"}, request={"cpu_threads": None})
    cohort_of(tmp_path, "b", [20], **{"request": {"cpu_threads": None}, **b})
    differs = {each.field: (each.a, each.b) for each in finding_of(tmp_path).differs}
    assert differs["hardware.machine"] == (('"Xeon"',), (machine,))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "zz"), "no run or cohort 'zz'"),
        (("a", "a001"), "run a001 is on both sides"),
        (("a", "a001lost"), "run a001lost is on both sides"),
        (("b00", "a"), "begins the ids of 2 runs"),
        (("a", "alive"), "run alive is still running"),
    ],
)
def test_unknown_and_ambiguous_names_are_refused(tmp_path: Path, names: tuple[str, str], message: str) -> None:
    run_of(tmp_path, "a", 1, 500, reached=False, lost=True)
    cohort_of(tmp_path, "a", [20])
    cohort_of(tmp_path, "b", [20, 30])
    write_run(tmp_path, "alive", status=None, pid=os.getpid())
    with pytest.raises(UserError, match=message):
        build_report(["compare", *names, "--log_root", str(tmp_path)])


def test_different_prices_are_named_unless_both_sides_are_repriced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort_of(tmp_path, "a", [20, 40])
    cohort_of(tmp_path, "b", [10, 20], price={**A_DOLLAR_A_SECOND, "usd_per_hour": 1800.0, "date": "2026-05-05"})
    arguments = ["compare", "a", "b", "--log_root", str(tmp_path)]
    build_report(arguments)
    shown = capsys.readouterr().out
    assert "price.usd_per_hour: A 3600.0 | B 1800.0" in shown
    assert "price.date" in shown
    assert "asked for" not in shown
    build_report([*arguments, "--usd_per_hour", "7200"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "price.usd_per_hour" not in shown
    assert "asked for: local at $7200 per hour" in shown
    assert "declared: local at $3600 per hour (custom, 1 × accelerator, 2026-01-01, s) · 2 runs, $120.00 as" in shown
    build_report([*arguments, "--usd_per_hour", "7200", "--json", "-"])
    report = json.loads(capsys.readouterr().out)
    assert report["asked_price"]["usd_per_hour"] == 7200.0
    prices = report["a"]["declared_prices"] | report["b"]["declared_prices"]
    assert {price["usd_per_hour"] for price in prices.values()} == {3600.0, 1800.0}


def test_of_a_run_that_was_ended_from_outside_and_repeated_only_the_cost_counts(tmp_path: Path) -> None:
    cohort_of(tmp_path, "a", [20, 40, 80])
    run_of(tmp_path, "b", 3, 500, reached=False, lost=True)
    cohort_of(tmp_path, "b", [10, 20, 20])
    finding = finding_of(tmp_path)
    assert finding.paired and (len(finding.b.runs), finding.b.reached) == (3, 3)
    assert (finding.a.repeated_runs, finding.b.repeated_runs) == (0, 1)
    assert finding.time.ratio == pytest.approx((2 * 2 * 4) ** (1 / 3))
    assert finding.cost.ratio == pytest.approx((140 / 3) / (550 / 3)), "the lost 500 s are paid"
    assert any(
        "further runs of the same trainings: 1 (only their cost counts)" in note for note in finding_notes(finding)
    )
    run_of(tmp_path, "a", 4, 500, reached=False, lost=True)
    assert len(finding_of(tmp_path).a.runs) == 4, "a run that nobody repeated has missed its target"


def test_a_difference_is_claimed_once_all_declared_runs_were_made(tmp_path: Path) -> None:
    cohort_of(tmp_path, "a", [60, 70, 80, 90, 100])
    cohort_of(tmp_path, "b", [10, 12, 14, 16, 18])
    runs = read_ledger(tmp_path).runs

    def found(size: int | None) -> Finding:
        sizes = {} if size is None else {"a": size, "b": size}
        return compare_runs("a", "b", runs, declared_sizes=sizes)

    early, whole, unplanned = found(6), found(5), found(None)
    assert claims(early) == ("no claim beyond these runs: 2 declared runs are missing",) * 2
    assert (early.time.p_value, early.cost.p_value) == (None, None)
    assert claims(whole) == ("B is faster", "B is cheaper") and whole.time.p_value == pytest.approx(2 / 252)
    said = "the number of runs of A and B was not declared in advance (--cohort_size)"
    assert [any(said in note for note in finding_notes(each)) for each in (early, whole, unplanned)] == [
        False, False, True,
    ]  # fmt: skip
    assert (found(4).a.unplanned, found(4).b.unplanned) == (1, 1), "added later"


def test_an_uneven_mix_of_versions_of_the_code_claims_nothing(tmp_path: Path) -> None:
    """With each version, B is faster; A has more runs of the faster one."""
    old, new = {"code_sha256": {"x": "old"}}, {"code_sha256": {"x": "new"}}
    cohort_of(tmp_path, "a", [100, 101], **old)
    cohort_of(tmp_path, "a", [20, 21, 22, 23, 24, 25], first_seed=3, **new)
    cohort_of(tmp_path, "b", [90, 91, 92, 93, 94, 95], **old)
    cohort_of(tmp_path, "b", [15, 16], first_seed=7, **new)
    finding = finding_of(tmp_path)
    assert finding.mixes_code and finding.time.p_value is None
    assert claims(finding)[0].startswith("no claim beyond these runs: several versions of the code trained")


def test_versions_of_the_code_in_equal_shares_and_one_version_each_are_compared(tmp_path: Path) -> None:
    old, new = {"code_sha256": {"x": "old"}}, {"code_sha256": {"x": "new"}}
    for cohort, seconds in (("a", [60, 70, 80]), ("b", [10, 12, 14])):
        cohort_of(tmp_path, cohort, seconds, **old)
        cohort_of(tmp_path, cohort, seconds, first_seed=4, **new)
    cohort_of(tmp_path, "c", [10, 12, 14, 16, 18], **old)
    cohort_of(tmp_path, "d", [60, 70, 80, 90, 100], **new)
    assert not finding_of(tmp_path).mixes_code and not finding_of(tmp_path, "c", "d").mixes_code
    assert finding_of(tmp_path, "a", "c").mixes_code


def test_the_comparison_as_json_and_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cohort_of(tmp_path, "a", [20, -40, 80, 40, 80])
    cohort_of(tmp_path, "b", [10, 20, 20, 20, 20])
    assert build_report(["compare", "a", "b", "--log_root", str(tmp_path), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["time"]["interval"] == [pytest.approx(1.647, rel=0.001), None]
    assert report["a"]["outcomes"][1] == {
        "run_id": "a002", "seed": 2, "reached_target": False, "seconds": 40.0, "usd": 40.0,
    }  # fmt: skip
    assert build_report(["compare", "a", "b", "--log_root", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert report["time"]["claim"] == "B is faster"
    assert f"time to target ≥ 2.6 [1.6, ∞) {report['time']['p_value']:.2g} B is faster" in shown
    assert "> 0:40" in shown and all(note in shown for note in report["notes"])


def test_with_five_runs_on_a_side_a_difference_needs_interval_and_test(tmp_path: Path) -> None:
    cohort_of(tmp_path, "a", [60, 70, 80, 90, 100])
    cohort_of(tmp_path, "b", [10, 12, 14, 16, 18])
    cohort_of(tmp_path, "c", [54, 62, 71, 82, 90])
    finding = finding_of(tmp_path)
    assert (finding.time.p_value, finding.cost.p_value) == (pytest.approx(2 / 252), pytest.approx(2 / 252))
    assert claims(finding) == ("B is faster", "B is cheaper")
    # Each run is a little faster than its partner, so the interval excludes 1. Such wide cohorts may differ by chance.
    near = finding_of(tmp_path, "a", "c")
    assert near.time.interval is not None and near.time.interval[0] > 1
    assert near.time.p_value is not None and near.time.p_value > 0.05
    assert claims(near)[0] == "no difference shown"


def test_holm_multiplies_the_smallest_p_value_by_the_number_of_tests() -> None:
    # Holm 1979: compare p(1) with 0.05 / 4, p(2) with 0.05 / 3, …; stop at the first that is larger.
    assert holm([0.01, 0.04, None, 0.03, 0.005]) == [0.03, pytest.approx(0.06), None, pytest.approx(0.06), 0.02]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([None]) == [None]


def test_a_difference_that_the_correction_removes_is_not_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort_of(tmp_path, "a", [60, 70, 80, 90, 100])
    cohort_of(tmp_path, "b", [10, 12, 14, 16, 18])
    corrected, *_ = correct_for_all([finding_of(tmp_path)] * 6)
    assert corrected.tests == 12 and corrected.time.corrected == pytest.approx(12 * 2 / 252)
    assert claims(corrected) == ("no difference shown",) * 2
    show_finding(corrected)
    shown = capsys.readouterr().out
    assert "p (Holm, 12 tests)" in shown and "0.095" in shown
