"""Scores that contradict each other, or the rule of their run, are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.cli.verify import verify_ledger
from ledger_lab.ledger import EvaluationStarted, Journal, PanelResult, read_ledger
from ledger_lab.panels import VerdictRule
from ledger_lab.panels.carried import LeftBudget, left_budget, left_budget_as_pretrained
from ledger_lab.panels.verdict import Standing
from ledger_lab.reports.audit import broken_verdicts, contradictions
from tests.fakes.ledgers import PANEL_EPISODES as EPISODES
from tests.fakes.ledgers import proof_of, result, write_proven, write_run

PROVES_90 = {"target_success": 0.9, "error_budget": 0.05, "verdict_rule": 2}
"""Declaration of a run that proves 90 %."""
BEYOND = "proof 1, extension 1 does not follow a near miss of its checkpoint: the error budget does not cover it"


def evaluation(run_dir: Path, name: str, row: PanelResult, code: str = "a") -> None:
    """Write a stand-alone evaluation with one score."""
    with Journal(run_dir / f"journal-evaluation-{name}-0.jsonl") as journal:
        journal.append(
            EvaluationStarted(
                run_id=row.run_id, panel="p", panel_id=row.panel_id, panel_fields={}, checkpoints=[row.checkpoint],
                device="cpu", versions={"torch": "2"}, code_sha256={"acme": code}, host="h", pid=1, wall_ns=1,
            )
        )  # fmt: skip
        journal.append(row)


def verified(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return exit status and output of the check of a ledger."""
    status = verify_ledger(["--log_root", str(root)])
    return status, capsys.readouterr().out


def test_different_bitwise_scores_of_one_checkpoint_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = write_run(tmp_path, "aa", code_sha256={"acme": "a"}, versions={"torch": "2"})
    evaluation(run_dir, "same", result("aa", "model_2.pt", 9))
    assert verified(tmp_path, capsys)[0] == 0
    evaluation(run_dir, "other", result("aa", "model_2.pt", 0))
    status, out = verified(tmp_path, capsys)
    assert status == 1 and out.count("contradiction: ") == 1 and "1 wrong scores" in out
    assert "journal-1-0.jsonl:9 and " in out and "journal-evaluation-other-0.jsonl:2: checkpoint model_2.pt" in out
    assert "has 9 and 0 of 10 successes on panel p" in out


@pytest.mark.parametrize(
    "changes",
    [
        {"exactness": "statistical"},
        {"invalid": "capacity"},
        {"panel_id": "p1-bb"},
        {"device": "cuda:0"},
        {"changed_code": {"acme.success:near": "b"}},
    ],
    ids=str,
)
def test_scores_that_may_differ_are_no_contradiction(changes: dict[str, object], tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    evaluation(run_dir, "other", replace(result("aa", "model_2.pt", 0), **changes))
    assert not [*contradictions(read_ledger(tmp_path))]


def test_a_contradiction_with_recorded_other_code_is_told_but_does_not_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = write_run(tmp_path, "aa", code_sha256={"acme": "a"}, versions={"torch": "2"})
    evaluation(run_dir, "other", result("aa", "model_2.pt", 0), code="b")
    status, out = verified(tmp_path, capsys)
    assert status == 0
    assert "other code, other score: " in out and "Between them, these differ: the source of acme" in out


def judged(root: Path, *rows: PanelResult, version: int = 2) -> list[str]:
    """Return what is wrong with the proofs of a run."""
    write_proven(root, "aa", *rows, target_success=0.9, error_budget=0.05, verdict_rule=version)
    return [line.partition("journal-2-0.jsonl:")[2] for line in broken_verdicts(read_ledger(root))]


def needs(*successes: int, version: int = 2) -> list[int]:
    """Return the successes that the first panels of proofs need, if the earlier ones ended so."""
    rule = VerdictRule.of_version(version, 0.9)
    standing, found = Standing.of(0.05), []
    for won in (*successes, 0):
        standing = rule.begin(standing)
        found.append(int(rule.needs(standing, EPISODES)))
        standing = rule.after(standing, won, EPISODES)
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_the_rule_of_a_run_gives_what_its_proofs_need(version: int, tmp_path: Path) -> None:
    first, second = needs(200, version=version)
    assert second > first or version == 2
    rows = [proof_of("aa", 1, 200, first), proof_of("aa", 2, 250, second)]
    assert judged(tmp_path / "right", *rows, version=version) == []
    easier = [rows[0], proof_of("aa", 2, 235, 231)]
    assert judged(tmp_path / "wrong", *easier, version=version) == [
        f"5: proof 2 needed {second} of 256 successes by the rule of its run, not 231"
    ]


def test_an_extension_follows_a_near_miss_of_the_same_checkpoint(tmp_path: Path) -> None:
    (first,) = needs()
    far = [proof_of("aa", 1, 200, first), replace(proof_of("aa", 1, 250, 230, 1))]
    (line,) = judged(tmp_path / "far", *far)
    assert line == "5: " + BEYOND
    again = [proof_of("aa", 1, 200, first), replace(proof_of("aa", 1, 250, first), panel_id="p1-again")]
    (line,) = judged(tmp_path / "again", *again)
    assert line == "5: proof 1 has a result already: this one is not covered by the error budget"
    rule = VerdictRule(0.9)
    near = rule.after(rule.begin(Standing.of(0.05)), first - 1, EPISODES)
    more = int(rule.needs(near, EPISODES))
    rows = [proof_of("aa", 1, first - 1, first), proof_of("aa", 1, 250, more, 1)]
    assert judged(tmp_path / "near", *rows) == []


def test_an_excerpt_without_earlier_proofs_leaves_a_range(tmp_path: Path) -> None:
    fewest, _, highest = needs(0, 0)
    assert fewest < highest
    range_ = f"{fewest} to {highest}"
    for place, needed in enumerate((fewest, highest)):
        assert judged(tmp_path / f"within-{place}", proof_of("aa", 3, 250, needed)) == []
    for place, needed in enumerate((fewest - 1, highest + 1)):
        (line,) = judged(tmp_path / f"outside-{place}", proof_of("aa", 3, 250, needed))
        assert line == f"3: proof 3 needed {range_} of 256 successes by the rule of its run, not {needed}"


def test_a_check_needs_what_the_rule_says(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 9), verdict_rule=1)
    assert not [*broken_verdicts(read_ledger(tmp_path))]
    write_run(tmp_path, "bb", scores=(5, 9), verdict_rule=1, target_success=0.5)
    lines = [*broken_verdicts(read_ledger(tmp_path))]
    assert len(lines) == 2
    assert all(line.endswith("the check needed 5 successes by the rule of its run, not 9") for line in lines)


def begun_with(panels: int | None) -> dict[str, object]:
    """Return the checkpoint that a run began with, and how many proving panels its error budget counts."""
    began: dict[str, object] = {"run_id": "aa", "task": "T", "checkpoint": "model_1.pt", "sha256": "0", "env_steps": 1}
    counted = {} if panels is None else {"proof_panels": panels}
    return {**began, "wall_s": 1.0, "usd": None, **counted}


def test_a_run_begins_with_the_error_budget_that_the_run_before_had_left(tmp_path: Path) -> None:
    rows = [proof_of("aa", number, 200, needed) for number, needed in enumerate(needs(200), start=1)]
    write_proven(tmp_path, "aa", *rows, **PROVES_90)
    left = left_budget(read_ledger(tmp_path).runs[0]).budget
    assert 0 < left < 0.03
    for run_id, panels, budget in (("right", 2, left), ("early", 0, 0.05), ("before", None, 0.05), ("cut", 3, 0.05)):
        write_run(tmp_path, run_id, scores=(), began_from=begun_with(panels), error_budget=budget)
    assert [*broken_verdicts(read_ledger(tmp_path))] == []
    write_run(tmp_path, "wrong", scores=(), began_from=begun_with(2), error_budget=0.05)
    (line,) = broken_verdicts(read_ledger(tmp_path))
    assert line.startswith("run wrong in ")
    assert line.endswith(f"budget of 0.05, but run aa, whose checkpoint it began with, had left {left:g}")


def test_a_run_that_began_with_a_pretrained_policy_counts_only_the_proof_of_this_policy(tmp_path: Path) -> None:
    fails, near, passes = needs(200, 238)
    failed, missed = proof_of("aa", 1, 200, fails), proof_of("aa", 2, 238, near)
    proven = proof_of("aa", 3, EPISODES, passes)
    write_proven(tmp_path, "aa", failed, missed, proven, **PROVES_90)
    run = read_ledger(tmp_path).runs[0]
    assert left_budget_as_pretrained(run, proven.checkpoint_sha256) == LeftBudget(0.05, 1)
    assert left_budget_as_pretrained(run, missed.checkpoint_sha256) is None, "it has not proven this checkpoint"
    began = begun_with(1) | {"checkpoint": proven.checkpoint, "sha256": proven.checkpoint_sha256}
    write_run(tmp_path, "pretrained", scores=(), began_from=began, error_budget=0.05)
    assert [*broken_verdicts(read_ledger(tmp_path))] == []
    wrong = {
        "failed": {"sha256": failed.checkpoint_sha256},
        "missed": {"sha256": missed.checkpoint_sha256},
        "other": {"sha256": "0" * 64},
        "three": {"proof_panels": 3},
    }
    for run_id, changes in wrong.items():
        write_run(tmp_path, run_id, scores=(), began_from=began | changes, error_budget=0.05)
    lines = sorted(broken_verdicts(read_ledger(tmp_path)))
    assert [line.split()[1] for line in lines] == ["failed", "missed", "other", "three"]
    assert all("declares an error budget of 0.05" in line for line in lines)


def test_an_extension_in_an_excerpt_needs_what_follows_from_the_panel_before(tmp_path: Path) -> None:
    rule, hidden = VerdictRule.of_version(2, 0.9), Standing.of(0.05)
    standing = rule.begin(rule.after(rule.begin(hidden), 200, EPISODES))
    first = int(rule.needs(standing, EPISODES))
    standing = rule.after(standing, first - 1, EPISODES)
    more = int(rule.needs(standing, EPISODES))
    proven = [proof_of("aa", 2, first - 1, first), proof_of("aa", 2, more, more, 1)]
    assert judged(tmp_path / "right", *proven) == [], "proof 1 is missing"
    (line,) = judged(tmp_path / "wrong", proven[0], proof_of("aa", 2, 192, 192, 1))
    assert "extension 1 needed" in line and line.endswith("by the rule of its run, not 192")
    (line,) = judged(tmp_path / "too far", proof_of("aa", 2, 200, first), proof_of("aa", 2, more, more, 1))
    assert "does not follow a near miss" in line
